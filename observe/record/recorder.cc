#include "isochron/observe/record/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <utility>

#include "isochron/core/base/error.h"
#include "isochron/core/files/written_files.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/telemetry/weight_bytes.h"
#include "isochron/observe/record/event_file.h"

namespace isochron::observe {
namespace {

/// This many iterations are timed before any is skipped, to measure the cost of timing.
constexpr int64_t kAllTimed = 64;
/// At least one of this many iterations is timed, however short they are.
constexpr double kMaxUntimed = 1000;
/// Timing may take twice `timing_share` at first, 1.5 times after this time, and then ever less, so that
/// short runs get enough windows and long runs pay little.
constexpr double kEarlyNs = 1e8;
/// An iteration that takes at least this many bytes from the system may be slow because it touches new pages.
constexpr int64_t kTakenBytes = int64_t{1} << 20;

int64_t reserved_bytes() {
  return counter_value(Counter::kBytesReserved) + counter_value(Counter::kDeviceBytesReserved);
}

RecorderOptions checked(RecorderOptions options) {
  const auto check = [](bool condition, std::string_view fix) {
    require(condition, ErrorCode::kInvalidArgument, "recorder", "bad option: {}", fix);
  };
  check(options.classes >= 1 && options.classes <= 64, "classes must lie in [1, 64]");
  check(options.spike_factor > 1, "spike_factor must exceed 1");
  check(options.sample_interval_ns >= 1, "sample_interval_ns must be positive");
  check(options.timing_share >= 0 && options.timing_share <= 1, "timing_share must lie in [0, 1]");
  check(options.reference_share > 0 && options.reference_share <= 1, "reference_share must lie in (0, 1]");
  check(options.sampling_share > 0 && options.sampling_share <= 1, "sampling_share must lie in (0, 1]");
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
    : options_(checked(std::move(options))),
      last_class_(options_.classes - 1),
      own_sensors_(options_.sensors == nullptr ? std::make_unique<Sensors>() : nullptr),
      sensors_(own_sensors_ ? *own_sensors_ : *options_.sensors) {
  windows_.resize(static_cast<size_t>(options_.classes));
  // Resizing, unlike reserving, makes the pages resident before the first step. `restart` empties the
  // vectors.
  samples_.resize(kMaxSamples);
  recent_spikes_.resize(kMaxRecentSpikes);
  largest_spikes_.resize(kMaxLargestSpikes + 1);
  tracings_.resize(kMaxTracings);
  calibrate();
  sampling_ns_ = 0;
  totals_ = {};
  restart();
}

void Recorder::calibrate() {
  // Measures several batches, after a first one that makes windows long, so that windows are rarely closed.
  // The cheapest batch counts, because the others were interrupted.
  constexpr int kBatches = 16, kIterations = 512;
  const auto hook = std::exchange(options_.heap_allocations, nullptr);
  const auto clock = std::exchange(options_.clock, now_ns);
  const bool reference = std::exchange(options_.reference_kernel, false);
  const double share = std::exchange(options_.timing_share, 0);
  const auto mean_cost_ns = [&](const auto& iterate) {
    int64_t lowest = INT64_MAX;
    for (int batch = 0; batch <= kBatches; ++batch) {
      const int64_t begin = now_ns();
      for (int i = 0; i < kIterations; ++i) iterate();
      if (batch > 0) lowest = std::min(lowest, now_ns() - begin);
    }
    return static_cast<double>(lowest) / kIterations;
  };
  next_sample_ns_ = INT64_MAX;
  untimed_left_ = 0;
  iteration_cost_ns_ = mean_cost_ns([&] { const IterationScope iteration(*this); });
  const double with_scope_ns = mean_cost_ns([&] {
    const IterationScope iteration(*this);
    const PhaseScope scope(*this, Phase::kCompute);
  });
  scope_cost_ns_ = std::max(0.0, with_scope_ns - iteration_cost_ns_);
  untimed_left_ = INT64_MAX;
  untimed_cost_ns_ = mean_cost_ns([&] { const IterationScope iteration(*this); });
  options_.heap_allocations = hook;
  options_.clock = clock;
  options_.reference_kernel = reference;
  options_.timing_share = share;
}

void Recorder::restart() {
  for (WindowSeries& series : windows_) series.clear();
  rank_series_.clear();
  samples_.clear();
  recent_spikes_.clear();
  largest_spikes_.clear();
  tracings_.clear();
  tracings_ever_ = 0;
  traces_mark_ = counter_value(Counter::kTraces);
  traced_ = looking_ = false;
  inspected_ = {};
  for (Cost* cost : {&sample_cost_, &slow_cost_, &reference_cost_}) cost->sum_ns = cost->count = 0;
  files_before_ = written_files();
  steady_ns_ = 0;
  next_slow_ns_ = 0;
  sample_interval_ns_ = options_.sample_interval_ns;
  run_begin_ns_ = 0;
  waited_ns_ = sensors_.waited_ns();
  waited_at_ns_ = options_.clock();
  looked_at_ns_.assign(windows_.size(), 0);
  parallel_loops_ = parallel_loops_begun();
  reference_chosen_ = false;
  reference_ns_ = 0;
  references_ = 0;
  untimed_left_ = 0;
  timed_ = true;
  timed_here_ = scopes_ = 0;
  mark_ns_ = options_.clock();
  marked_ = true;
  sample();
}

void Recorder::seal() {
  RunTotals sealed;
  sealed.warmup_iterations = totals_.warmup_iterations + totals_.iterations;
  sealed.warmup_ns = totals_.warmup_ns + totals_.total_ns;
  totals_ = sealed;
  restart();
}

void Recorder::begin_timed() {
  begin_ns_ = options_.clock();
  charge(begin_ns_);
  label_ns_.fill(0);
  phase_ns_.fill(0);
  marked_ = timed_;
  if (!timed_) return;
  if (std::exchange(look_due_, false)) [[unlikely]]
    begin_look();
  switches_mark_ = counter_value(Counter::kPlanSwitches);
  reserved_mark_ = reserved_bytes();
  weights_mark_ = counter_value(Counter::kWeightBytes);
  own_weights_mark_ = weight_bytes_of_this_thread();
}

void Recorder::end_timed() {
  assert(inside_ && phase_ == Phase::kUnexplained);
  const int64_t end = options_.clock();
  charge(end);
  inside_ = false;
  if (looking_) [[unlikely]]
    end_look();
  const int64_t duration = end - begin_ns_;
  totals_.heap_allocations += heap_in_step_;
  totals_.allocating_iterations += heap_in_step_ > 0;
  if (totals_.timed_iterations++ == 0) {
    totals_.min_ns = duration;
    run_begin_ns_ = begin_ns_;
  }
  ++timed_here_;
  WindowSeries& series = windows_[static_cast<size_t>(class_)];
  if (const double usual = series.usual_ns();
      usual > 0 && static_cast<double>(duration) > options_.spike_factor * usual) {
    note_spike(duration, series);
  }
  steady_ns_ -= series.steady_ns();
  series.add(totals_.iterations, duration, phase_ns_);
  steady_ns_ += series.steady_ns();
  for (size_t p = 0; p < kPhaseCount; ++p) totals_.phase_ns[p] += phase_ns_[p];
  ++totals_.iterations;
  totals_.total_ns += duration;
  totals_.elapsed_ns = end - run_begin_ns_;
  totals_.min_ns = std::min(totals_.min_ns, duration);
  totals_.max_ns = std::max(totals_.max_ns, duration);
  if (options_.reference_kernel && series.reference_due()) time_reference(series);
  if (end >= next_sample_ns_) sample();
  if (options_.timing_share > 0) draw_untimed();
}

/// The cost of a timed iteration. If the next iteration isn't timed, the time between them needs one more
/// read of the clock.
double Recorder::timed_cost_ns() const {
  const double scopes = static_cast<double>(scopes_) / static_cast<double>(std::max<int64_t>(1, timed_here_));
  const bool all = totals_.timed_iterations == totals_.iterations;
  return iteration_cost_ns_ + scope_cost_ns_ * (scopes + (all ? 0 : 0.5));
}

/// The mean cost of an iteration.
double Recorder::timing_cost_ns() const {
  const auto all = static_cast<double>(std::max<int64_t>(1, totals_.iterations));
  const auto timed = static_cast<double>(totals_.timed_iterations);
  return (timed * timed_cost_ns() + (all - timed) * untimed_cost_ns_) / all;
}

/// Draws how many iterations to skip before the next timed one. The number is random, with a mean that keeps
/// timing within its share, so that nothing periodic in the loop is always hit or always missed.
void Recorder::draw_untimed() {
  if (totals_.timed_iterations < kAllTimed) return;
  const double usual_ns = steady_ns_ / static_cast<double>(totals_.timed_iterations);
  const double early = kEarlyNs / (kEarlyNs + static_cast<double>(totals_.elapsed_ns));
  const double share = options_.timing_share * (1 + early);
  const double every = timed_cost_ns() / (share * std::max(1.0, usual_ns));
  if (every <= 1) return;
  random_ ^= random_ << 13;  // Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8, 2003
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  const double fraction = static_cast<double>(random_ >> 11) * 0x1p-53;
  untimed_left_ = std::llround(2 * (std::min(every, kMaxUntimed) - 1) * fraction);
}

/// Charges the bytes allocated or freed since the last mark to the present phase.
void Recorder::charge_memory() {
  const int64_t own = own_bytes(), all = counter_value(Counter::kBytesInUse);
  const int64_t by_own = own - std::exchange(own_bytes_mark_, own);
  inspected_.gained_bytes[static_cast<size_t>(phase_)] += by_own;
  inspected_.gained_elsewhere_bytes += all - std::exchange(bytes_mark_, all) - by_own;
}

/// Inspects this iteration in ways that are too expensive for every iteration.
void Recorder::begin_look() {
  looking_ = true;
  own_bytes_mark_ = own_bytes();
  bytes_mark_ = counter_value(Counter::kBytesInUse);
  take_subnormal_note();
}

void Recorder::end_look() {
  looking_ = false;
  ++inspected_.iterations;
  inspected_.subnormal += take_subnormal_note();
}

void Recorder::Cost::add(int64_t ns) {
  constexpr int64_t kMaxTimes = 8;
  cheapest_ns = std::min(cheapest_ns, ns);
  sum_ns += static_cast<double>(std::min(ns, kMaxTimes * cheapest_ns));
  ++count;
}

void Recorder::note_tracing(int64_t traces) {
  const bool traced = traces != std::exchange(traces_mark_, traces);
  if (traced && !traced_) {
    if (tracings_.size() < kMaxTracings) {
      tracings_.push_back(totals_.iterations);
    } else {
      tracings_[static_cast<size_t>(tracings_ever_) % kMaxTracings] = totals_.iterations;
    }
    ++tracings_ever_;
  }
  traced_ = traced;
}

/// The label of something unusual that this iteration did, or null.
const char* Recorder::label_of_happening() const {
  if (traced_) return kTracedLabel;
  const bool wrote = weight_bytes_of_this_thread() != own_weights_mark_;
  const bool written = counter_value(Counter::kWeightBytes) != weights_mark_;
  if (written && !wrote) return kSavedBesideLabel;
  if (counter_value(Counter::kPlanSwitches) != switches_mark_) return kOtherPlanLabel;
  if (reserved_bytes() - reserved_mark_ >= kTakenBytes) return kTookMemoryLabel;
  return wrote ? kSavedLabel : nullptr;
}

/// The waiting time since the latest reading may belong to any class of steps. It is distributed over the
/// classes in proportion to the time that each has taken since then.
void Recorder::read_waited() {
  const int64_t now_ns = sensors_.waited_ns(), at_ns = options_.clock();
  // The difference is negative if a thread of the team has ended, and exceeds the elapsed time if several
  // threads waited at once.
  const int64_t waited_ns = std::max<int64_t>(0, std::min(now_ns - waited_ns_, at_ns - waited_at_ns_));
  waited_ns_ = now_ns;
  waited_at_ns_ = at_ns;
  int64_t all_ns = 0;
  for (size_t c = 0; c < windows_.size(); ++c) all_ns += windows_[c].total_ns() - looked_at_ns_[c];
  for (size_t c = 0; c < windows_.size(); ++c) {
    const int64_t own_ns = windows_[c].total_ns() - std::exchange(looked_at_ns_[c], windows_[c].total_ns());
    if (all_ns > 0) {
      windows_[c].add_waited(static_cast<int64_t>(static_cast<double>(waited_ns) *
                                                  static_cast<double>(own_ns) / static_cast<double>(all_ns)));
    }
  }
}

void Recorder::time_reference(WindowSeries& series) {
  if (!std::exchange(reference_chosen_, true)) {
    const bool team = parallel_loops_begun() > parallel_loops_;
    reference_kernel_.use_team(team);
    sensors_.watch_team(team);
    waited_ns_ = sensors_.waited_ns();
    waited_at_ns_ = options_.clock();
  }
  const int64_t begin = options_.clock();
  // The time from one timed iteration of this class to the next.
  const double iteration_ns = steady_ns_ / static_cast<double>(series.iterations()) *
                              static_cast<double>(totals_.iterations) /
                              static_cast<double>(totals_.timed_iterations);
  read_waited();
  const std::optional<double> played_ns = sensors_.reference_ns();
  const double ns = played_ns ? *played_ns : reference_kernel_.time_ns();
  if (played_ns) played_quiet_ns_ = played_quiet_ns_ > 0 ? std::min(played_quiet_ns_, ns) : ns;
  const double quiet_ns = played_ns ? played_quiet_ns_ : reference_kernel_.quiet_ns();
  const auto cost_ns = static_cast<double>(options_.clock() - begin);
  sampling_ns_ += cost_ns;
  reference_cost_.add(static_cast<int64_t>(cost_ns));
  reference_ns_ += cost_ns;
  const double mean_cost_ns = reference_ns_ / static_cast<double>(++references_);
  // A class with a hundredth of the time gets a tenth of the timings, so that all classes together keep to
  // the share.
  const double part = steady_ns_ > 0 ? series.steady_ns() / steady_ns_ : 1;
  const double share = options_.reference_share * std::sqrt(std::clamp(part, 0.01, 1.0));
  series.add_reference(ns, quiet_ns, mean_cost_ns / share, iteration_ns);
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
  const bool computed = spike.owner == Phase::kCompute || spike.owner == Phase::kUnexplained;
  if (label_ns_[owner] > 0) {
    spike.label = labels_[owner];
  } else if (computed) {
    spike.label = label_of_happening();
  }
  if (recent_spikes_.size() < kMaxRecentSpikes) {
    recent_spikes_.push_back(spike);
  } else {
    // Replaces the oldest spike. Its index can't be computed from the number of spikes, because spikes of an
    // earlier process aren't stored here.
    *std::ranges::min_element(recent_spikes_, {}, &Spike::iteration) = spike;
  }
  ++totals_.spikes;
  ++totals_.spikes_by_owner[owner];
  totals_.spike_excess_ns += duration_ns - spike.usual_ns;
  totals_.spike_excess_by_owner_ns[owner] += duration_ns - spike.usual_ns;
  if (largest_spikes_.size() == kMaxLargestSpikes && largest_spikes_.back().duration_ns >= duration_ns)
    return;
  const auto place =
      std::upper_bound(largest_spikes_.begin(), largest_spikes_.end(), spike,
                       [](const Spike& a, const Spike& b) { return a.duration_ns > b.duration_ns; });
  largest_spikes_.insert(place, spike);  // within the reserved capacity
  if (largest_spikes_.size() > kMaxLargestSpikes) largest_spikes_.pop_back();
}

void Recorder::sample() {
  constexpr size_t kSoonSamples = 96;
  const int64_t begin = options_.clock();
  Sample sample;
  sample.iteration = totals_.iterations;
  sample.time_ns = begin;
  for (int i = 0; i < kCounterCount; ++i) {
    sample.counters[static_cast<size_t>(i)] = counter_value(static_cast<Counter>(i));
  }
  const auto spacing_ns = [this](double cost_ns) { return std::llround(cost_ns / options_.sampling_share); };
  sensors_.read(reading_);
  int64_t slow_ns = 0;
  if (begin >= next_slow_ns_) {
    const int64_t slow_begin = options_.clock();
    sensors_.read_slow(reading_);
    const int64_t slow_end = options_.clock();
    slow_ns = slow_end - slow_begin;
    slow_cost_.add(slow_ns);
    ++slow_readings_;
    next_slow_ns_ = slow_end + 2 * spacing_ns(static_cast<double>(slow_ns));
  }
  sample.sensors = reading_;
  sample.slow_readings = slow_readings_;
  sample.event_bytes = EventFile::bytes_written();
  if (reference_chosen_) read_waited();
  if (options_.heap_allocations != nullptr) sample.heap_allocations = options_.heap_allocations();
  if (options_.library_allocations != nullptr) sample.library_allocations = options_.library_allocations();
  for (size_t i = 0; i < options_.gauges.size(); ++i) {
    sample.gauges[i] = options_.gauges[i].read(options_.gauges[i].context);
  }
  if (samples_.size() == kMaxSamples) {
    for (size_t i = 0; i < kMaxSamples / 2; ++i) samples_[i] = samples_[2 * i];  // keeps the spacing even
    samples_.resize(kMaxSamples / 2);
    sample_interval_ns_ *= 2;
  }
  samples_.push_back(sample);
  const int64_t end = options_.clock();
  sampling_ns_ += static_cast<double>(end - begin);
  sample_cost_.add(end - begin - slow_ns);
  // The first samples, as many as a verdict needs, are spaced by the cheapest cost so far. Later ones are
  // spaced by the mean cost, on which an interrupted sample has little influence.
  const double cost_ns =
      samples_.size() < kSoonSamples ? static_cast<double>(sample_cost_.cheapest_ns) : sample_cost_.mean_ns();
  next_sample_ns_ = end + std::max<int64_t>(sample_interval_ns_, spacing_ns(cost_ns));
  look_due_ = true;
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
  double result = 0;
  LogHistogram<int64_t>::joint_quantiles(
      [this](auto visit) {
        for (const WindowSeries& series : windows_) series.for_each_histogram(visit);
      },
      &fraction, 1, &result);
  return result;
}

std::vector<NamedSeries> Recorder::series() const {
  std::vector<NamedSeries> result;
  const auto add = [&](std::string name, bool cumulative, const auto& read) {
    NamedSeries series{std::move(name), cumulative, {}};
    for (const Sample& sample : samples_)
      series.values.push_back(static_cast<double>(std::invoke(read, sample)));
    result.push_back(std::move(series));
  };
  const auto add_known = [&](std::string name, bool cumulative, int64_t SensorReading::*value) {
    const bool known = std::any_of(samples_.begin(), samples_.end(),
                                   [value](const Sample& s) { return s.sensors.*value != kUnknownReading; });
    if (known) add(std::move(name), cumulative, [value](const Sample& s) { return s.sensors.*value; });
  };
  add_known("rss_bytes", false, &SensorReading::rss_bytes);
  add("minor_faults", true, [](const Sample& s) { return s.sensors.minor_faults; });
  add("major_faults", true, [](const Sample& s) { return s.sensors.major_faults; });
  add("voluntary_switches", true, [](const Sample& s) { return s.sensors.voluntary_switches; });
  add("involuntary_switches", true, [](const Sample& s) { return s.sensors.involuntary_switches; });
  add("stolen_ns", true, [](const Sample& s) { return s.sensors.stolen_ns; });
  add("own_waits", true, [](const Sample& s) { return s.sensors.own_waits; });
  add("read_bytes", true, [](const Sample& s) { return s.sensors.read_bytes; });
  add("written_bytes", true, [](const Sample& s) { return s.sensors.written_bytes; });
  add("stored_bytes", true, [](const Sample& s) { return s.sensors.stored_bytes; });
  add("event_bytes", true, [](const Sample& s) { return s.event_bytes; });
  add("slow_readings", true, [](const Sample& s) { return s.slow_readings; });
  add_known("heap_bytes", false, &SensorReading::heap_bytes);
  add_known("heap_free_bytes", false, &SensorReading::heap_free_bytes);
  add_known("swap_bytes", false, &SensorReading::swap_bytes);
  add_known("throttled_ns", true, &SensorReading::throttled_ns);
  add_known("thermal_throttles", true, &SensorReading::thermal_throttles);
  add_known("clock_khz", false, &SensorReading::clock_khz);
  add_known("device_in_use_bytes", false, &SensorReading::device_in_use_bytes);
  add_known("device_reserved_bytes", false, &SensorReading::device_reserved_bytes);
  add_known("device_retries", true, &SensorReading::device_retries);
  add_known("pinned_bytes", false, &SensorReading::pinned_bytes);
  add_known("device_clock_khz", false, &SensorReading::device_clock_khz);
  add_known("device_temperature", false, &SensorReading::device_temperature);
  add_known("device_throttled_ns", true, &SensorReading::device_throttled_ns);
  for (int i = 0; i < kCounterCount; ++i) {
    const Counter counter = static_cast<Counter>(i);
    add(std::string(counter_name(counter)), is_total(counter),
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

std::vector<int64_t> Recorder::tracings() const {
  std::vector<int64_t> result = tracings_;
  std::sort(result.begin(), result.end());
  return result;
}

Overhead Recorder::overhead() const {
  const double timed_share = totals_.iterations == 0 ? 1
                                                     : static_cast<double>(totals_.timed_iterations) /
                                                           static_cast<double>(totals_.iterations);
  return {totals_.iterations == 0 ? iteration_cost_ns_ : timing_cost_ns(), timed_share, sampling_ns_,
          bytes()};
}

RankDescription Recorder::describe_rank() const {
  RankDescription own;
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) own.host = host.data();
  for (const WindowSeries& series : windows_) {
    for (const Window& window : series.closed()) own.waited_ns += window.waited_ns;
  }
  if (samples_.empty()) return own;
  const SensorReading &first = samples_.front().sensors, &last = samples_.back().sensors;
  const bool known = first.throttled_ns != kUnknownReading && last.throttled_ns != kUnknownReading;
  own.throttled_ns = known ? std::max<int64_t>(0, last.throttled_ns - first.throttled_ns) : kUnknownReading;
  own.stolen_ns = std::max<int64_t>(0, last.stolen_ns - first.stolen_ns);  // the counter may decrease
  return own;
}

size_t Recorder::bytes() const {
  size_t total = sizeof(*this) + samples_.capacity() * sizeof(Sample) +
                 (recent_spikes_.capacity() + largest_spikes_.capacity()) * sizeof(Spike) +
                 tracings_.capacity() * sizeof(int64_t);
  for (const WindowSeries& series : windows_) total += series.bytes();
  return total + rank_series_.bytes();
}

}  // namespace isochron::observe
