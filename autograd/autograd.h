// Reverse-mode differentiation. One backward walk serves both modes: it runs over the entries of a
// GradientTape (eager) or the nodes of the graph being captured. The registry's rows define gradients in
// terms of ops, so gradients can be captured, fused and differentiated again.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"
#include "isochron/graph/capture/variable.h"

namespace isochron {

/// Computes d(sum of targets) / d sources while capturing: appends the backward nodes to the graph under
/// capture. `seeds`: one tensor per target, with its dtype and shape, by which its gradient is weighted;
/// default: ones; an undefined seed leaves its target out. For a source that the targets don't depend on, the
/// result is an undefined tensor.
///
/// An assignment starts a new leaf, both in eager mode and in a capture. Reads after it depend on the new
/// content only; no gradient flows to the values from which that content was computed. As a source, the
/// variable represents the new content. So a step may update one network and differentiate another one
/// through it, or update twice.
///
/// Throws kCaptureViolation outside a capture (use GradientTape instead), kUnsupported for a path through an
/// op without a gradient, kStale if a source has been assigned since the targets were computed,
/// kInvalidArgument for an undefined target, kDtypeMismatch for a target that isn't floating, kShapeMismatch
/// for a seed that differs from its target.
std::vector<Tensor> gradients(std::span<const Tensor> targets, std::span<const Tensor> sources,
                              std::span<const Tensor> seeds = {});
std::vector<Tensor> gradients(const Tensor& target, std::span<const Tensor> sources);
inline std::vector<Tensor> gradients(const Tensor& target, std::initializer_list<Tensor> sources) {
  return gradients(target, std::span(sources.begin(), sources.size()));
}

/// gradients({y}, {x, w}, {seed}).
inline std::vector<Tensor> gradients(std::initializer_list<Tensor> targets,
                                     std::initializer_list<Tensor> sources,
                                     std::initializer_list<Tensor> seeds = {}) {
  return gradients(std::span(targets.begin(), targets.size()), std::span(sources.begin(), sources.size()),
                   std::span(seeds.begin(), seeds.size()));
}

std::vector<Tensor> gradients(const Tensor& target, std::span<const Variable> sources);

/// While capturing: the leaves of `target`, each once. These are the tensors from outside the graph, such as
/// variables, that `target` depends on through differentiable ops. Reads in the bodies of loops and branches
/// count. Throws kCaptureViolation outside a capture.
std::vector<Tensor> leaves(const Tensor& target);

/// Records eager op calls on this thread from construction until the first `gradient` call (or, if
/// persistent, until destruction), and differentiates them. Inside a capture it records nothing and
/// `gradient` differentiates the graph, so the same code serves both.
///
/// Any tensor that is read during recording may be a source; `watch` only restricts what is kept.
class GradientTape {
 public:
  explicit GradientTape(bool persistent = false);
  ~GradientTape();
  GradientTape(const GradientTape&) = delete;
  GradientTape& operator=(const GradientTape&) = delete;

  /// Restricts recording to calls that depend on watched tensors. Without any `watch`, everything is
  /// recorded. Throws kDtypeMismatch unless `tensor` is floating.
  void watch(const Tensor& tensor);
  /// Like `gradients`. Throws kInvalidArgument on a second call unless persistent, kStale if a variable has
  /// been assigned since it was read.
  std::vector<Tensor> gradient(std::span<const Tensor> targets, std::span<const Tensor> sources,
                               std::span<const Tensor> seeds = {});
  std::vector<Tensor> gradient(const Tensor& target, std::span<const Tensor> sources);
  std::vector<Tensor> gradient(const Tensor& target, std::initializer_list<Tensor> sources) {
    return gradient(target, std::span(sources.begin(), sources.size()));
  }
  std::vector<Tensor> gradient(std::initializer_list<Tensor> targets, std::initializer_list<Tensor> sources,
                               std::initializer_list<Tensor> seeds = {}) {
    return gradient(std::span(targets.begin(), targets.size()), std::span(sources.begin(), sources.size()),
                    std::span(seeds.begin(), seeds.size()));
  }
  std::vector<Tensor> gradient(const Tensor& target, std::span<const Variable> sources);
  Tensor gradient(const Tensor& target, const Tensor& source);
  /// Like the function `leaves`, for the recorded calls; doesn't use up the tape.
  std::vector<Tensor> leaves(const Tensor& target) const;
  /// The number of calls recorded so far.
  size_t size() const;
  /// Discards all records and starts again; watched tensors stay watched.
  void reset();
  /// While paused, nothing is recorded; `gradient` of a persistent tape doesn't record its own ops then
  /// either.
  void set_paused(bool paused);
  /// The innermost tape recording on this thread, or null.
  static GradientTape* current();

 private:
  struct Impl;
  Impl* impl_;
};

}  // namespace isochron
