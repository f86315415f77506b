// Reverse-mode differentiation. One walk serves both worlds: over the entries of a GradientTape (eager) and
// over the nodes of the graph being captured. Gradients are written in ops in the registry's rows, so they
// can be captured, fused and differentiated again.
#pragma once

#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// d target / d sources while capturing: appends the backward nodes to the graph under capture. `seeds`
/// multiply the targets (default: ones). A source that the targets don't depend on gives an undefined tensor.
///
/// An assignment starts a new leaf, eager and captured. Reads after it depend on the new content only; no
/// gradient flows to what that content was computed from. As a source, the variable stands for the new
/// content. So a step may update one network and differentiate another one through it, or update twice.
///
/// Throws kCaptureViolation outside a capture (use GradientTape there), kUnsupported through an op without a
/// gradient, kStale where a source has been assigned since the targets were computed.
std::vector<Tensor> gradients(std::span<const Tensor> targets, std::span<const Tensor> sources,
                              std::span<const Tensor> seeds = {});
std::vector<Tensor> gradients(const Tensor& target, std::span<const Tensor> sources);

/// While capturing: the leaves of `target`, each once: the tensors from outside the graph, such as variables,
/// that it depends on through differentiable ops. Reads in bodies of loops and branches count. Throws
/// kCaptureViolation outside a capture.
std::vector<Tensor> leaves(const Tensor& target);

/// Records eager op calls on this thread from construction until the first `gradient` call (or, if
/// persistent, until destruction), and differentiates them. Inside a capture it records nothing and
/// `gradient` differentiates the graph, so the same code serves both.
///
/// Anything read while it records may be a source; `watch` only narrows what is kept.
class GradientTape {
 public:
  explicit GradientTape(bool persistent = false);
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  /// Restricts recording to what depends on watched tensors. Without any `watch` everything is recorded.
  void watch(const Tensor& tensor);
  /// As `gradients`. Throws kInvalidArgument on a second call unless persistent, kStale when a variable that
  /// was read was assigned since.
  std::vector<Tensor> gradient(std::span<const Tensor> targets, std::span<const Tensor> sources,
                               std::span<const Tensor> seeds = {});
  std::vector<Tensor> gradient(const Tensor& target, std::span<const Tensor> sources);
  Tensor gradient(const Tensor& target, const Tensor& source);
  /// As the function `leaves`, of what was recorded; uses nothing up.
  std::vector<Tensor> leaves(const Tensor& target) const;
  /// Calls recorded so far.
  size_t size() const;
  /// Forgets everything recorded and starts again; what was watched stays watched.
  void reset();
  /// While set, nothing is recorded; `gradient` of a persistent tape then leaves its own ops out too.
  void set_paused(bool paused);
  /// The innermost tape recording on this thread, or null.
  static GradientTape* current();

 private:
  struct Impl;
  Impl* impl_;
};

}  // namespace isochron
