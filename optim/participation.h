// Which parameters take part in an optimizer's updates. A parameter takes part in an update if the update, or
// one of its micro-batches, has a gradient for it. A frozen or unused parameter misses the update: the
// parameter and its states don't change. A rule with bias correction counts only the updates in which the
// parameter took part, as in PyTorch.
#pragma once

#include <memory>
#include <vector>

#include "isochron/graph/capture/variable.h"

namespace isochron::optim {

/// Copies share the state.
class Participation {
 public:
  /// For `parameters` parameters, before the first update.
  explicit Participation(size_t parameters);
  /// Adds `more` parameters, which have missed all `updates` updates so far and, if `within_update`, the
  /// micro-batches of the present update. Replaces both variables below by new ones.
  void add(size_t more, int64_t updates, bool within_update);

  // Checkpoints hold both variables. Restored contents take effect in captured steps, which are traced anew
  // if they have to be.
  /// i64 (parameters): how many updates each has missed.
  const Variable& missed() const;
  /// i64 (parameters): 1 if no micro-batch of the present update has had a gradient for the parameter yet,
  /// else 0.
  const Variable& unused() const;

  /// The group of each parameter. The parameters of a group have missed the same number of updates (in group
  /// 0, none), and each micro-batch has gradients for all of them or for none. In a capture this holds in
  /// every replay, even if other captured steps use other parameters. `uses` says which parameters have a
  /// gradient now.
  std::vector<size_t> groups(const std::vector<bool>& uses) const;
  /// `uses` as i64: 1 or 0.
  static Tensor mask(const std::vector<bool>& uses);
  /// The number of updates in which the parameter at `index` took part, given the number of all updates,
  /// `step`. i64 ().
  static Tensor own_steps(const Tensor& step, const Tensor& missed, size_t index);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace isochron::optim
