#include "isochron/observe/statistics/series_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "isochron/observe/statistics/few_values.h"
#include "isochron/observe/statistics/level_change.h"

namespace isochron::observe {
namespace {

constexpr size_t kFewest = 4;       // windows; with fewer, no statistic is meaningful
constexpr double kAlarmsRarer = 5;  // than errors of the other claims: nobody looks again where all is flat

using Values = std::vector<double>;
using Asked = ChangeEstimate::Asked;

/// The iteration at which a window begins. For `window` equal to the number of windows, the end of the run.
double start_of(size_t window, const FlatnessInput& input) {
  if (!input.starts.empty()) return input.starts[window];
  return static_cast<double>(input.first_iteration) +
         static_cast<double>(window) * input.iterations_per_window;
}

/// Whether the level after the first `cut` windows is higher than theirs by more than half the bound.
bool rises_after(size_t cut, std::span<const double> medians, const FlatnessOptions& options) {
  const double before = median(medians.first(cut)), after = median(medians.subspan(cut));
  return after > (1 + 0.5 * options.bound) * before;
}

/// First window after warm-up: the truncation that minimizes the standard error of the mean of the remaining
/// windows, with the trend of the settled part removed (otherwise steady growth would look like settling).
/// Returns 0 if the level before the best truncation was lower, and the truncation lies beyond the longest
/// permitted warm-up or `rise_settles` is false: such a rise is a change, not warm-up.
size_t warmup_end(std::span<const double> medians, const FlatnessOptions& options) {
  constexpr double kLookedAt = 0.25;
  const size_t n = medians.size();
  const size_t spare =
      n > static_cast<size_t>(options.min_windows) ? n - static_cast<size_t>(options.min_windows) : 0;
  const size_t most = std::min(static_cast<size_t>(options.max_warmup * static_cast<double>(n)), spare);
  if (most == 0) return 0;
  const size_t looked_at = std::max(most, static_cast<size_t>(kLookedAt * static_cast<double>(n)));
  const Line trend = theil_sen(medians.subspan(most));
  const double negligible = 1e-9 * std::fabs(median(medians));  // rounding must not look like settling
  struct Truncation {
    size_t at = 0;
    double error = kInfinity;
  };
  Truncation best, best_of_all;
  double sum = 0;
  double squares = 0;
  for (size_t i = n; i-- > 0;) {
    const double index = static_cast<double>(i) - static_cast<double>(most);
    const double residual = medians[i] - trend.intercept - trend.slope * index;
    sum += residual;
    squares += residual * residual;
    if (i > looked_at) continue;
    const double count = static_cast<double>(n - i);
    const double variance = std::max(squares - sum * sum / count, negligible * negligible * count);
    const Truncation here{i, variance / (count * count)};
    if (here.error <= best_of_all.error) best_of_all = here;
    if (i <= most && here.error <= best.error) best = here;
  }
  const bool permitted = best_of_all.at <= most;
  const size_t cut = permitted ? best.at : best_of_all.at;
  if (cut == 0 || (permitted && options.rise_settles)) return cut;
  return rises_after(cut, medians, options) ? 0 : best.at;
}

/// How many times longer a run must be to be decided. Half widths shrink with the square root of its length.
/// A change that can't be distinguished from zero is assumed to be zero; this needs an interval of half the
/// bound in every statistic. Any other change must be distinguished from the bound: growth by the joint
/// interval of one statistic, a change within the bound by the separate interval of every statistic.
double factor_to_decide(std::span<const ChangeEstimate> own, std::span<const ChangeEstimate> joint,
                        double bound) {
  const auto factor_of = [](const ChangeEstimate& estimate, double needed) {
    const double ratio = (estimate.high - estimate.change) / needed;
    return needed > 0 ? kForMost * ratio * ratio : kInfinity;
  };
  double flat = 1, beyond = kInfinity;
  for (size_t i = 0; i < own.size(); ++i) {
    if (within(own[i], bound)) continue;
    const double excess = std::fabs(own[i].change) - bound;
    const bool none = own[i].low <= 0 && own[i].high >= 0;
    if (excess > 0 && !none && own[i].asked != Asked::kForFlat)
      beyond = std::min(beyond, factor_of(joint[i], excess));
    if (own[i].asked == Asked::kForChange) continue;
    flat = std::max(flat, factor_of(own[i], none ? 0.5 * bound : -excess));
  }
  const double factor = std::isfinite(beyond) ? beyond : flat;
  return factor <= kMaxLonger ? factor : kInfinity;
}

/// Sets `reason` and the number of iterations that would decide, which is `factor` times the run's, or 0 if
/// it is decided. A run that is too short becomes inconclusive.
void explain(FlatnessVerdict& verdict, const FlatnessInput& input, const FlatnessOptions& options,
             double factor) {
  const double iterations = start_of(input.medians.size(), input) - start_of(0, input);
  const bool few = verdict.windows < options.min_windows;
  const bool brief = input.seconds && *input.seconds < options.min_seconds;
  if (few || brief) {
    const double windows = static_cast<double>(options.min_windows) / std::max(1, verdict.windows);
    const double seconds = brief && *input.seconds > 0 ? options.min_seconds / *input.seconds : 1;
    factor = std::max({factor, windows, seconds});
    verdict.kind = Flatness::kInconclusive;
    std::vector<std::string> missing;
    if (few) missing.push_back(fmt::format("{} windows, {} needed", verdict.windows, options.min_windows));
    if (brief)
      missing.push_back(fmt::format("{:.2f} s, {:.1f} s needed", *input.seconds, options.min_seconds));
    verdict.reason = fmt::format("too short: {}", fmt::join(missing, "; "));
  } else if (verdict.estimates.empty()) {
    verdict.reason = "fewer than four windows";
  } else if (verdict.kind == Flatness::kInconclusive) {
    const ChangeEstimate& widest = farthest(verdict.estimates);
    const bool sure = surely_beyond(widest, options.bound);
    verdict.reason = fmt::format("{} {} {} to {}, the bound is {:.1f} %", widest.name, sure ? "is" : "may be",
                                 percent(widest.low), percent(widest.high), 100 * options.bound);
    if (sure)
      verdict.reason +=
          "; the course of the series doesn't confirm a change from its first to its last tenth";
  } else if (verdict.kind == Flatness::kFlat) {
    verdict.reason = fmt::format("every change lies within {:.1f} %", 100 * options.bound);
  } else {
    verdict.reason = fmt::format("{} is {}", verdict.largest.name, percent(verdict.largest.change));
  }
  verdict.iterations_to_decide = factor == 0 ? 0 : std::ceil(start_of(0, input) + factor * iterations);
}

/// Mentions a warm-up in which the level changed by more than the bound.
void name_warmup(FlatnessVerdict& verdict, const FlatnessInput& input) {
  if (std::fabs(verdict.warmup_change) <= verdict.bound) return;
  const double count = start_of(static_cast<size_t>(verdict.warmup_windows), input) - start_of(0, input);
  verdict.left_out = fmt::format(
      "; the first {} left out as warm-up, after which the level changed by {}",
      count > 1.5 ? fmt::format("{:.0f} {}s are", count, input.unit) : fmt::format("{} is", input.unit),
      percent(verdict.warmup_change));
  verdict.reason += verdict.left_out;
}

/// How much long iterations in a few windows add to the mean of the first and of the second half of the run,
/// as a share of the usual mean. The two longest windows of each half are left out, because a stall isn't
/// growth.
std::array<double, 2> rare_excess(std::span<const double> means) {
  constexpr size_t kStalls = 2;
  const double usual = trimmed_mean(means, 0.25);
  std::array<double, 2> shares{};
  for (const size_t half : {size_t{0}, size_t{1}}) {
    const size_t count = means.size() / 2;
    Values excess;
    for (const double value : half == 0 ? means.first(count) : means.last(count))
      excess.push_back(std::max(0.0, value - usual));
    std::ranges::sort(excess);
    for (size_t i = 0; i + kStalls < excess.size(); ++i) shares[half] += excess[i];
    shares[half] /= usual > 0 ? usual * static_cast<double>(count) : kInfinity;
  }
  return shares;
}

/// If the level grows several-fold, the noise that a wandering machine adds grows with it and can hide the
/// growth from the other statistics. The logarithms of the medians of eighths of the run aren't affected.
/// Only a change by half counts: smaller ones occur by chance if a level wanders slowly by tenths.
void judge_steepness(FlatnessVerdict& verdict, std::span<const double> medians, double confidence) {
  constexpr size_t kParts = 8, kMinOfPart = 8;
  constexpr double kSteep = 0.5;
  const size_t of_part = medians.size() / kParts;
  if (verdict.kind != Flatness::kInconclusive || of_part < kMinOfPart) return;
  Values logs;
  for (size_t i = 0; i < kParts; ++i) {
    const double level = median(medians.subspan(i * of_part, of_part));
    if (level <= 0) return;
    logs.push_back(std::log(level));
  }
  const std::optional<Interval> slope = theil_sen_interval(logs, confidence);
  if (!slope) return;
  const auto change_by = [](double slope_of_logs) { return std::expm1(slope_of_logs * (kParts - 1)); };
  const ChangeEstimate trend{"trend of eighths", change_by(theil_sen(logs).slope), change_by(slope->low),
                             change_by(slope->high)};
  const bool growing = trend.low > kSteep;
  if (!growing && trend.high > 1 / (1 + kSteep) - 1) return;
  verdict.kind = growing ? Flatness::kGrowing : Flatness::kShrinking;
  verdict.largest = trend;
  verdict.estimates.push_back(trend);
}

/// Medians and means of windows don't show long iterations in only a few windows. If their excess has changed
/// by more than twice the bound, a flat verdict becomes inconclusive.
void doubt_rare_iterations(FlatnessVerdict& verdict, std::span<const double> means) {
  if (verdict.kind != Flatness::kFlat) return;
  const auto [first, second] = rare_excess(means);
  if (std::fabs(second - first) <= 2 * verdict.bound) return;
  doubt(verdict, fmt::format("the usual iteration is flat, but long iterations add {:.1f} % to the mean in "
                             "the first half and {:.1f} % in the second",
                             100 * first, 100 * second));
}

/// Of the changes beyond the bound, reports the one whose shape fits the series: a trend through a step is
/// steeper than the step.
void name_by_shape(FlatnessVerdict& verdict, std::span<const LevelChange> changes) {
  if (verdict.kind != Flatness::kGrowing && verdict.kind != Flatness::kShrinking) return;
  const double sign = verdict.kind == Flatness::kGrowing ? 1 : -1;
  for (size_t t = 0; t < changes.size(); ++t) {
    if (!changes[t].shape) continue;
    const ChangeEstimate& shaped = verdict.estimates[t * kStatistics + *changes[t].shape];
    const double nearest = sign > 0 ? shaped.low : -shaped.high;
    if (nearest <= verdict.bound) continue;
    verdict.largest = shaped;
    return;
  }
}

/// Mentions that a level wanders up and down over more than one window; then even a longer run may not
/// decide.
void name_wandering(FlatnessVerdict& verdict, std::span<const LevelChange> changes, size_t points) {
  constexpr double kDependent = 0.5;  // a level wanders if its effective sample size is at most this share
  const LevelChange& widest = *std::ranges::max_element(changes, {}, &LevelChange::wander);
  if (verdict.kind != Flatness::kInconclusive || widest.wander < verdict.bound / 4) return;
  if (widest.independent > kDependent * static_cast<double>(points)) return;
  verdict.reason =
      fmt::format("the level goes up and down by {:.1f} %: {}", 100 * widest.wander, verdict.reason);
}

/// The iteration at which a point begins. The verdict's windows are those of `input` without the first ones.
double iteration_of(size_t point, const FlatnessVerdict& verdict, const FlatnessInput& input) {
  const size_t windows = static_cast<size_t>(verdict.windows), each = windows_per_point(windows);
  const size_t window = static_cast<size_t>(verdict.warmup_windows) + windows % each + point * each;
  return start_of(window, input);
}

/// Mentions an excursion of the level beyond the bound.
void name_excursion(FlatnessVerdict& verdict, const LevelChange& track, const FlatnessInput& input) {
  if (verdict.kind == Flatness::kFlat || !track.excursion) return;
  const auto& [begin, end, change] = *track.excursion;
  if (std::fabs(change) <= verdict.bound) return;
  verdict.reason =
      fmt::format("between about {}s {:.0f} and {:.0f} the level was {:.1f} % {}; {}", input.unit,
                  iteration_of(begin, verdict, input), iteration_of(end, verdict, input),
                  100 * std::fabs(change), change > 0 ? "higher" : "lower", verdict.reason);
}

/// Mentions where the level changed, if most of the change happened at once.
void name_position(FlatnessVerdict& verdict, const LevelChange& track, const FlatnessInput& input) {
  constexpr double kMax = 0.8;
  if (verdict.kind != Flatness::kGrowing && verdict.kind != Flatness::kShrinking) return;
  if (track.excursion) return;  // an excursion has two changes
  const double change = track.changes[kLastTenth], step = track.changes[kStep];
  if (std::fabs(change) <= verdict.bound || step / change < kMax) return;
  verdict.reason +=
      fmt::format(", from about {} {:.0f} on", input.unit, iteration_of(track.change_point, verdict, input));
}

WindowLevels levels_of(const FlatnessInput& input, size_t begin) {
  const auto rest = [begin](std::span<const double> values) {
    return values.empty() ? values : values.subspan(begin);
  };
  return {rest(input.medians), rest(input.trimmed_means), rest(input.means)};
}

/// The first window after warm-up, considering both medians and means. If `rise_settles` is false, a rise of
/// the medians isn't cut off because the means settle.
size_t warmup_end(const FlatnessInput& input, const FlatnessOptions& options) {
  const size_t of_medians = warmup_end(input.medians, options);
  const size_t of_means = input.means.empty() ? 0 : warmup_end(input.means, options);
  if (of_means <= of_medians || options.rise_settles) return std::max(of_medians, of_means);
  return rises_after(of_means, input.medians, options) ? of_medians : of_means;
}

}  // namespace

FlatnessVerdict judge_series(const FlatnessInput& input, const FlatnessOptions& options,
                             const Correction* correction) {
  constexpr double kModelError = 0.02;  // share of the correction's effect on a statistic
  FlatnessVerdict verdict;
  verdict.bound = options.bound;
  const size_t begin = warmup_end(input, options);
  const WindowLevels levels = levels_of(input, begin);
  const std::span<const double> medians = levels.medians;
  verdict.warmup_windows = static_cast<int>(begin);
  if (begin > 0 && medians.size() >= kFewest) {
    const double before = median(input.medians.first(begin));
    const size_t next = std::min(std::max(begin, tenth(medians.size())), medians.size());
    if (before > 0) verdict.warmup_change = median(medians.first(next)) / before - 1;
  }
  verdict.windows = static_cast<int>(medians.size());
  if (medians.size() < kFewest) {
    explain(verdict, input, options, 1);
    return verdict;
  }
  const double of_alarms = (1 - options.confidence) / (kAlarmsRarer * options.series);
  const std::vector<LevelChange> changes = level_changes(levels, {.confidence = options.confidence,
                                                                  .joint_confidence = 1 - of_alarms,
                                                                  .replicates = options.replicates,
                                                                  .seed = options.seed,
                                                                  .corrected = correction != nullptr});
  const auto lowest = [](double change, double half_width) {  // a level can't fall by more than 100 %
    return std::min(change, std::max(-1.0, change - half_width));
  };
  std::vector<ChangeEstimate> joint;
  for (const LevelChange& one : changes) {
    const Statistics before =
        correction == nullptr ? Statistics{} : changes_at(one, levels_of(correction->before, begin));
    const Statistics moved =
        correction == nullptr ? Statistics{} : changes_at(one, levels_of(correction->moved, begin));
    for (size_t s = 0; s < kStatistics; ++s) {
      const double change = one.changes[s];
      const double error =
          correction == nullptr ? 0 : std::hypot(moved[s] - change, kModelError * (before[s] - change));
      const double own = std::hypot(one.half_widths[s], error);
      const double all = std::hypot(one.joint_half_widths[s], error);
      const std::string_view name = statistic_name(one.track, static_cast<Statistic>(s));
      // The trend through a step or a ramp is steeper than the change itself. An excursion that returns has
      // no step, and its end differs from the rest only because the rest contains the excursion.
      const bool of_other_shape =
          one.shape && ((s == kTrend && *one.shape != kTrend) || (s == kStep && *one.shape == kLastTenth) ||
                        (s == kEnd && one.excursion));
      const Asked asked = s == kLastTenth  ? Asked::kForChange
                          : of_other_shape ? Asked::kForFlat
                                           : Asked::kAlways;
      verdict.estimates.push_back({name, change, lowest(change, own), change + own, asked});
      joint.push_back({name, change, lowest(change, all), change + all, asked});
      if (asked != Asked::kForChange)
        verdict.smallest_detectable_change = std::max(verdict.smallest_detectable_change, own);
    }
  }
  const double factor = factor_to_decide(verdict.estimates, joint, options.bound);
  decide(verdict, std::move(joint));
  name_by_shape(verdict, changes);
  judge_steepness(verdict, medians, 1 - of_alarms / static_cast<double>(verdict.estimates.size()));
  verdict.first_tenth = median(medians.first(tenth(medians.size())));
  verdict.last_tenth = median(medians.last(tenth(medians.size())));
  const size_t per_point = windows_per_point(medians.size());
  const size_t points = medians.size() / per_point;
  const size_t n = input.medians.size();
  const double iterations = start_of(n, input) - start_of(n - points * per_point, input);
  const double per_iteration = changes[0].baseline / iterations;
  const ChangeEstimate& trend = verdict.estimates.front();
  verdict.slope = trend.change * per_iteration;
  verdict.slope_interval = {trend.low * per_iteration, trend.high * per_iteration};
  verdict.trend_test = mann_kendall(medians);
  const ChangePoint change_point = pettitt(medians, static_cast<int>(tenth(medians.size())));
  verdict.change_point = change_point.index;
  verdict.change_point_p = change_point.p_value;
  explain(verdict, input, options, verdict.kind == Flatness::kInconclusive ? factor : 0);
  name_wandering(verdict, changes, points);
  name_position(verdict, changes[0], input);
  name_excursion(verdict, changes[0], input);
  name_warmup(verdict, input);
  if (!input.means.empty()) doubt_rare_iterations(verdict, input.means.subspan(begin));
  return verdict;
}

}  // namespace isochron::observe
