#include "isochron/optim/missed_updates.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "isochron/graph/capture/capture.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::optim {

/// The groups of captured steps only ever split, so that a plan's groups stay right after newer ones were
/// made for another plan, up to those that it leaves whole and another plan updates in part: that changes
/// `version`.
struct MissedUpdates::State {
  Variable counts;
  std::vector<size_t> group;
  int64_t version = 0;
  int64_t assigned = 0;  // how often, when the groups were last compared with the counts

  std::vector<int64_t> missed() const {
    const graph::EagerScope eager;
    const std::vector<double> numbers = counts.tensor().to_vector();
    return {numbers.begin(), numbers.end()};
  }

  /// Whether the groups hold for the present counts, which may have been restored.
  bool holds() {
    const int64_t now = counts.assignments().value();
    if (now != assigned && divided(group, missed()) == group) assigned = now;
    return now == assigned;
  }

  void split(const std::vector<int64_t>& by) {
    std::vector<size_t> groups = divided(group, by);
    if (groups == group) return;
    group = std::move(groups);
    ++version;
    graph::TracedSettings::note_change();
  }

  /// `groups` divided into parts of equal `by`, in the order of their first members. What is in group 0 and
  /// has the number 0 stays there.
  static std::vector<size_t> divided(const std::vector<size_t>& groups, const std::vector<int64_t>& by) {
    std::map<std::pair<size_t, int64_t>, size_t> parts = {{{0, 0}, 0}};
    std::vector<size_t> result;
    for (size_t i = 0; i < groups.size(); ++i)
      result.push_back(parts.try_emplace({groups[i], by[i]}, parts.size()).first->second);
    return result;
  }
};

MissedUpdates::MissedUpdates(size_t parameters) : state_(std::make_shared<State>()) {
  const graph::EagerScope eager;
  state_->counts = Variable(zeros({static_cast<int64_t>(parameters)}, DType::kI64), "missed_updates", false);
  state_->assigned = state_->counts.assignments().value();
  state_->group.assign(parameters, 0);
}

const Variable& MissedUpdates::counts() const { return state_->counts; }

std::vector<size_t> MissedUpdates::groups(const std::vector<bool>& updated) const {
  const uint64_t trace = graph::capture_serial();
  if (trace == 0) return State::divided(std::vector<size_t>(updated.size(), 0), state_->missed());
  state_->split(state_->missed());
  state_->assigned = state_->counts.assignments().value();
  std::vector<int64_t> left_out(updated.size());
  std::ranges::transform(updated, left_out.begin(), [](bool is) { return is ? 0 : 1; });
  state_->split(left_out);
  // The groups that this trace splits further on are right in its first call, so that it is traced once more.
  const auto now = [state = state_, trace, version = state_->version] {
    if (graph::capture_serial() == trace) return version;
    return state->holds() ? state->version : -1;
  };
  graph::note_setting(
      state_.get(), 0, [] { return "which updates parameters missed"; }, now);
  return state_->group;
}

Tensor MissedUpdates::after(const Tensor& counts, const std::vector<bool>& updated) {
  const Tensor left_out = full({std::ssize(updated)}, 0, DType::kI64);
  std::ranges::transform(updated, left_out.data<int64_t>(), [](bool is) { return is ? 0 : 1; });
  return counts + constant(left_out);
}

Tensor MissedUpdates::own_steps(const Tensor& step, const Tensor& counts, size_t index) {
  return step - select(counts, static_cast<int64_t>(index));
}

}  // namespace isochron::optim
