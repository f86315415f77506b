// How many updates of its optimizer each parameter has missed, because it was frozen or had no gradient. A
// rule that corrects the bias of its states by the count of updates needs the count of the parameter's own
// ones, as PyTorch keeps it: "steps done" less those that it missed.
#pragma once

#include <memory>
#include <vector>

#include "isochron/graph/capture/variable.h"

namespace isochron::optim {

/// Copies share the counts.
class MissedUpdates {
 public:
  /// For `parameters` parameters, which have missed none.
  explicit MissedUpdates(size_t parameters);

  /// i64 (parameters): for checkpoints. A restored content takes effect in captured steps, which are traced
  /// anew if they have to be.
  const Variable& counts() const;
  /// The group of each parameter: the parameters of a group have missed the same number of updates, those of
  /// group 0 none. In a capture this holds in every replay, also after updates of other parameters by other
  /// captured steps; `updated` says which parameters the present update changes.
  std::vector<size_t> groups(const std::vector<bool>& updated) const;
  /// `counts` after an update.
  static Tensor after(const Tensor& counts, const std::vector<bool>& updated);
  /// What `step` is to the parameter at `index`: the updates of its own that it has behind it. i64 ().
  static Tensor own_steps(const Tensor& step, const Tensor& counts, size_t index);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace isochron::optim
