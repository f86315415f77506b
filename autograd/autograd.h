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

/// While capturing: computes d(sum of targets) / d sources by appending the backward nodes to the captured
/// graph. `seeds` (grad_outputs in PyTorch) holds one tensor per target, of the target's dtype and shape, by
/// which the target is weighted; default: ones. A target with an undefined seed is ignored. The result for a
/// source that the targets don't depend on is an undefined tensor.
///
/// Assigning a variable makes it a new leaf, both in eager mode and in a capture: later reads depend on the
/// new content only, and no gradient flows to the values from which that content was computed. A variable
/// passed as a source stands for its newest content. So a step may update one network and differentiate
/// another one through it, or update a network twice.
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

/// For calls such as gradients({y}, {x, w}, {seed}).
inline std::vector<Tensor> gradients(std::initializer_list<Tensor> targets,
                                     std::initializer_list<Tensor> sources,
                                     std::initializer_list<Tensor> seeds = {}) {
  return gradients(std::span(targets.begin(), targets.size()), std::span(sources.begin(), sources.size()),
                   std::span(seeds.begin(), seeds.size()));
}

std::vector<Tensor> gradients(const Tensor& target, std::span<const Variable> sources);

/// While capturing: the leaves of `target`, each once. These are the tensors from outside the graph, such as
/// variables, that `target` depends on through differentiable ops, including those read in the bodies of
/// loops and branches. Throws kCaptureViolation outside a capture.
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
  /// While paused, the tape records nothing. A persistent tape then doesn't record the ops of its own
  /// `gradient` calls either.
  void set_paused(bool paused);
  /// The innermost tape recording on this thread, or null.
  static GradientTape* current();

 private:
  struct Impl;
  Impl* impl_;
};

}  // namespace isochron
