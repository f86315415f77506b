#include "isochron/observe/cause.h"

#include <fmt/format.h>

#include <algorithm>

#include "isochron/observe/windows.h"

namespace isochron::observe {
namespace {

constexpr auto kAtLeast = Condition::kAtLeast;
constexpr auto kBelow = Condition::kBelow;

constexpr CauseRule kRules[] = {
    {"the machine slowed, not the program",
     "compare with a run on a quiet machine",
     kMachine,
     {{{"time.machine_slowed", kAtLeast, 0.5}}}},
    {"ops added in the loop",
     "build the graph once, or capture the loop's body",
     kTimeGrows | kMemoryGrows,
     {{{"graph_nodes.growing", kAtLeast, 0.5}, {"traces.per_iteration", kBelow, 0.01}}}},
    {"ops added in the loop",
     "start a new tape each step, or stop the gradient at the loop's carried value",
     kTimeGrows | kMemoryGrows,
     {{{"tape_entries.drives_time", kAtLeast, 0.3}}}},
    {"retraced for new signatures",
     "fix or pad the shapes, or plan all signatures before the loop",
     kTimeGrows | kMemoryGrows | kSlow,
     {{{"traces.per_iteration", kAtLeast, 0.01}}}},
    {"optimizer state made again",
     "make the optimizer once, outside the loop",
     kTimeGrows | kMemoryGrows | kSlow,
     {{{"optimizer_states.per_iteration", kAtLeast, 0.01}}}},
    {"retained losses or history",
     "keep the number, not the tensor; give the tape back after each step",
     kTimeGrows | kMemoryGrows,
     {{{"tape_entries.growing", kAtLeast, 0.5}, {"tape_entries.drives_time", kBelow, 0.3}}}},
    {"retained losses or history",
     "keep the number, not the tensor",
     kTimeGrows | kMemoryGrows,
     {{{"live_tensors.growing", kAtLeast, 0.5},
       {"graph_nodes.growing", kBelow, 0.5},
       {"tape_entries.growing", kBelow, 0.5},
       {"cached_bytes.growing", kBelow, 0.5},
       {"buffered_elements.growing", kBelow, 0.5}}}},
    {"prefetch or cache without a bound",
     "give shuffle, prefetch and cache a size that fits the memory",
     kTimeGrows | kMemoryGrows,
     {{{"buffered_elements.growing", kAtLeast, 0.5}}}},
    {"prefetch or cache without a bound",
     "cache once and on a bound, or not at all",
     kTimeGrows | kMemoryGrows,
     {{{"cached_bytes.growing", kAtLeast, 0.5}}}},
    {"host heap fragmentation",
     "plan the step into an arena, or pool by size class",
     kMemoryGrows,
     {{{"bytes_reserved.growing", kAtLeast, 0.5}, {"bytes_in_use.growing", kBelow, 0.5}}}},
    {"swapping",
     "make the model or the buffers smaller",
     kTimeGrows | kSlow,
     {{{"major_faults.per_second", kAtLeast, 100}}}},
    {"page faults",
     "reuse memory instead of giving it back to the system each step",
     kTimeGrows | kSlow,
     {{{"minor_faults.per_second", kAtLeast, 1e5}}}},
    {"data read again from disk",
     "cache the decoded data set in memory",
     kSlow,
     {{{"disk_read_bytes.per_iteration", kAtLeast, 1}}}},
    {"starvation by the input",
     "prefetch, or map in parallel",
     kTimeGrows,
     {{{"phase.data_wait.growth_share", kAtLeast, 0.5}}}},
    {"starvation by the input",
     "prefetch, or map in parallel",
     kSlow,
     {{{"phase.data_wait.share", kAtLeast, 0.3}}}},
    {"synchronous or many small transfers",
     "copy whole batches from pinned buffers while the step before computes",
     kTimeGrows,
     {{{"phase.host_to_device.growth_share", kAtLeast, 0.5}}}},
    {"synchronous or many small transfers",
     "copy whole batches from pinned buffers while the step before computes",
     kSlow,
     {{{"phase.host_to_device.share", kAtLeast, 0.3}}}},
    {"system allocations in each step",
     "plan the step into an arena",
     kSlow,
     {{{"system_allocations.per_iteration", kAtLeast, 1}}}},
    {"checkpoints pile up",
     "keep the last few, or save less often",
     kDiskGrows,
     {{{"disk_bytes.growing", kAtLeast, 0.5}, {"disk_bytes.weights_share", kAtLeast, 0.3}}}},
    {"checkpoints block",
     "save in the background, or less often",
     kTimeGrows,
     {{{"phase.checkpoint.growth_share", kAtLeast, 0.5}}}},
    {"checkpoints block",
     "save in the background, or less often",
     kSlow,
     {{{"phase.checkpoint.share", kAtLeast, 0.3}}}},
    {"event files and logs pile up",
     "log less often, rotate, and clean up the temporary folder",
     kDiskGrows,
     {{{"disk_bytes.growing", kAtLeast, 0.5}, {"disk_bytes.weights_share", kBelow, 0.7}}}},
    {"stolen CPU time", "use a machine of its own", kTimeGrows | kSlow, {{{"stolen.share", kAtLeast, 0.05}}}},
    {"the profiler itself",
     "sample less often, or time longer steps",
     kSlow,
     {{{"overhead.share", kAtLeast, 0.05}}}},
};

constexpr std::string_view kMemorySeries[] = {"rss_bytes",    "bytes_in_use", "bytes_reserved",
                                              "live_tensors", "tape_entries", "graph_nodes"};

unsigned symptoms_of(const Evidence& evidence) {
  unsigned symptoms = kMachine;
  if (evidence.holds("time.growing")) symptoms |= kTimeGrows;
  for (std::string_view series : kMemorySeries) {
    if (evidence.holds(fmt::format("{}.growing", series))) symptoms |= kMemoryGrows;
  }
  if (evidence.holds("disk_bytes.growing")) symptoms |= kDiskGrows;
  if (evidence.get("time.slower").value_or(kSlowFactor) >= kSlowFactor) symptoms |= kSlow;
  return symptoms;
}

bool holds(const Condition& condition, const Evidence& evidence) {
  const std::optional<double> value = evidence.get(condition.quantity);
  switch (condition.comparison) {
    case Condition::kAtLeast:
      return value && *value >= condition.threshold;
    case Condition::kBelow:
      return !value || *value < condition.threshold;
    case Condition::kNone:
      return true;
  }
  return false;
}

std::string numbers_of(const CauseRule& rule, const Evidence& evidence) {
  std::string text;
  for (const Condition& condition : rule.conditions) {
    const std::optional<double> value = evidence.get(condition.quantity);
    if (condition.comparison != kAtLeast || !value) continue;
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", condition.quantity, *value);
  }
  return text;
}

Cause unexplained(unsigned symptoms, const Evidence& evidence) {
  std::vector<std::string> what;
  if (symptoms & kTimeGrows) what.emplace_back("time grows");
  if (symptoms & kMemoryGrows) what.emplace_back("memory grows");
  if (symptoms & kDiskGrows) what.emplace_back("disk use grows");
  std::string text = fmt::format("{}", fmt::join(what, ", "));
  std::string_view most;
  double largest = 0;
  for (size_t p = 0; p < kPhaseCount; ++p) {
    const std::string_view phase = phase_name(static_cast<Phase>(p));
    const double share = evidence.get(fmt::format("phase.{}.growth_share", phase)).value_or(0);
    if (share <= largest) continue;
    largest = share;
    most = phase;
  }
  if ((symptoms & kTimeGrows) && !most.empty())
    text += fmt::format("; {:.0f} % of it in phase {}", 100 * largest, most);
  return {"unexplained", "profile the phase, and add a gauge for what may grow", text};
}

}  // namespace

std::optional<double> Evidence::get(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::nullopt : std::optional<double>(found->second);
}

std::span<const CauseRule> cause_rules() { return kRules; }

std::vector<Cause> attribute(const Evidence& evidence) {
  const unsigned symptoms = symptoms_of(evidence);
  unsigned open = symptoms & (kTimeGrows | kMemoryGrows | kDiskGrows);
  std::vector<Cause> causes;
  for (const CauseRule& rule : kRules) {
    const bool matches = (rule.explains & symptoms) != 0 &&
                         std::all_of(rule.conditions.begin(), rule.conditions.end(),
                                     [&](const Condition& condition) { return holds(condition, evidence); });
    if (!matches) continue;
    open &= ~rule.explains;
    const bool named = std::any_of(causes.begin(), causes.end(),
                                   [&](const Cause& cause) { return cause.name == rule.cause; });
    if (!named)
      causes.push_back({std::string(rule.cause), std::string(rule.mend), numbers_of(rule, evidence)});
  }
  if (open != 0) causes.push_back(unexplained(open, evidence));
  return causes;
}

}  // namespace isochron::observe
