#include "isochron/optim/participation.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::optim {

/// The groups of captured steps are only ever split further. A split changes `version`, so that plans with
/// the older groups are traced anew.
struct Participation::State {
  Variable missed, unused;
  std::vector<size_t> group;
  int64_t version = 0;
  int64_t assigned = 0;  // `assignments()` when the groups were last compared with the contents

  int64_t assignments() const { return missed.assignments().value() + unused.assignments().value(); }

  /// `groups`, divided by the contents of `missed` and `unused`. If all parameters are in group 0 and nothing
  /// was assigned, the contents are zeros and needn't be read from a device.
  std::vector<size_t> divided_by_contents(const std::vector<size_t>& groups) const {
    const auto is_first = [](size_t number) { return number == 0; };
    if (assigned == assignments() && std::ranges::all_of(group, is_first)) return groups;
    const auto numbers_of = [](const Variable& variable) {
      const graph::EagerScope eager;
      const std::vector<double> numbers = variable.tensor().to_vector();
      return std::vector<int64_t>(numbers.begin(), numbers.end());
    };
    return divided(divided(groups, numbers_of(missed)), numbers_of(unused));
  }

  /// Whether the groups hold for the present contents, which may have been restored.
  bool holds() {
    const int64_t now = assignments();
    if (now != assigned && divided_by_contents(group) == group) assigned = now;
    return now == assigned;
  }

  void set(std::vector<size_t> groups) {
    if (groups == group) return;
    group = std::move(groups);
    ++version;
    graph::TracedSettings::note_change();
  }

  /// Divides `groups` into parts of equal `by`, numbered in the order of their first members. Members of
  /// group 0 whose `by` is 0 stay in group 0.
  static std::vector<size_t> divided(const std::vector<size_t>& groups, const std::vector<int64_t>& by) {
    std::map<std::pair<size_t, int64_t>, size_t> parts = {{{0, 0}, 0}};
    std::vector<size_t> result;
    for (size_t i = 0; i < groups.size(); ++i)
      result.push_back(parts.try_emplace({groups[i], by[i]}, parts.size()).first->second);
    return result;
  }
};

Participation::Participation(size_t parameters) : state_(std::make_shared<State>()) {
  add(parameters, 0, false);
}

void Participation::add(size_t more, int64_t updates, bool within_update) {
  const graph::EagerScope eager;
  const size_t before = state_->group.size();
  const auto longer = [&](Variable& variable, const char* name, int64_t value) {
    const Tensor content =
        full({static_cast<int64_t>(before + more)}, static_cast<double>(value), DType::kI64);
    if (before > 0) {
      const Tensor there = to_device(variable.tensor(), {});
      std::copy_n(there.data<int64_t>(), before, content.data<int64_t>());
    }
    variable = Variable(content, name, false);
    static_cast<void>(variable.assignments());  // counts assignments from now on
  };
  longer(state_->missed, "missed_updates", updates);
  longer(state_->unused, "unused", within_update ? 1 : 0);
  std::vector<size_t> groups = state_->group;
  const bool as_all = updates == 0 && !within_update;
  const size_t next = 1 + (before == 0 ? 0 : std::ranges::max(groups));
  groups.insert(groups.end(), more, as_all ? 0 : next);
  state_->assigned = state_->assignments();
  state_->set(std::move(groups));
}

const Variable& Participation::missed() const { return state_->missed; }
const Variable& Participation::unused() const { return state_->unused; }

std::vector<size_t> Participation::groups(const std::vector<bool>& uses) const {
  std::vector<int64_t> left_out(uses.size());
  std::ranges::transform(uses, left_out.begin(), [](bool is) { return is ? 0 : 1; });
  const uint64_t trace = graph::capture_serial();
  const std::vector<size_t>& before = trace == 0 ? std::vector<size_t>(uses.size(), 0) : state_->group;
  std::vector<size_t> groups = State::divided(state_->divided_by_contents(before), left_out);
  if (trace == 0) return groups;
  state_->set(std::move(groups));
  state_->assigned = state_->assignments();
  // The groups that this trace splits further on are right in its first call, so that it is traced once more.
  const auto now = [state = state_, trace, version = state_->version] {
    if (graph::capture_serial() == trace) return version;
    return state->holds() ? state->version : -1;
  };
  graph::note_setting(
      state_.get(), 0, [] { return "which parameters take part in updates"; }, now);
  return state_->group;
}

Tensor Participation::mask(const std::vector<bool>& uses) {
  const Tensor result = full({std::ssize(uses)}, 0, DType::kI64);
  std::ranges::transform(uses, result.data<int64_t>(), [](bool is) { return is ? 1 : 0; });
  return constant(result);
}

Tensor Participation::own_steps(const Tensor& step, const Tensor& missed, size_t index) {
  return step - select(missed, static_cast<int64_t>(index));
}

}  // namespace isochron::optim
