#include "isochron/observe/diagnose/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include "isochron/core/files/written_files.h"
#include "isochron/observe/diagnose/straggler.h"
#include "isochron/observe/statistics/recurring.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {
namespace {

/// If a run is too short for a verdict, a level grows if at least this share of the seven steps between
/// eighths of the run go up, if it ends at more than kPlainly times its beginning, and if less than
/// kMaxInJumps of its gain came in jumps.
constexpr double kSteadily = 6.0 / 7;
constexpr double kPlainly = 1.2;
constexpr double kMaxInJumps = 0.75;

std::string joined(std::string_view head, std::string_view tail) { return fmt::format("{}.{}", head, tail); }

/// Mean ns per iteration of a phase in each window, without stalls.
std::vector<double> phase_means(std::span<const Window> windows, size_t phase) {
  std::vector<double> means;
  for (const Window& window : windows)
    means.push_back(static_cast<double>(window.phase_ns[phase]) / static_cast<double>(window.iterations));
  cut_stalls(means);
  return means;
}

/// Sets the share of each phase in the growth of step time: the growth from the first to the last tenth of
/// each class, summed over all classes.
void add_phase_growth(Evidence& evidence, const RunReport& report) {
  std::map<int, std::vector<Window>> classes;
  for (const WindowReport& one : report.windows) classes[one.step_class].push_back(one.window);
  std::array<double, kPhaseCount> growth{};
  for (const auto& [number, windows] : classes) {
    const size_t tenth = std::max<size_t>(1, windows.size() / 10);
    if (windows.size() < 2 * tenth) continue;
    int64_t iterations = 0;
    for (const Window& window : windows) iterations += window.iterations;
    for (size_t p = 0; p < kPhaseCount; ++p) {
      const std::vector<double> all = phase_means(windows, p);
      const std::span<const double> means(all);
      growth[p] += static_cast<double>(iterations) * (mean(means.last(tenth)) - mean(means.first(tenth)));
    }
  }
  const double all = std::accumulate(growth.begin(), growth.end(), 0.0);
  if (all <= 0) return;
  for (size_t p = 0; p < kPhaseCount; ++p)
    evidence.set(fmt::format("phase.{}.growth_share", phase_name(static_cast<Phase>(p))), growth[p] / all);
}

/// The exponent with which time has followed a growing level from the first tenth to the last: 1 if they are
/// proportional.
double exponent(const FlatnessVerdict& time, const FlatnessVerdict& level) {
  const double of_level = std::log(std::max(1.0, level.last_tenth) / std::max(1.0, level.first_tenth));
  const double of_time = std::log(time.last_tenth / std::max(1.0, time.first_tenth));
  return of_level > 0 ? of_time / of_level : 0;
}

constexpr size_t kLevels = 8;
/// The medians of the eighths of a run.
using Levels = std::array<double, kLevels>;

/// nullopt if there are fewer than two values per part.
std::optional<Levels> levels_of(std::span<const double> values) {
  if (values.size() < 2 * kLevels) return std::nullopt;
  Levels levels{};
  for (size_t i = 0; i < kLevels; ++i) {
    const size_t begin = i * values.size() / kLevels, end = (i + 1) * values.size() / kLevels;
    levels[i] = median(values.subspan(begin, end - begin));
  }
  return levels;
}

/// How steadily a level rises: the share of the steps between neighboring parts of the run that go up. 0 if
/// either half of the run gains less than a tenth of the whole gain, or if a step drops by as much: a level
/// that fills once and then stays doesn't rise steadily.
double rise(const Levels& levels) {
  constexpr double kPart = 0.1;
  const double gained = levels.back() - levels.front();
  const double middle = (levels[kLevels / 2 - 1] + levels[kLevels / 2]) / 2;
  const double least = kPart * gained;
  if (gained <= 0 || middle - levels.front() < least || levels.back() - middle < least) return 0;
  int up = 0;
  for (size_t i = 1; i < kLevels; ++i) {
    if (levels[i] < levels[i - 1] - least) return 0;
    up += levels[i] > levels[i - 1];
  }
  return up / (kLevels - 1.0);
}

/// The share of a level's gain that comes from its eight largest rises. Data that are created once, or kept
/// for each of a few checkpoints, make a level rise a few times. Data that grow with the steps can make it
/// rise at every sample. 1 if the level gains nothing.
double in_jumps(std::span<const double> values) {
  constexpr size_t kJumps = 8;
  std::vector<double> gains;
  double highest = values.empty() ? 0 : values.front(), gained = 0;
  for (const double value : values) {
    if (value <= highest) continue;
    gains.push_back(value - highest);
    gained += gains.back();
    highest = value;
  }
  const size_t jumps = std::min(kJumps, gains.size());
  std::partial_sort(gains.begin(), gains.begin() + static_cast<std::ptrdiff_t>(jumps), gains.end(),
                    std::greater<>());
  double largest = 0;
  for (size_t i = 0; i < jumps; ++i) largest += gains[i];
  return gained > 0 ? largest / gained : 1;
}

/// The values of a slow sensor, resampled as if it had been read at equal intervals. The more the sensor has
/// to inspect, the longer a reading takes and the less often it is read, so late rises would look like jumps.
/// A reading after a long gap is therefore replaced by several on a straight line; readings at the usual
/// distance stay as they are.
std::vector<double> evenly_read(const RunReport& report, const SeriesReport& series) {
  const std::vector<double>& values = series.values;
  const SeriesReport* const readings = report.find_series("slow_readings");
  const bool slow =
      series.name == "heap_bytes" || series.name == "heap_free_bytes" || series.name == "swap_bytes";
  if (!slow || readings == nullptr) return values;
  std::vector<size_t> fresh;  // samples with a new reading
  for (size_t i = 0; i < values.size(); ++i) {
    if (i == 0 || readings->values[i] != readings->values[i - 1]) fresh.push_back(i);
  }
  if (fresh.size() < 2) return values;
  std::vector<double> distances;
  for (size_t i = 1; i < fresh.size(); ++i) distances.push_back(static_cast<double>(fresh[i] - fresh[i - 1]));
  const double usual = median(distances);
  std::vector<double> result = {values[fresh[0]]};
  for (size_t i = 1; i < fresh.size(); ++i) {
    const int count = std::max(1, static_cast<int>(distances[i - 1] / usual));
    const double from = values[fresh[i - 1]], gain = (values[fresh[i]] - from) / count;
    for (int part = 1; part <= count; ++part) result.push_back(from + gain * part);
  }
  return result;
}

/// How many of the newest jumps of a level are each about twice the one before. A growing list doubles its
/// memory when it is full and then takes none for a long time, so the level doesn't rise steadily. Jumps
/// smaller than an eighth of the largest are ignored. 0 if the newest jump is so long ago that a list that
/// still grows would have been full again.
int doublings(std::span<const double> values) {
  constexpr double kJump = 16384, kBeside = 8, kMin = 1.1, kMax = 2.7, kStillGrows = 0.4;
  double largest = 0;
  for (size_t i = 1; i < values.size(); ++i) largest = std::max(largest, std::abs(values[i] - values[i - 1]));
  std::vector<double> jumps;
  size_t newest = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    const double jump = values[i] - values[i - 1];
    if (std::abs(jump) < std::max(kJump, largest / kBeside)) continue;
    jumps.push_back(jump);
    newest = i;
  }
  if (static_cast<double>(newest) < kStillGrows * static_cast<double>(values.size())) return 0;
  int count = 0;
  for (size_t i = jumps.size(); i-- > 1; ++count) {
    if (jumps[i - 1] <= 0 || jumps[i] < kMin * jumps[i - 1] || jumps[i] > kMax * jumps[i - 1]) break;
  }
  return count == 0 ? 0 : count + 1;
}

/// How many times as fast a total grows in the last third of the run as in the first.
void add_speed_up(RunReport& report, const SeriesReport& series) {
  const size_t count = series.values.size();
  if (count < 6) return;
  const auto rate = [&](size_t begin, size_t end) {
    const int64_t iterations = report.sample_iterations[end] - report.sample_iterations[begin];
    return iterations > 0 ? (series.values[end] - series.values[begin]) / static_cast<double>(iterations) : 0;
  };
  const double early = rate(0, count / 3), late = rate(count - 1 - count / 3, count - 1);
  if (early > 0) report.evidence.set(joined(series.name, "speed_up"), late / early);
}

/// The last value of the series that was read at or before `iteration`.
double value_at(const RunReport& report, const SeriesReport& series, int64_t iteration) {
  double value = series.values.front();
  for (size_t i = 0; i < series.values.size() && report.sample_iterations[i] <= iteration; ++i)
    value = series.values[i];
  return value;
}

/// The usual gain of a total per iteration: the median over eight parts of the run, which ignores anything
/// that happens only once. `at(i)` is the total at the i-th sample.
template <typename At>
std::optional<double> usual_rate(const RunReport& report, size_t samples, const At& at) {
  if (samples < 2) return std::nullopt;
  const size_t last = samples - 1, parts = std::min(kLevels, last);
  std::vector<double> rates;
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = part * last / parts, end = (part + 1) * last / parts;
    const int64_t iterations = report.sample_iterations[end] - report.sample_iterations[begin];
    if (iterations > 0) rates.push_back((at(end) - at(begin)) / static_cast<double>(iterations));
  }
  if (rates.empty()) return std::nullopt;
  return median(rates);
}

/// Sets the usual rates of a total, and the share of its gain after the middle of the run.
void add_regularity(RunReport& report, const SeriesReport& series) {
  const double seconds = std::max(1e-9, report.seconds);
  const auto rate =
      usual_rate(report, series.values.size(), [&series](size_t i) { return series.values[i]; });
  if (!rate) return;
  // The parts have equal numbers of samples, so a few slow iterations may fill most of them.
  const double usual = std::min(*rate, series.per_iteration);
  report.evidence.set(joined(series.name, "usual_per_iteration"), usual);
  report.evidence.set(joined(series.name, "usual_per_second"),
                      usual * static_cast<double>(report.iterations) / seconds);
  const double gained = series.last - series.first;
  if (gained <= 0) return;
  const int64_t middle = (report.sample_iterations.front() + report.sample_iterations.back()) / 2;
  report.evidence.set(joined(series.name, "late_share"),
                      (series.last - value_at(report, series, middle)) / gained);
}

/// The part of the growth of `held` that isn't in use.
void add_slack(Evidence& evidence, std::string name, std::string_view held, std::string_view used) {
  const double more_held = evidence.get(joined(held, "gained")).value_or(0);
  const double more_used = std::max(0.0, evidence.get(joined(used, "gained")).value_or(0));
  if (more_held > 0) evidence.set(std::move(name), 1 - more_used / more_held);
}

/// The split of a run into a quick beginning and a slower rest.
struct Beginning {
  double times_slower = 1;    // the rest divided by the beginning, for window means
  double usually_slower = 1;  // the same for medians
  int64_t until = 0;          // iteration
};

/// Finds the split within the first half of the run by least squares over the windows' means. Medians
/// wouldn't show waits for a full queue that are concentrated in few iterations. Returns nullopt if the two
/// halves of the rest differ by half or more, since then the beginning isn't the exception.
std::optional<Beginning> quick_beginning(std::span<const Window> windows) {
  constexpr size_t kMinWindows = 16;
  constexpr double kLevel = 1.5;
  if (windows.size() < kMinWindows) return std::nullopt;
  std::vector<double> means;
  for (const Window& window : windows) means.push_back(window.mean_ns());
  const std::span<const double> all(means);
  size_t best = 0;
  double most = 0;  // the largest reduction of the sum of squares
  double before = 0;
  const double total = mean(all) * static_cast<double>(all.size());
  for (size_t k = 1; k <= all.size() / 2; ++k) {
    before += all[k - 1];
    const auto n = static_cast<double>(all.size()), first = static_cast<double>(k);
    const double apart = (total - before) / (n - first) - before / first;
    const double taken = apart * apart * first * (n - first) / n;
    if (apart <= 0 || taken <= most) continue;
    most = taken;
    best = k;
  }
  if (best == 0) return std::nullopt;
  const std::span<const double> rest = all.subspan(best);
  const double early = mean(rest.first(rest.size() / 2)), late = mean(rest.subspan(rest.size() / 2));
  if (late > kLevel * early || early > kLevel * late) return std::nullopt;
  std::vector<double> medians;
  for (const Window& window : windows) medians.push_back(window.median_ns());
  const std::span<const double> usual(medians);
  return Beginning{mean(rest) / std::max(1.0, mean(all.first(best))),
                   median(usual.subspan(best)) / std::max(1.0, median(usual.first(best))),
                   windows[best].first_iteration};
}

/// Sets the evidence of a beginning that looks fast because a queue accepts the work. Once the queue is full,
/// the loop waits.
void add_beginning(Evidence& evidence, const RunReport& report) {
  const auto beginning = quick_beginning(main_windows(report));
  if (!beginning) return;
  evidence.set("time.quick_beginning", beginning->times_slower);
  evidence.set("time.usually_slower_after", beginning->usually_slower);
  const double before = static_cast<double>(beginning->until);
  const double after = static_cast<double>(report.iterations) - before;
  if (before <= 0 || after <= 0 || report.sample_iterations.size() < 2) return;
  if (const SeriesReport* waits = report.find_series("own_waits")) {
    const double until = value_at(report, *waits, beginning->until);
    evidence.set("own_waits.before", (until - waits->first) / before);
    evidence.set("own_waits.more", (waits->last - until) / after - (until - waits->first) / before);
  }
  if (const SeriesReport* queue = report.find_series("queue_depth")) {
    // Uses the first sample after the beginning, because there may be no earlier one.
    const auto& at = report.sample_iterations;
    const auto soon = std::lower_bound(at.begin(), at.end() - 1, beginning->until) - at.begin();
    const double full = queue->values[static_cast<size_t>(soon)];
    evidence.set("queue_depth.fills",
                 full > 0 && queue->first <= full / 2 && std::fabs(queue->last - full) <= full / 2);
  }
}

/// The increase of `series`, a total of ns, between two samples, as a share of the time between them.
double share_of_time(const RunReport& report, const SeriesReport& series, size_t begin, size_t end) {
  const double ns = series.values[end] - series.values[begin];
  const double iterations =
      static_cast<double>(report.sample_iterations[end] - report.sample_iterations[begin]);
  const double ns_an_iteration = report.seconds * 1e9 / static_cast<double>(report.iterations);
  return iterations > 0 ? ns / (iterations * ns_an_iteration) : 0;
}

/// Sets the share of the time that the machine took, and how much larger that share is in the second half.
void add_machine(Evidence& evidence, const RunReport& report) {
  const double cores = std::max(1, report.machine.cores);
  const auto add = [&](const char* name, const char* series_name, double per) {
    const SeriesReport* series = report.find_series(series_name);
    if (series == nullptr) return;
    const size_t count = series->values.size();
    if (count < 2) return;
    evidence.set(joined(name, "share"), share_of_time(report, *series, 0, count - 1) / per);
    if (count < 4) return;
    evidence.set(joined(name, "more"), (share_of_time(report, *series, count / 2, count - 1) -
                                        share_of_time(report, *series, 0, count / 2)) /
                                           per);
  };
  add("stolen", "stolen_ns", cores);
  add("throttled", "throttled_ns", 1);
  add("device_throttled", "device_throttled_ns", 1);
  for (const char* name : {"clock_khz", "device_clock_khz"}) {
    const SeriesReport* clock = report.find_series(name);
    if (clock == nullptr || clock->values.empty()) continue;
    const std::span<const double> values(clock->values);
    const size_t tenth = std::max<size_t>(1, values.size() / 10);
    const double first = median(values.first(tenth)), last = median(values.last(tenth));
    if (first > 0) evidence.set(joined(name, "drop"), 1 - last / first);
  }
}

/// Spikes during which weights were saved belong to the checkpoint phase, even if the program didn't mark it.
Phase owner_of(const SpikeReport& spikes) {
  const bool saving = spikes.label == kSavedLabel || spikes.label == kSavedBesideLabel;
  return saving ? Phase::kCheckpoint : spikes.owner;
}

SpikeWork work_of(const SpikeReport& spikes) {
  if (spikes.label == kOtherPlanLabel || spikes.label == kTracedLabel) return SpikeWork::kPlans;
  return spikes.label == kTookMemoryLabel ? SpikeWork::kTookMemory : SpikeWork::kOther;
}

/// The share of the time that the reported owner's spikes took beyond the usual duration, estimated from the
/// newest spikes.
double owners_share(const SpikeReport& spikes) {
  double all = 0, own = 0;
  for (const SpikeRecord& spike : spikes.recent) {
    const auto excess = static_cast<double>(spike.duration_ns - spike.usual_ns);
    all += excess;
    if (spike.owner == spikes.owner && spike.label == spikes.label) own += excess;
  }
  return all > 0 ? spikes.time_share * own / all : 0;
}

/// Sets logs.*, the bytes stored in files other than checkpoints and event files. Written bytes include
/// output to pipes and terminals and, over TCP, to other ranks, which isn't stored; stored bytes include the
/// rest of each file's last page. Therefore the smaller of the two counts. Older records don't count event
/// files separately, so their bytes are included.
void add_logs(RunReport& report) {
  const SeriesReport* written = report.find_series("written_bytes");
  const SeriesReport* stored = report.find_series("stored_bytes");
  const SeriesReport* weights = report.find_series("weight_bytes");
  const SeriesReport* events = report.find_series("event_bytes");
  if (written == nullptr || stored == nullptr || weights == nullptr) return;
  const auto logged = [&](size_t i) {
    return std::min(written->values[i], stored->values[i]) - weights->values[i] -
           (events != nullptr ? events->values[i] : 0);
  };
  const auto rate = usual_rate(report, written->values.size(), logged);
  if (!rate) return;
  report.evidence.set("logs.per_iteration", *rate);
  report.evidence.set("logs.per_second",
                      *rate * static_cast<double>(report.iterations) / std::max(1e-9, report.seconds));
  report.evidence.set("logs.gained", logged(written->values.size() - 1) - logged(0));
}

/// The share of the time that the loop waits for its input, in the median of eight parts of the run, so that
/// a single long wait doesn't count.
void add_steady_wait(Evidence& evidence, std::span<const Window> windows) {
  const size_t parts = std::min(kLevels, windows.size());
  if (parts == 0) return;
  std::vector<double> shares;
  for (size_t part = 0; part < parts; ++part) {
    const size_t begin = part * windows.size() / parts, end = (part + 1) * windows.size() / parts;
    double waited = 0, all = 0;
    for (const Window& window : windows.subspan(begin, end - begin)) {
      waited += static_cast<double>(window.phase_ns[static_cast<size_t>(Phase::kDataWait)]);
      for (const int64_t ns : window.phase_ns) all += static_cast<double>(ns);
    }
    shares.push_back(all > 0 ? waited / all : 0);
  }
  evidence.set("phase.data_wait.steady_share", median(shares));
}

/// Sets the quantities of one series, including whether it grows.
void add_series(RunReport& report, const SeriesReport& series, double seconds) {
  Evidence& evidence = report.evidence;
  evidence.set(joined(series.name, "per_iteration"), series.per_iteration);
  // What this process gained, while `seconds` may count an earlier one's too.
  evidence.set(joined(series.name, "per_second"),
               series.per_iteration * static_cast<double>(report.iterations) / seconds);
  evidence.set(joined(series.name, "gained"), series.last - series.first);
  evidence.set(joined(series.name, "last"), series.last);
  if (series.cumulative) {
    add_speed_up(report, series);
    add_regularity(report, series);
  }
  if (!series.verdict) return;
  const auto levels = levels_of(series.values);
  const double steadily = levels ? rise(*levels) : 0;
  const double jumps = in_jumps(evenly_read(report, series));
  evidence.set(joined(series.name, "rise"), steadily);
  evidence.set(joined(series.name, "in_jumps"), jumps);
  // The medians of the first and last eighth ignore memory that is in use only for a moment, such as during a
  // save.
  if (levels) evidence.set(joined(series.name, "gained"), levels->back() - levels->front());
  // A run that is too short for a verdict may still show clear growth.
  const bool plain = series.verdict->kind == Flatness::kInconclusive && steadily >= kSteadily &&
                     jumps < kMaxInJumps && series.last > kPlainly * std::max(1.0, series.first);
  const bool series_grows = series.verdict->kind == Flatness::kGrowing || plain;
  evidence.set(joined(series.name, "growing"), series_grows);
  if (report.time.kind == Flatness::kGrowing && series_grows)
    evidence.set(joined(series.name, "drives_time"), exponent(report.time, *series.verdict));
}

/// Sets quantities of unused memory, disk use and copies, based on those that add_series has set.
void add_memory(RunReport& report, double mean_ns) {
  Evidence& evidence = report.evidence;
  const auto known = [&](std::string_view name) { return evidence.get(name).value_or(0); };
  if (const SeriesReport* heap = report.find_series("heap_bytes")) {
    evidence.set("heap_bytes.doublings", doublings(evenly_read(report, *heap)));
  }
  if (const double disk = known("disk_bytes.per_iteration"); disk > 0)
    evidence.set("disk_bytes.weights_share", known("weight_bytes.per_iteration") / disk);
  add_slack(evidence, "pool.slack", "bytes_reserved", "bytes_in_use");
  add_slack(evidence, "device.slack", "device_reserved_bytes", "device_in_use_bytes");
  if (const double reserved = known("device_reserved_bytes.last"); reserved > 0)
    evidence.set("device.free_share", 1 - known("device_in_use_bytes.last") / reserved);
  const double heap_free = std::max(0.0, known("heap_free_bytes.gained"));
  const double heap_used = std::max(0.0, known("heap_bytes.gained"));
  if (heap_free > 0) evidence.set("heap.slack", heap_free / (heap_free + heap_used));
  if (const double copies = known("host_copies.gained"); copies > 0)
    evidence.set("host_copies.bytes_each", known("host_copy_bytes.gained") / copies);
  constexpr double kFaultNs = 500;
  // Counts only the usual rate, because memory that is touched for the first time faults once.
  evidence.set("minor_faults.share", known("minor_faults.usual_per_iteration") * kFaultNs / mean_ns);
}

void add_spikes(Evidence& evidence, const SpikeReport& spikes) {
  if (!spikes.period) return;
  const std::string owner(spikes.label == kSavedBesideLabel ? "saving_beside" : phase_name(owner_of(spikes)));
  evidence.set(fmt::format("spikes.{}.time_share", owner), owners_share(spikes));
  if (work_of(spikes) != SpikeWork::kPlans) return;
  evidence.set("spikes.plan_period", spikes.period->length);
  evidence.set("spikes.plan_share", owners_share(spikes));
}

}  // namespace

void add_evidence(const Recorder& recorder, Evidence& evidence) {
  const InspectedIterations& inspected = recorder.inspected();
  if (inspected.iterations > 0) {
    const auto count = static_cast<double>(inspected.iterations);
    evidence.set("subnormals.share", static_cast<double>(inspected.subnormal) / count);
    int64_t all = inspected.gained_elsewhere_bytes;
    for (const int64_t bytes : inspected.gained_bytes) all += bytes;
    const int64_t input = inspected.gained_bytes[static_cast<size_t>(Phase::kDataWait)] +
                          inspected.gained_bytes[static_cast<size_t>(Phase::kHostToDevice)] +
                          inspected.gained_elsewhere_bytes;
    const double share = all > 0 ? static_cast<double>(input) / static_cast<double>(all) : 0;
    // A batch that is created in one phase and freed in another isn't a gain; then the phases' gains nearly
    // cancel and the share is large.
    constexpr double kMaxOfGain = 2.5;
    evidence.set("gained_bytes.input_share", share > kMaxOfGain ? 0 : share);
  }
  const RunTotals& totals = recorder.totals();
  const auto usual_ns = static_cast<double>(totals.total_ns - totals.spike_excess_ns);
  for (size_t p = 0; p < kPhaseCount && usual_ns > 0; ++p) {
    const auto of_phase = static_cast<double>(totals.phase_ns[p] - totals.spike_excess_by_owner_ns[p]);
    evidence.set(fmt::format("phase.{}.usual_share", phase_name(static_cast<Phase>(p))), of_phase / usual_ns);
  }
  evidence.set("overhead.undisturbed_ns", recorder.undisturbed_sampling_ns());
  const std::vector<int64_t> tracings = recorder.tracings();
  evidence.set("traces.separate", static_cast<double>(tracings.size()));
  if (const std::optional<Period> period = find_period(tracings)) {
    evidence.set("traces.period", static_cast<double>(period->length));
  }
  const auto add_files = [&](const char* name, FileKind kind) {
    const FilesLeft files = files_left(kind, recorder.files_before());
    evidence.set(joined(name, "left"), static_cast<double>(files.left));
    if (files.written > 0) {
      evidence.set(joined(name, "left_share"),
                   static_cast<double>(files.left) / static_cast<double>(files.written));
    }
  };
  add_files("weight_files", FileKind::kWeights);
  add_files("event_files", FileKind::kEvents);
  if (!recorder.samples().empty()) {
    // Uses the counter's current value, not the last sample's: a number that isn't finite often ends the run.
    const auto counter = static_cast<size_t>(Counter::kNotFinite);
    evidence.set("not_finite.met", static_cast<double>(counter_value(Counter::kNotFinite) -
                                                       recorder.samples().front().counters[counter]));
  }
}

void add_evidence(RunReport& report) {
  Evidence& evidence = report.evidence;
  const bool growing = report.time.kind == Flatness::kGrowing;
  evidence.set("run.iterations", static_cast<double>(report.iterations));
  evidence.set("run.seconds", report.seconds);
  evidence.set("time.growing", growing);
  evidence.set("time.machine_slowed", report.time.machine_slowed);
  if (report.durations_only) return;
  const double mean_ns = std::max(1.0, report.duration_ns.mean), seconds = std::max(1e-9, report.seconds);
  for (size_t p = 0; p < kPhaseCount; ++p) {
    evidence.set(fmt::format("phase.{}.share", phase_name(static_cast<Phase>(p))),
                 report.phase_ns[p] / mean_ns);
  }
  if (growing) add_phase_growth(evidence, report);
  add_steady_wait(evidence, main_windows(report));
  for (const SeriesReport& series : report.series) add_series(report, series, seconds);
  add_memory(report, mean_ns);
  add_logs(report);
  add_beginning(evidence, report);
  if (report.ranks) add_evidence(*report.ranks, growing, evidence);
  add_machine(evidence, report);
  const double in_checkpoints = report.phase_ns[static_cast<size_t>(Phase::kCheckpoint)] +
                                report.between_phase_ns[static_cast<size_t>(Phase::kCheckpoint)];
  evidence.set("phase.checkpoint.share_of_run",
               in_checkpoints * static_cast<double>(report.iterations) * 1e-9 / seconds);
  add_spikes(evidence, report.spikes);
  const double own_ns = report.overhead.per_iteration_ns * static_cast<double>(report.iterations) +
                        evidence.get("overhead.undisturbed_ns").value_or(report.overhead.sampling_ns);
  evidence.set("overhead.share", own_ns * 1e-9 / seconds);
}

void name_causes(RunReport& report) {
  // Below this, the effect isn't worth reporting. Saving occupies a core for a while, even in the background.
  constexpr double kMinShare = 0.02, kMinShareOfSaving = 0.05, kMinSeconds = 0.3;
  report.causes = attribute(report.evidence);
  for (Cause& cause : report.causes) {
    if (report.ranks && cause.name == kStragglingRank)
      cause.evidence = straggler_text(report.evidence, *report.ranks);
  }
  const SpikeReport& spikes = report.spikes;
  if (!spikes.period) return;
  std::string name = fmt::format("spikes owned by {}, period {}", spikes.owner_name(), spikes.period->length);
  const SpikeWork work = work_of(spikes);
  for (Cause& cause : report.causes) {
    if (!owns_spikes(cause.name, owner_of(spikes), work)) continue;
    cause.consequences.push_back(std::move(name));
    return;
  }
  const double least_share = spikes.label == kSavedBesideLabel ? kMinShareOfSaving : kMinShare;
  if (owners_share(spikes) < least_share || report.seconds < kMinSeconds) return;
  report.causes.push_back(
      {std::move(name),
       work == SpikeWork::kTookMemory ? "keep free memory for the next step, or reserve it before the loop"
                                      : "do it less often, in smaller parts, or on another thread",
       fmt::format("{} spikes in all; {:.0f} % of the newest ones with this owner keep the period; they take "
                   "{:.1f} % of the time",
                   spikes.count, 100 * spikes.period->share, 100 * owners_share(spikes))});
}

}  // namespace isochron::observe
