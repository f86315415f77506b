// How the findings for a loop deviate from what the documents say.
#include <fmt/format.h>

#include <algorithm>

#include "isochron/apps/compare/scenarios/scenario.h"
#include "isochron/core/base/error.h"
#include "isochron/core/text/count_text.h"

namespace isochron::apps {
namespace {

using observe::Flatness;
using observe::RunReport;

bool names_cause(const RunReport& report, const std::string& cause) {
  return std::ranges::any_of(report.causes, [&cause](const observe::Cause& c) {
    return c.name == cause || std::ranges::find(c.consequences, cause) != c.consequences.end();
  });
}

std::string cause_list(const RunReport& report) {
  std::string text;
  for (const observe::Cause& cause : report.causes) text += (text.empty() ? "" : ", ") + cause.name;
  return text.empty() ? "none" : text;
}

void check_time(const Loop& loop, const RunReport& report, std::vector<Deviation>& found) {
  const std::vector<Flatness>& expected = loop.expected.time;
  const Flatness kind = report.time.kind;
  if (!loop.expected.allows(kind)) {
    found.push_back(
        {fmt::format("time {}", flatness_name(kind)),
         fmt::format("the time is {}, expected {}", flatness_name(kind), flatness_name(expected.front())),
         kind == Flatness::kInconclusive});
  }
  if (loop.expected.slow && !is_slow(report)) {
    found.push_back({"not slow", "expected to be slower than the cured form, but it is not"});
  }
}

/// The name of a sampled series in texts.
std::string shown_name(std::string_view series) {
  constexpr std::pair<std::string_view, const char*> kNames[] = {
      {"rss_bytes", "memory"}, {"disk_bytes", "disk use"}, {"bytes_in_use", "memory in use"}};
  for (const auto& [name, shown] : kNames)
    if (name == series) return shown;
  std::string words(series);
  std::ranges::replace(words, '_', ' ');
  return words;
}

void check_level(const observe::SeriesReport& series, std::span<const Flatness> expected,
                 std::vector<Deviation>& found) {
  if (expected.empty()) return;
  const Flatness kind = series.verdict ? series.verdict->kind : Flatness::kInconclusive;
  const Flatness grown = kind == Flatness::kShrinking ? Flatness::kFlat : kind;
  if (std::ranges::find(expected, grown) != expected.end()) return;
  const std::string name = shown_name(series.name);
  found.push_back(
      {fmt::format("{} {}", name, flatness_name(kind)),
       fmt::format("{} is {}, expected {}", name, flatness_name(kind), flatness_name(expected.front())),
       kind == Flatness::kInconclusive});
}

/// Checks memory, disk use, and the series that is expected to grow.
void check_levels(const Loop& loop, const RunReport& report, std::vector<Deviation>& found) {
  // Files are created and removed, so the verdict on their total size may be inconclusive.
  constexpr Flatness kNotGrowing[] = {Flatness::kFlat, Flatness::kInconclusive};
  constexpr Flatness kGrowing[] = {Flatness::kGrowing};
  for (const observe::SeriesReport& series : report.series) {
    if (series.name == loop.expected.grows) {
      check_level(series, kGrowing, found);
    } else if (series.name == "rss_bytes") {
      check_level(series, loop.expected.memory, found);
    } else if (series.name == "disk_bytes") {
      check_level(series, kNotGrowing, found);
    }
  }
}

void check_causes(const Loop& loop, const RunReport& report, std::vector<Deviation>& found) {
  const Expectation& expected = loop.expected;
  if (!expected.cause.empty() && !names_cause(report, expected.cause)) {
    // Causes are named for symptoms. If it isn't decided whether there is a symptom, no cause can be named.
    found.push_back({fmt::format("cause {}", cause_list(report)),
                     fmt::format("causes found: {}; expected '{}'", cause_list(report), expected.cause),
                     report.time.kind == Flatness::kInconclusive && report.causes.empty()});
  }
  const bool own =
      !std::ranges::all_of(report.causes, [](const auto& c) { return observe::of_machine(c.name); });
  if (expected.cause.empty() && loop.cured && own) {
    found.push_back({fmt::format("cause {}", cause_list(report)),
                     fmt::format("causes found: {}; expected none", cause_list(report))});
  }
}

void check_spikes(const Loop& loop, const RunReport& report, std::vector<Deviation>& found) {
  const Expectation& expected = loop.expected;
  if (!expected.spike_period) return;
  const std::string owner = report.spikes.owner_name();
  if (report.spikes.period && report.spikes.period->length == *expected.spike_period &&
      owner == expected.spike_label) {
    return;
  }
  const std::string period =
      report.spikes.period ? fmt::format("{}", report.spikes.period->length) : std::string("none");
  found.push_back({fmt::format("spikes of {}, period {}", owner, period),
                   fmt::format("spikes owned by '{}' with period {}; expected '{}' with period {}", owner,
                               period, expected.spike_label, *expected.spike_period)});
}

}  // namespace

const Loop& held_against(const Scenario& scenario, const Loop& loop) {
  const auto found = std::ranges::find_if(scenario.loops, [&](const Loop& other) {
    return loop.against.empty() ? other.cured : other.name == loop.against;
  });
  require(found != scenario.loops.end(), ErrorCode::kInvalidArgument, scenario.name,
          "'{}' has no loop to be compared with", loop.name);
  return *found;
}

bool is_slow(const RunReport& report) {
  constexpr double kMinOfPauses = 0.1;
  const bool paused = report.spikes.period && report.spikes.time_share >= kMinOfPauses;
  return report.times_slower.value_or(1) >= observe::kSlowFactor &&
         (paused || report.median_times_slower.value_or(1) >= observe::kSlowFactor);
}

std::vector<Deviation> deviations_of(const Loop& loop, const LoopResult& result) {
  const RunReport& report = result.report;
  const bool ends_sooner = loop.max_iterations > 0 && loop.max_iterations < loop.iterations_per_epoch;
  if (report.iterations > 0 && report.iterations < loop.iterations_per_epoch && !ends_sooner)
    return {{"too short",
             fmt::format("too short to judge: {}, but an epoch has {}",
                         isochron::count_text(report.iterations, "iteration"), loop.iterations_per_epoch),
             true}};
  std::vector<Deviation> found;
  check_time(loop, report, found);
  check_levels(loop, report, found);
  check_causes(loop, report, found);
  check_spikes(loop, report, found);
  const auto says_fragmentation = [](const std::string& note) {
    return note.find("fragmentation") != std::string::npos;
  };
  if (loop.expected.reports_fragmentation && std::ranges::none_of(result.notes, says_fragmentation)) {
    found.push_back({"no fragmentation", "no note says how fragmented the memory was"});
  }
  if (loop.expected.no_allocations && report.heap_allocations_per_step.value_or(0) > 0) {
    found.push_back({"allocations", fmt::format("{:g} heap allocations per step, expected none",
                                                *report.heap_allocations_per_step)});
  }
  return found;
}

}  // namespace isochron::apps
