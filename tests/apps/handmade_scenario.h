// Results of compare's loops that no run has measured, for tests of what compare says of them.
#pragma once

#include <string>

#include "isochron/apps/compare/scenarios/scenario.h"

namespace isochron::apps {

/// A loop of `iterations` iterations. Each window has a hundredth of them; its times go from `first_ns` to
/// `last_ns`.
inline LoopResult ran(const std::string& name, int64_t iterations, double first_ns, double last_ns) {
  LoopResult result;
  observe::RunReport& report = result.report;
  report.name = name;
  report.iterations = iterations;
  report.time.kind = last_ns > 1.1 * first_ns ? observe::Flatness::kGrowing : observe::Flatness::kFlat;
  report.duration_ns.mean = (first_ns + last_ns) / 2;
  report.duration_ns.p50 = report.duration_ns.mean;
  constexpr int64_t kWindows = 100;
  for (int64_t w = 0; w < kWindows; ++w) {
    const double ns = first_ns + (last_ns - first_ns) * static_cast<double>(w) / (kWindows - 1);
    observe::Window window;
    window.first_iteration = w * iterations / kWindows;
    window.last_iteration = (w + 1) * iterations / kWindows - 1;
    window.iterations = iterations / kWindows;
    window.total_ns = static_cast<int64_t>(ns * static_cast<double>(window.iterations));
    window.quantiles_ns.fill(static_cast<float>(ns));
    report.windows.push_back({0, window});
  }
  return result;
}

inline void add_level(LoopResult& result, const std::string& name, observe::Flatness kind, double from,
                      double to) {
  observe::SeriesReport series;
  series.name = name;
  series.first = from;
  series.last = to;
  series.values = {from, (from + to) / 2, to};
  observe::FlatnessVerdict verdict;
  verdict.kind = kind;
  verdict.first_tenth = from;
  verdict.last_tenth = to;
  verdict.windows = 100;
  series.verdict = std::move(verdict);
  result.report.series.push_back(std::move(series));
  result.report.sample_iterations = {0, result.report.iterations / 2, result.report.iterations};
}

/// Loops: one slows down, one uses more and more memory, one pauses, one is slow, one trains incorrectly, and
/// two are cured. The second cured loop does ten iterations in one.
struct HandmadeScenario {
  HandmadeScenario() {
    scenario.name = "scenario";
    scenario.complaint = "it slows";
    scenario.summary = "What there is to see.";
    for (const char* name : {"slow", "pausing", "wrong", "full", "slowing"})
      scenario.loops.push_back({.name = name, .what = ""});
    scenario.loops[2].fault = KnownFault{"trains incorrectly", "lost sums", "keep the sums"};
    scenario.loops.push_back({.name = "cured", .what = "", .cured = true, .iterations_per_epoch = 100});
    scenario.loops.push_back({.name = "cured in tens",
                              .what = "",
                              .cured = true,
                              .iterations_per_epoch = 100,
                              .work_per_iteration = 10});
    scenario.loops[0].iterations_per_epoch = 100;

    add("slow", 3000, 3e4, 3e4).report.causes = {{"one by one", "capture it", ""},
                                                 {"stolen CPU time", "", ""}};
    observe::SpikeReport& spikes = add("pausing", 3000, 1e4, 1e4).report.spikes;
    spikes.period = observe::Period{404, 1, 1};
    spikes.label = "memory taken";
    spikes.time_share = 0.82;
    add("wrong", 3000, 1e4, 1e4);
    add_level(add("full", 4000, 1e4, 1e4), "rss_bytes", observe::Flatness::kGrowing, 1e6, 6.45e8);
    add("slowing", 1000, 1e5, 5e5).report.causes = {{"ops added", "build it once", ""},
                                                    {"another", "stop <it>", ""}};
    add_level(add("cured", 3000, 1e4, 1e4), "rss_bytes", observe::Flatness::kFlat, 1e6, 1e6);
    add("cured in tens", 3000, 5e4, 5e4);
    const double slower[] = {3, 1, 1, 1, 30, 1, 0.5};
    for (size_t i = 0; i < result.loops.size(); ++i)
      result.loops[i].report.times_slower = result.loops[i].report.median_times_slower = slower[i];
    result.loops[0].epochs_ns = {4e6, 3e6};
    result.loops[6].epochs_ns = {6e6, 5e6};
  }
  LoopResult& add(const std::string& name, int64_t iterations, double first_ns, double last_ns) {
    result.loops.push_back(ran(name, iterations, first_ns, last_ns));
    return result.loops.back();
  }

  Scenario scenario;
  ScenarioResult result{&scenario, {}, {}};
};

}  // namespace isochron::apps
