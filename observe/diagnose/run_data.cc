#include "isochron/observe/diagnose/run_data.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "isochron/core/base/error.h"
#include "isochron/observe/diagnose/evidence.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {
namespace {

std::vector<SpikeRecord> records_of(const std::vector<Spike>& spikes) {
  std::vector<SpikeRecord> result;
  for (const Spike& spike : spikes) {
    result.push_back({spike.iteration, spike.duration_ns, spike.usual_ns, spike.owner,
                      spike.label == nullptr ? "" : spike.label});
  }
  return result;
}

thread_local int64_t t_simulated_ns = 0;
// If the durations are so short that more iterations than this would have to be summed, their unit is
// probably wrong.
constexpr double kMaxTogether = 1e9;

}  // namespace

RunData run_data(const Recorder& recorder, std::string name, ReportOptions options) {
  const RunTotals& totals = recorder.totals();
  require(totals.iterations > 0, ErrorCode::kInvalidArgument, "run_data", "'{}' has recorded no iteration",
          name);
  const auto capped = [&](double fraction) {  // an interpolated quantile must not exceed the largest duration
    return std::clamp(recorder.duration_quantile(fraction), static_cast<double>(totals.min_ns),
                      static_cast<double>(totals.max_ns));
  };
  RunData data;
  data.name = std::move(name);
  data.allocations_counted = recorder.options().heap_allocations != nullptr;
  data.totals = totals;
  data.p50_ns = capped(0.5);
  data.p99_ns = capped(0.99);
  data.p999_ns = capped(0.999);
  for (const int c : recorder.classes()) {
    const WindowSeries& windows = recorder.windows(c);
    data.classes.push_back({c, windows.total_ns(), windows.closed()});
  }
  for (const Sample& sample : recorder.samples()) data.sample_iterations.push_back(sample.iteration);
  data.series = recorder.series();
  data.spike_factor = recorder.options().spike_factor;
  data.recent_spikes = records_of(recorder.recent_spikes());
  data.largest_spikes = records_of(recorder.largest_spikes());
  data.begin_ns = recorder.begin_ns();
  data.events = recorder.events().records();
  data.overhead = recorder.overhead();
  data.machine = describe_machine();
  if (const RankSeries& ranks = recorder.rank_series(); ranks.ranks() > 1) {
    data.ranks = {ranks.own(), recorder.rank_descriptions(), ranks.windows()};
    data.ranks->ranks.resize(static_cast<size_t>(ranks.ranks()));
  }
  data.options = std::move(options);
  add_evidence(recorder, data.options.facts);
  return data;
}

RunData run_data(std::span<const double> durations_ns, std::string name, int64_t warmup,
                 ReportOptions options) {
  const auto count = static_cast<int64_t>(durations_ns.size());
  require(warmup >= 0 && warmup < count, ErrorCode::kInvalidArgument, name,
          "of {} iterations, {} are warm-up; at least one must remain", count, warmup);
  const double typical = median(durations_ns.subspan(static_cast<size_t>(warmup)));
  if (typical < kMinDurationNs) {
    const double together = std::pow(10, std::ceil(std::log10(kMinDurationNs / typical)));
    fail(ErrorCode::kInvalidArgument, name,
         "iterations of {:.3g} ns are too short to judge, because times are stored in whole ns; {}", typical,
         together <= kMaxTogether
             ? fmt::format("give the total time of every {:.0f} iterations instead", together)
             : std::string("is the unit of the times right?"));
  }
  t_simulated_ns = 0;
  Recorder recorder({.classes = 1,
                     .sample_interval_ns = int64_t{1} << 62,
                     .reference_kernel = false,
                     .timing_share = 0,
                     .clock = [] { return t_simulated_ns; }});
  for (int64_t i = 0; i < count; ++i) {
    const double ns = durations_ns[static_cast<size_t>(i)];
    require(ns > 0 && ns < 0x1p62 - static_cast<double>(t_simulated_ns), ErrorCode::kInvalidArgument, name,
            "iteration {} of {} lasted {} ns; expected more than 0, and a total below 2^62 ns", i + 1, count,
            ns);
    if (i == warmup && warmup > 0) recorder.seal();
    recorder.begin_iteration();
    t_simulated_ns += std::max<int64_t>(1, std::llround(ns));
    recorder.end_iteration();
  }
  RunData data = run_data(recorder, std::move(name), std::move(options));
  data.durations_only = true;
  data.series.clear();
  data.sample_iterations.clear();
  data.events = {};
  data.machine = {};
  data.overhead = {};
  data.p50_ns = typical;                 // the histogram would return the lower of two middle values
  for (ClassData& one : data.classes) {  // positions count all durations
    for (Window& window : one.windows) {
      window.first_iteration += warmup;
      window.last_iteration += warmup;
    }
  }
  for (auto* spikes : {&data.recent_spikes, &data.largest_spikes}) {
    for (SpikeRecord& spike : *spikes) spike.iteration += warmup;
  }
  return data;
}

}  // namespace isochron::observe
