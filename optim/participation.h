// Which parameters take part in an optimizer's updates. A parameter takes part in an update if the update, or
// one of its micro-batches, has a gradient of it. Others miss it, because they are frozen or not used:
// parameter and states stay as they are, and a rule that corrects the bias of its states counts a parameter's
// own updates, as in PyTorch.
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
  /// `more` parameters, which have missed all of `updates` updates and, with `within_update`, the
  /// micro-batches so far of the present one. Makes new variables.
  void add(size_t more, int64_t updates, bool within_update);

  // Checkpoints hold both variables. Restored contents take effect in captured steps, which are traced anew
  // if they have to be.
  /// i64 (parameters): how many updates each has missed.
  const Variable& missed() const;
  /// i64 (parameters): 1 where none of the micro-batches so far of the present update has a gradient, else 0.
  const Variable& unused() const;

  /// The group of each parameter. The parameters of a group have missed the same number of updates, those of
  /// group 0 none, and each micro-batch has a gradient of all of them or none. In a capture this holds in
  /// every replay, also if other captured steps use other parameters. `uses` says which parameters have a
  /// gradient now.
  std::vector<size_t> groups(const std::vector<bool>& uses) const;
  /// `uses` as i64: 1 or 0.
  static Tensor mask(const std::vector<bool>& uses);
  /// The updates that the parameter at `index` has behind it, if the optimizer has `step`. i64 ().
  static Tensor own_steps(const Tensor& step, const Tensor& missed, size_t index);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace isochron::optim
