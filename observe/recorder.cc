#include "isochron/observe/recorder.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <utility>

#include "isochron/core/error.h"
#include "isochron/core/threads.h"

namespace isochron::observe {
namespace {

/// The next sample comes after at least this many times what the cheapest one took.
constexpr int64_t kSamplingShare = 100;
/// And the next timing of the reference kernel after so many times what one takes on average.
constexpr double kReferenceSpacing = 100;

RecorderOptions checked(RecorderOptions options) {
  const auto check = [](bool condition, std::string_view mend) {
    require(condition, ErrorCode::kInvalidArgument, "recorder", "bad option: {}", mend);
  };
  check(options.classes >= 1 && options.classes <= 64, "classes must lie in [1, 64]");
  check(options.spike_factor > 1, "spike_factor must exceed 1");
  check(options.sample_interval_ns >= 1, "sample_interval_ns must be positive");
  check(options.gauges.size() <= Sample::kMaxGauges,
        "too many gauges; at most Sample::kMaxGauges are sampled");
  check(options.clock != nullptr, "clock must be given");
  for (const Gauge& gauge : options.gauges) {
    check(!gauge.name.empty() && gauge.read != nullptr, "every gauge needs a name and a reader");
  }
  return options;
}

}  // namespace

Recorder::Recorder(RecorderOptions options)
    : options_(checked(std::move(options))), last_class_(options_.classes - 1) {
  windows_.resize(static_cast<size_t>(options_.classes));
  // Resized, not only reserved: their pages must be resident before the first step. `restart` empties them.
  samples_.resize(kMaxSamples);
  recent_spikes_.resize(kMaxRecentSpikes);
  largest_spikes_.resize(kMaxLargestSpikes + 1);
  calibrate();
  sampling_ns_ = 0;
  totals_ = {};
  restart();
}

void Recorder::calibrate() {
  // The second half is timed, when windows have become long and closing them has become rare.
  constexpr int kIterations = 8192;
  const auto hook = std::exchange(options_.heap_allocations, nullptr);
  const auto clock = std::exchange(options_.clock, now_ns);
  const bool reference = std::exchange(options_.reference_kernel, false);
  mark_ns_ = now_ns();
  next_sample_ns_ = INT64_MAX;
  int64_t begin = 0;
  for (int i = 0; i < 2 * kIterations; ++i) {
    if (i == kIterations) begin = now_ns();
    begin_iteration();
    end_iteration();
  }
  iteration_cost_ns_ = static_cast<double>(now_ns() - begin) / kIterations;
  options_.heap_allocations = hook;
  options_.clock = clock;
  options_.reference_kernel = reference;
}

void Recorder::restart() {
  for (WindowSeries& series : windows_) series.clear();
  samples_.clear();
  recent_spikes_.clear();
  largest_spikes_.clear();
  sample_interval_ns_ = options_.sample_interval_ns;
  run_begin_ns_ = 0;
  waited_ns_ = sensors_.waited_ns();
  parallel_loops_ = parallel_loops_begun();
  reference_chosen_ = false;
  reference_ns_ = 0;
  references_ = 0;
  mark_ns_ = options_.clock();
  sample();
}

void Recorder::seal() {
  RunTotals sealed;
  sealed.warmup_iterations = totals_.warmup_iterations + totals_.iterations;
  sealed.warmup_ns = totals_.warmup_ns + totals_.total_ns;
  totals_ = sealed;
  restart();
}

void Recorder::end_iteration() {
  assert(inside_ && phase_ == Phase::kUnexplained);
  const int64_t end = options_.clock();
  charge(end);
  inside_ = false;
  const int64_t duration = end - begin_ns_;
  totals_.heap_allocations += heap_in_step_;
  totals_.allocating_iterations += heap_in_step_ > 0;
  if (run_begin_ns_ == 0) {
    run_begin_ns_ = begin_ns_;
    totals_.min_ns = duration;
  }
  WindowSeries& series = windows_[static_cast<size_t>(class_)];
  if (const double usual = series.usual_ns();
      usual > 0 && static_cast<double>(duration) > options_.spike_factor * usual) {
    note_spike(duration, series);
  }
  series.add(totals_.iterations, duration, phase_ns_);
  for (size_t p = 0; p < kPhaseCount; ++p) totals_.phase_ns[p] += phase_ns_[p];
  ++totals_.iterations;
  totals_.total_ns += duration;
  totals_.elapsed_ns = end - run_begin_ns_;
  totals_.min_ns = std::min(totals_.min_ns, duration);
  totals_.max_ns = std::max(totals_.max_ns, duration);
  if (options_.reference_kernel && series.reference_due()) time_reference(series);
  if (end >= next_sample_ns_) sample();
}

void Recorder::time_reference(WindowSeries& series) {
  if (!std::exchange(reference_chosen_, true)) {
    const bool team = parallel_loops_begun() > parallel_loops_;
    reference_kernel_.use_team(team);
    sensors_.watch_team(team);
    waited_ns_ = sensors_.waited_ns();
  }
  const int64_t begin = options_.clock();
  const double iteration_ns =
      static_cast<double>(totals_.total_ns) / static_cast<double>(series.iterations());
  const int64_t waited_ns = sensors_.waited_ns();
  series.add_waited(std::max<int64_t>(waited_ns - waited_ns_, 0));  // less: a thread of the team has ended
  waited_ns_ = waited_ns;
  const double ns = reference_kernel_.time_ns();
  const auto cost_ns = static_cast<double>(options_.clock() - begin);
  sampling_ns_ += cost_ns;
  reference_ns_ += cost_ns;
  const double mean_cost_ns = reference_ns_ / static_cast<double>(++references_);
  series.add_reference(ns, reference_kernel_.quiet_ns(), kReferenceSpacing * mean_cost_ns, iteration_ns);
}

void Recorder::note_spike(int64_t duration_ns, const WindowSeries& series) {
  Spike spike{totals_.iterations, duration_ns, static_cast<int64_t>(series.usual_ns())};
  double most = 0;
  for (size_t p = 0; p < kPhaseCount; ++p) {
    const Phase phase = static_cast<Phase>(p);
    const double excess = static_cast<double>(phase_ns_[p]) - series.usual_phase_ns(phase);
    if (excess <= most) continue;
    most = excess;
    spike.owner = phase;
  }
  const size_t owner = static_cast<size_t>(spike.owner);
  if (label_ns_[owner] > 0) spike.label = labels_[owner];
  if (recent_spikes_.size() < kMaxRecentSpikes) {
    recent_spikes_.push_back(spike);
  } else {
    recent_spikes_[static_cast<size_t>(totals_.spikes) % kMaxRecentSpikes] = spike;
  }
  ++totals_.spikes;
  ++totals_.spikes_by_owner[owner];
  totals_.spike_excess_ns += duration_ns - spike.usual_ns;
  if (largest_spikes_.size() == kMaxLargestSpikes && largest_spikes_.back().duration_ns >= duration_ns)
    return;
  const auto place =
      std::upper_bound(largest_spikes_.begin(), largest_spikes_.end(), spike,
                       [](const Spike& a, const Spike& b) { return a.duration_ns > b.duration_ns; });
  largest_spikes_.insert(place, spike);  // within the reserved capacity
  if (largest_spikes_.size() > kMaxLargestSpikes) largest_spikes_.pop_back();
}

void Recorder::sample() {
  const int64_t begin = options_.clock();
  Sample sample;
  sample.iteration = totals_.iterations;
  sample.time_ns = begin;
  for (int i = 0; i < kCounterCount; ++i) {
    sample.counters[static_cast<size_t>(i)] = counter_value(static_cast<Counter>(i));
  }
  sample.sensors = sensors_.read();
  if (options_.heap_allocations != nullptr) sample.heap_allocations = options_.heap_allocations();
  if (options_.library_allocations != nullptr) sample.library_allocations = options_.library_allocations();
  for (size_t i = 0; i < options_.gauges.size(); ++i) {
    sample.gauges[i] = options_.gauges[i].read(options_.gauges[i].context);
  }
  if (samples_.size() == kMaxSamples) {
    for (size_t i = 0; i < kMaxSamples / 2; ++i) samples_[i] = samples_[2 * i];  // so the spacing stays even
    samples_.resize(kMaxSamples / 2);
    sample_interval_ns_ *= 2;
  }
  samples_.push_back(sample);
  const int64_t end = options_.clock();
  sampling_ns_ += static_cast<double>(end - begin);
  sample_cost_ns_ = std::min(sample_cost_ns_, end - begin);
  next_sample_ns_ = end + std::max(sample_interval_ns_, kSamplingShare * sample_cost_ns_);
}

std::vector<int> Recorder::classes() const {
  std::vector<int> result;
  for (int c = 0; c < options_.classes; ++c) {
    if (windows(c).iterations() > 0) result.push_back(c);
  }
  return result;
}

double Recorder::duration_quantile(double fraction) const {
  require(fraction >= 0 && fraction <= 1, ErrorCode::kOutOfRange, "recorder", "fraction {} is not in [0, 1]",
          fraction);
  LogHistogram<int64_t> all;
  for (const WindowSeries& series : windows_) series.add_to(all);
  return all.quantile(fraction);
}

std::vector<NamedSeries> Recorder::series() const {
  std::vector<NamedSeries> result;
  const auto add = [&](std::string name, bool cumulative, const auto& read) {
    NamedSeries series{std::move(name), cumulative, {}};
    for (const Sample& sample : samples_)
      series.values.push_back(static_cast<double>(std::invoke(read, sample)));
    result.push_back(std::move(series));
  };
  add("rss_bytes", false, [](const Sample& s) { return s.sensors.rss_bytes; });
  add("minor_faults", true, [](const Sample& s) { return s.sensors.minor_faults; });
  add("major_faults", true, [](const Sample& s) { return s.sensors.major_faults; });
  add("voluntary_switches", true, [](const Sample& s) { return s.sensors.voluntary_switches; });
  add("involuntary_switches", true, [](const Sample& s) { return s.sensors.involuntary_switches; });
  add("stolen_ns", true, [](const Sample& s) { return s.sensors.stolen_ns; });
  for (int i = 0; i < kCounterCount; ++i) {
    const Counter counter = static_cast<Counter>(i);
    const bool cumulative = counter == Counter::kTraces || counter == Counter::kSystemAllocations ||
                            counter == Counter::kDropped || counter == Counter::kWeightBytes;
    add(std::string(counter_name(counter)), cumulative,
        [i](const Sample& s) { return s.counters[static_cast<size_t>(i)]; });
  }
  if (options_.heap_allocations != nullptr) {
    add("heap_allocations", true, [](const Sample& s) { return s.heap_allocations; });
  }
  if (options_.library_allocations != nullptr) {
    add("library_allocations", true, [](const Sample& s) { return s.library_allocations; });
  }
  for (size_t i = 0; i < options_.gauges.size(); ++i) {
    add(options_.gauges[i].name, options_.gauges[i].cumulative, [i](const Sample& s) { return s.gauges[i]; });
  }
  return result;
}

std::vector<Spike> Recorder::recent_spikes() const {
  std::vector<Spike> result = recent_spikes_;
  std::sort(result.begin(), result.end(),
            [](const Spike& a, const Spike& b) { return a.iteration < b.iteration; });
  return result;
}

Overhead Recorder::overhead() const { return {iteration_cost_ns_, sampling_ns_, bytes()}; }

size_t Recorder::bytes() const {
  size_t total = sizeof(*this) + samples_.capacity() * sizeof(Sample) +
                 (recent_spikes_.capacity() + largest_spikes_.capacity()) * sizeof(Spike);
  for (const WindowSeries& series : windows_) total += series.bytes();
  return total;
}

}  // namespace isochron::observe
