#include "isochron/observe/flatness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "isochron/core/error.h"
#include "isochron/observe/level_change.h"
#include "isochron/observe/machine_speed.h"

namespace isochron::observe {
namespace {

constexpr size_t kFewest = 4;        // windows; below, no statistic has a meaning
constexpr double kMostBound = 5;     // times the bound, for a class with hardly any of the time
constexpr double kMostLonger = 1e4;  // times: no advice to make a run still longer
constexpr double kForMost = 2.3;     // times the length that decides half of such runs: four fifths of them
constexpr double kAlarmsRarer = 5;   // than errors of the other claims: nobody looks again where all is flat
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Values = std::vector<double>;
using Asked = ChangeEstimate::Asked;

void check_values(std::span<const double> values, std::string_view what) {
  for (size_t i = 0; i < values.size(); ++i) {
    require(std::isfinite(values[i]), ErrorCode::kNotANumber, "judge_flatness", "{} of window {} is {}", what,
            i, values[i]);
    require(values[i] >= 0, ErrorCode::kInvalidArgument, "judge_flatness", "{} of window {} is {}, below 0",
            what, i, values[i]);
  }
}

void check(const FlatnessInput& input, const FlatnessOptions& options) {
  const auto same_length = [&](std::span<const double> values, std::string_view what) {
    require(values.empty() || values.size() == input.medians.size(), ErrorCode::kShapeMismatch,
            "judge_flatness", "{} medians but {} {}; give one a window", input.medians.size(), values.size(),
            what);
  };
  same_length(input.trimmed_means, "trimmed means");
  same_length(input.means, "means");
  same_length(input.reference, "reference times");
  same_length(input.reference_means, "reference means");
  same_length(input.waited, "waiting times");
  check_values(input.medians, "median");
  check_values(input.trimmed_means, "trimmed mean");
  check_values(input.means, "mean");
  check_values(input.reference, "reference time");
  check_values(input.reference_means, "mean reference time");
  check_values(input.waited, "waiting time");
  same_length(input.quiet_medians, "medians of quiet iterations");
  same_length(input.quiet_means, "means of quiet iterations");
  same_length(input.quiet_shares, "shares of quiet iterations");
  check_values(input.quiet_medians, "median of quiet iterations");
  check_values(input.quiet_means, "mean of quiet iterations");
  check_values(input.quiet_shares, "share of quiet iterations");
  require(input.quiet_shares.empty() == input.quiet_medians.empty() &&
              input.quiet_shares.empty() == input.quiet_means.empty(),
          ErrorCode::kInvalidArgument, "judge_flatness",
          "medians, means and shares of quiet iterations come together");
  require(options.bound > 0 && options.confidence > 0.5 && options.confidence < 1 &&
              options.min_windows >= 0 && options.max_warmup >= 0 && options.max_warmup <= 0.5 &&
              options.replicates >= 39 && options.series >= 1,
          ErrorCode::kInvalidArgument, "judge_flatness",
          "options out of range: need bound > 0, confidence in (0.5, 1), max_warmup in [0, 0.5], replicates "
          ">= 39, "
          "series >= 1");
}

/// First window after warm-up: the truncation that minimises the standard error of the mean of what remains,
/// once the trend of the settled part is taken out (else steady growth would pass for settling). None where
/// that lies later than warm-up may, behind a beginning that was lower: what rises then is no settling.
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
  if (best_of_all.at <= most) return best.at;
  const double before = median(medians.first(best_of_all.at)),
               after = median(medians.subspan(best_of_all.at));
  return after > (1 + 0.5 * options.bound) * before ? 0 : best.at;
}

size_t tenth(size_t n) { return std::max<size_t>(1, n / 10); }

/// How many times longer a run must be: half widths shrink with the root of its length. A change that can't
/// be told from none is taken for none, which needs an interval of half the bound in all statistics. Any
/// other must come clear of the bound: growth in the joint interval of one statistic, a change within the
/// bound in each by itself.
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
  return factor <= kMostLonger ? factor : kInfinity;
}

/// The one that may be farthest from none.
const ChangeEstimate& farthest(std::span<const ChangeEstimate> estimates) {
  return *std::ranges::max_element(estimates, {}, [](const ChangeEstimate& e) {
    return e.asked == Asked::kForChange ? 0 : std::max(std::fabs(e.low), std::fabs(e.high));
  });
}

std::string percent(double change) { return fmt::format("{:+.2f} %", 100 * change); }

/// Sets `reason` and, as `factor` times the run's, the iterations that would decide; 0 where it is decided.
void explain(FlatnessVerdict& verdict, const FlatnessInput& input, const FlatnessOptions& options,
             double factor) {
  const double iterations = static_cast<double>(input.medians.size()) * input.iterations_per_window;
  const bool few = verdict.windows < options.min_windows;
  const bool brief = input.seconds && *input.seconds < options.min_seconds;
  if (few || brief) {
    const double windows = static_cast<double>(options.min_windows) / std::max(1, verdict.windows);
    const double seconds = brief && *input.seconds > 0 ? options.min_seconds / *input.seconds : 1;
    factor = std::max({factor, windows, seconds});
    verdict.kind = Flatness::kInconclusive;
    verdict.reason =
        few ? fmt::format("too short: {} windows, {} needed", verdict.windows, options.min_windows)
            : fmt::format("too short: {:.2f} s, {:.1f} s needed", *input.seconds, options.min_seconds);
  } else if (verdict.estimates.empty()) {
    verdict.reason = "fewer than four windows";
  } else if (verdict.kind == Flatness::kInconclusive) {
    const ChangeEstimate& widest = farthest(verdict.estimates);
    verdict.reason = fmt::format("{} may be {} to {}, the bound is {:.1f} %", widest.name,
                                 percent(widest.low), percent(widest.high), 100 * options.bound);
  } else if (verdict.kind == Flatness::kFlat) {
    verdict.reason = fmt::format("every change lies within {:.1f} %", 100 * options.bound);
  } else {
    verdict.reason = fmt::format("{} is {}", verdict.largest.name, percent(verdict.largest.change));
  }
  verdict.iterations_to_decide = factor == 0 ? 0 : std::ceil(factor * iterations);
}

/// What a series was before it was corrected, and what it would be, had the correction been a little larger.
struct Correction {
  FlatnessInput before;
  FlatnessInput moved;
};

/// What long iterations in a few of the windows add to the mean, in the first and in the second half of the
/// run, as a share of the usual mean. The two longest windows of each half are left out: a stall is no
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

/// The levels of medians and means say nothing of what only a few windows have. Where that has changed by
/// twice the bound, the run isn't called flat.
void doubt_rare_iterations(FlatnessVerdict& verdict, std::span<const double> means) {
  if (verdict.kind != Flatness::kFlat) return;
  const auto [first, second] = rare_excess(means);
  if (std::fabs(second - first) <= 2 * verdict.bound) return;
  verdict.kind = Flatness::kInconclusive;
  verdict.iterations_to_decide = kInfinity;
  verdict.reason = fmt::format(
      "the usual iteration is flat, but long ones add {:.1f} % to it in the first half and {:.1f} % in the "
      "second",
      100 * first, 100 * second);
}

/// Of the changes beyond the bound, the one that has the shape of what happened is told: a trend through a
/// step is steeper than the step.
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

/// Where the level goes up and down for longer than a window, no length of the run may decide.
void name_wandering(FlatnessVerdict& verdict, std::span<const LevelChange> changes, size_t points) {
  constexpr double kDependent = 0.5;  // of the points, that are worth no more than so many independent ones
  const LevelChange& widest = *std::ranges::max_element(changes, {}, &LevelChange::wander);
  if (verdict.kind != Flatness::kInconclusive || widest.wander < verdict.bound / 4) return;
  if (widest.independent > kDependent * static_cast<double>(points)) return;
  verdict.reason =
      fmt::format("the level wanders up and down by {:.1f} %: {}", 100 * widest.wander, verdict.reason);
}

WindowLevels levels_of(const FlatnessInput& input, size_t begin) {
  const auto rest = [begin](std::span<const double> values) {
    return values.empty() ? values : values.subspan(begin);
  };
  return {rest(input.medians), rest(input.trimmed_means), rest(input.means)};
}

/// The first window after warm-up, in the medians and in the means.
size_t warmup_end(const FlatnessInput& input, const FlatnessOptions& options) {
  const size_t of_medians = warmup_end(input.medians, options);
  return input.means.empty() ? of_medians : std::max(of_medians, warmup_end(input.means, options));
}

/// The judgement without a look at the machine. Where `input` has been corrected, the intervals allow for the
/// error of that.
FlatnessVerdict judge(const FlatnessInput& input, const FlatnessOptions& options,
                      const Correction* correction = nullptr) {
  constexpr double kModelError = 0.02;  // of what the correction did to a statistic
  FlatnessVerdict verdict;
  verdict.bound = options.bound;
  const size_t begin = warmup_end(input, options);
  const WindowLevels levels = levels_of(input, begin);
  const std::span<const double> medians = levels.medians;
  verdict.warmup_windows = static_cast<int>(begin);
  verdict.windows = static_cast<int>(medians.size());
  if (medians.size() < kFewest) {
    explain(verdict, input, options, 1);
    return verdict;
  }
  const std::vector<LevelChange> changes = level_changes(
      levels, {.confidence = options.confidence,
               .joint_confidence = 1 - (1 - options.confidence) / (kAlarmsRarer * options.series),
               .replicates = options.replicates,
               .seed = options.seed,
               .corrected = correction != nullptr});
  const auto lowest = [](double change, double half_width) {  // nothing falls by more than all of it
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
      // The trend through a step or a ramp is steeper than what it goes through.
      const bool steeper = s == kTrend && one.shape && *one.shape != kTrend;
      const Asked asked = s == kLastTenth ? Asked::kForChange : steeper ? Asked::kForFlat : Asked::kAlways;
      verdict.estimates.push_back({name, change, lowest(change, own), change + own, asked});
      joint.push_back({name, change, lowest(change, all), change + all, asked});
      if (asked != Asked::kForChange)
        verdict.smallest_detectable_change = std::max(verdict.smallest_detectable_change, own);
    }
  }
  const double factor = factor_to_decide(verdict.estimates, joint, options.bound);
  decide(verdict, std::move(joint));
  name_by_shape(verdict, changes);
  verdict.first_tenth = median(medians.first(tenth(medians.size())));
  verdict.last_tenth = median(medians.last(tenth(medians.size())));
  const size_t per_point = windows_per_point(medians.size());
  const size_t points = medians.size() / per_point;
  const double iterations = static_cast<double>(points * per_point) * input.iterations_per_window;
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
  if (!input.means.empty()) doubt_rare_iterations(verdict, input.means.subspan(begin));
  return verdict;
}

Values at(std::span<const double> values, std::span<const size_t> indices) {
  Values result;
  if (!values.empty()) {
    for (size_t i : indices) result.push_back(values[i]);
  }
  return result;
}

/// Windows' levels without the time in which the program could have run but others had the core. At least a
/// tenth remains: the waiting is read between iterations, and may belong to a neighbour.
Values without_waiting(std::span<const double> levels, std::span<const double> waited) {
  Values result(levels.begin(), levels.end());
  if (waited.empty()) return result;
  for (size_t i = 0; i < result.size(); ++i) result[i] = std::max(0.1 * result[i], result[i] - waited[i]);
  return result;
}

/// Windows' medians and means.
struct Levels {
  Values medians;
  Values means;
};

Levels at(const Levels& levels, std::span<const size_t> indices) {
  return {at(levels.medians, indices), at(levels.means, indices)};
}

FlatnessInput input_of(const Levels& levels, const FlatnessInput& input) {
  FlatnessInput result = input;
  result.medians = levels.medians;
  result.trimmed_means = {};
  result.means = levels.means;
  return result;
}

/// How the machine's part in the means is found: by the kernel's means, or as it is in the medians.
enum class MeansBy { kMeans, kMedians };
/// Whether waiting for a core is spread over the iterations, so that it is in the medians too, or in a few.
enum class Waiting { kInFew, kInAll };

/// The series without the machine's part.
Levels corrected(const FlatnessInput& input, const ReferenceSeries& kernel, MeansBy means_by, Waiting waiting,
                 const EvenSpeedOptions& options) {
  Levels result{
      without_waiting(input.medians, waiting == Waiting::kInAll ? input.waited : std::span<const double>{}),
      without_waiting(input.means, input.waited)};
  result.medians = at_even_speed(result.medians, kernel.typical, kernel, options);
  if (means_by == MeansBy::kMeans) {
    result.means = at_even_speed(result.means, kernel.means, kernel, options);
  } else {
    for (size_t i = 0; i < result.means.size(); ++i)
      result.means[i] *= input.medians[i] > 0 ? result.medians[i] / input.medians[i] : 1;
  }
  return result;
}

/// The windows with enough quiet iterations to be judged by these alone; none where they are too few, in all
/// or in the first or last tenth.
std::vector<size_t> quiet_windows(const FlatnessInput& input) {
  constexpr double kEnough = 0.2;  // of a window's iterations
  std::vector<size_t> kept;
  const size_t n = input.quiet_shares.size();
  for (size_t i = 0; i < n; ++i) {
    if (input.quiet_shares[i] >= kEnough) kept.push_back(i);
  }
  const size_t end = n == 0 ? 0 : tenth(n);
  const auto in_first = static_cast<size_t>(std::ranges::lower_bound(kept, end) - kept.begin());
  const auto in_last = static_cast<size_t>(kept.end() - std::ranges::lower_bound(kept, n - end));
  if (3 * kept.size() < n || 4 * in_first < end || 4 * in_last < end) kept.clear();
  return kept;
}

/// Indices within the judged part of a series, as those of all its windows.
void count_all_windows(FlatnessVerdict& verdict, const std::vector<size_t>& kept) {
  if (verdict.estimates.empty()) return;
  const size_t first = static_cast<size_t>(verdict.warmup_windows);
  const size_t change = first + static_cast<size_t>(verdict.change_point);
  verdict.change_point = static_cast<int>(kept[std::min(change, kept.size() - 1)] - kept[first]);
}

/// The verdict on quiet iterations alone; nothing where there aren't enough.
std::optional<FlatnessVerdict> judge_quiet(const FlatnessInput& input, const FlatnessOptions& options) {
  const std::vector<size_t> kept = quiet_windows(input);
  if (kept.empty()) return std::nullopt;
  FlatnessInput quiet = input;
  quiet.medians = input.quiet_medians;
  quiet.trimmed_means = {};
  quiet.means = input.quiet_means;
  const Levels all{{quiet.medians.begin(), quiet.medians.end()}, {quiet.means.begin(), quiet.means.end()}};
  const Levels levels = at(all, kept);
  const double share = static_cast<double>(kept.size()) / static_cast<double>(input.medians.size());
  FlatnessOptions own = options;
  own.min_windows = static_cast<int>(options.min_windows * share);
  FlatnessInput judged = input_of(levels, input);
  judged.iterations_per_window = input.iterations_per_window / share;
  FlatnessVerdict verdict = judge(judged, own);
  count_all_windows(verdict, kept);
  return verdict;
}

/// Whether enough time was spent waiting for a core to matter.
bool waits(const FlatnessInput& input) {
  constexpr double kMatters = 0.02;
  return !input.waited.empty() && mean(input.waited) > kMatters * mean(input.means);
}

/// The sharpest verdict on what remains of the series once the machine is taken out. Four things are a
/// matter of the run: whether the kernel's mean in a window tells more about the steps' mean there than what
/// it did to their median, whether waiting for a core is in all iterations or in a few, whether disturbed
/// windows are corrected well enough to be judged with the others, and whether the iterations that were not
/// disturbed say enough by themselves. The widths of the intervals tell, which know nothing of the change.
FlatnessVerdict judge_at_even_speed(const FlatnessInput& input, const FlatnessOptions& options,
                                    double least) {
  constexpr double kErrors = 2;  // of the exponents, for 95 %
  const ReferenceSeries kernel{input.reference,
                               input.reference_means.empty() ? input.reference : input.reference_means};
  const Levels measured{{input.medians.begin(), input.medians.end()},
                        {input.means.begin(), input.means.end()}};
  struct Attempt {
    Levels after;
    Levels moved;
  };
  std::vector<Attempt> attempts;
  const auto offer = [&](MeansBy means_by, Waiting waiting) {
    attempts.push_back({corrected(input, kernel, means_by, waiting, {.least = least}),
                        corrected(input, kernel, means_by, waiting, {.least = least, .errors = kErrors})});
  };
  offer(MeansBy::kMeans, Waiting::kInFew);
  offer(MeansBy::kMedians, Waiting::kInFew);
  if (waits(input)) offer(MeansBy::kMeans, Waiting::kInAll);
  std::vector<std::vector<size_t>> choices{undisturbed(kernel)};
  if (std::vector<size_t> kept = unmixed(kernel); kept != choices[0]) choices.push_back(std::move(kept));
  std::optional<FlatnessVerdict> sharpest = judge_quiet(input, options);
  for (const std::vector<size_t>& kept : choices) {
    const Levels before = at(measured, kept);
    const double share = static_cast<double>(kept.size()) / static_cast<double>(input.medians.size());
    FlatnessOptions own = options;
    own.min_windows = static_cast<int>(options.min_windows * share);
    for (const Attempt& attempt : attempts) {
      const Levels after = at(attempt.after, kept);
      const Levels moved = at(attempt.moved, kept);
      FlatnessInput judged = input_of(after, input);
      judged.iterations_per_window = input.iterations_per_window / share;
      const Correction correction{input_of(before, input), input_of(moved, input)};
      FlatnessVerdict verdict = judge(judged, own, &correction);
      count_all_windows(verdict, kept);
      const bool none = !sharpest || sharpest->estimates.empty();
      if (none || verdict.smallest_detectable_change < sharpest->smallest_detectable_change)
        sharpest = std::move(verdict);
    }
  }
  return *std::move(sharpest);
}

/// The verdict on the reference kernel itself.
FlatnessVerdict judge_reference(const FlatnessInput& input, const FlatnessOptions& options) {
  FlatnessInput reference = input;
  reference.medians = input.reference;
  reference.trimmed_means = {};
  reference.means = input.reference_means;
  return judge(reference, options);
}

/// True when the kernel took longer and longer.
bool reference_slowed(const FlatnessInput& input, const FlatnessOptions& options) {
  return std::ranges::any_of(judge_reference(input, options).estimates,
                             [](const ChangeEstimate& estimate) { return estimate.low > 0; });
}

/// A run that is flat only because the machine became faster: growing where the windows show that the program
/// follows the machine, else inconclusive. `verdict` is flat as measured.
FlatnessVerdict doubt_beside_a_faster_machine(FlatnessVerdict verdict, const FlatnessInput& input,
                                              const FlatnessOptions& options) {
  const FlatnessVerdict reference = judge_reference(input, options);
  if (reference.kind != Flatness::kShrinking) return verdict;
  FlatnessVerdict even = judge_at_even_speed(input, options, 0);
  if (even.kind == Flatness::kGrowing) {
    even.reason = fmt::format("hidden by a machine that became faster ({}): {}",
                              percent(reference.largest.change), even.reason);
    return even;
  }
  even = judge_at_even_speed(input, options, 1);
  if (even.kind != Flatness::kGrowing) return verdict;
  verdict.kind = Flatness::kInconclusive;
  verdict.iterations_to_decide = kInfinity;
  verdict.reason = fmt::format(
      "flat as measured, but the machine became faster ({}): a program that follows it has changed by {}",
      percent(reference.largest.change), percent(even.largest.change));
  return verdict;
}

}  // namespace

std::string_view flatness_name(Flatness flatness) {
  constexpr std::string_view kNames[] = {"flat", "growing", "shrinking", "inconclusive"};
  return kNames[static_cast<size_t>(flatness)];
}

bool within(const ChangeEstimate& estimate, double bound) {
  return estimate.low >= -bound && estimate.high <= bound;
}

void decide(FlatnessVerdict& verdict, std::vector<ChangeEstimate> joint) {
  const double bound = verdict.bound;
  const auto beyond_bound = [bound](const ChangeEstimate& e) {
    return e.asked != Asked::kForFlat && (e.low > bound || e.high < -bound);
  };
  const auto lesser = [](const ChangeEstimate& a, const ChangeEstimate& b) {
    return std::fabs(a.change) < std::fabs(b.change);
  };
  std::vector<ChangeEstimate> beyond;
  std::ranges::copy_if(joint, std::back_inserter(beyond), beyond_bound);
  const auto no_change = [bound](const ChangeEstimate& e) {
    return e.asked == Asked::kForChange || within(e, bound);
  };
  if (std::ranges::all_of(verdict.estimates, no_change)) {
    verdict.kind = Flatness::kFlat;
  } else if (!beyond.empty()) {
    verdict.largest = *std::ranges::max_element(beyond, lesser);
    verdict.kind = verdict.largest.change > 0 ? Flatness::kGrowing : Flatness::kShrinking;
    verdict.estimates = std::move(joint);
    return;
  } else {
    verdict.kind = Flatness::kInconclusive;
    for (size_t i = 0; i < joint.size(); ++i) {  // what isn't flat may still be growth
      if (beyond_bound(verdict.estimates[i])) verdict.estimates[i] = joint[i];
    }
  }
  verdict.largest = verdict.kind == Flatness::kFlat ? *std::ranges::max_element(verdict.estimates, lesser)
                                                    : farthest(verdict.estimates);
}

FlatnessVerdict judge_flatness(const FlatnessInput& input, const FlatnessOptions& options) {
  check(input, options);
  FlatnessVerdict verdict = judge(input, options);
  if (input.reference.empty()) return verdict;
  if (verdict.kind == Flatness::kFlat)
    return doubt_beside_a_faster_machine(std::move(verdict), input, options);
  const bool growing = verdict.kind == Flatness::kGrowing;
  FlatnessVerdict even = judge_at_even_speed(input, options, 0);
  const auto cleared = [&even] { return even.kind == Flatness::kFlat || even.kind == Flatness::kShrinking; };
  const bool slowed = growing && !cleared() && reference_slowed(input, options);
  if (slowed && even.kind == Flatness::kGrowing) {
    // A machine that slows steadily shows nothing between neighbours; then the program is taken to slow
    // alike.
    even = judge_at_even_speed(input, options, 1);
  }
  if (growing && even.kind == Flatness::kShrinking && waits(input)) {
    // Not all of the waiting is in the steps: what they did without it lies between.
    even.reason = fmt::format("{} as measured, {} without the time that was waited for a core",
                              percent(verdict.largest.change), percent(even.largest.change));
    even.kind = Flatness::kInconclusive;
    even.iterations_to_decide = kInfinity;
    return even;
  }
  const bool sharper = even.smallest_detectable_change < verdict.smallest_detectable_change;
  // Growth that a sharper look doesn't find may be the machine's.
  const bool doubtful = sharper && even.kind == Flatness::kInconclusive;
  if (growing && !cleared() && !doubtful && (!slowed || even.kind == Flatness::kGrowing)) return verdict;
  if (even.kind == verdict.kind && !sharper) return verdict;
  even.machine_slowed = growing && cleared();
  even.reason = fmt::format("{}{}, at even speed of the machine",
                            even.machine_slowed ? "the machine slowed, not the program: " : "", even.reason);
  return even;
}

FlatnessVerdict judge_classes(std::span<const ClassInput> classes, const FlatnessOptions& options) {
  require(!classes.empty(), ErrorCode::kInvalidArgument, "judge_classes", "no class of steps to judge");
  std::vector<const ClassInput*> judged;
  for (const ClassInput& one : classes) {
    const bool few = one.input.medians.size() < static_cast<size_t>(options.min_windows);
    if (!few || one.time_share >= kMinorShare / 2) judged.push_back(&one);
  }
  if (judged.empty()) {
    judged.push_back(&*std::max_element(
        classes.begin(), classes.end(),
        [](const ClassInput& a, const ClassInput& b) { return a.time_share < b.time_share; }));
  }
  const auto weight =
      [](const FlatnessVerdict& verdict) {  // growing decides before shrinking before inconclusive
        constexpr int kWeights[] = {0, 3, 2, 1};
        return kWeights[static_cast<size_t>(verdict.kind)];
      };
  std::optional<FlatnessVerdict> deciding;
  double deciding_rank = 0;
  bool machine_slowed = false;
  for (const ClassInput* one : judged) {
    FlatnessOptions own = options;
    own.series *= static_cast<int>(judged.size());
    own.bound *= std::clamp(kMinorShare / std::max(1e-9, one->time_share), 1.0, kMostBound);
    FlatnessVerdict verdict = judge_flatness(one->input, own);
    machine_slowed = machine_slowed || verdict.machine_slowed;
    // Of flat classes the one with most of the time speaks, else the one that has changed most.
    const double rank =
        verdict.kind == Flatness::kFlat ? one->time_share : std::fabs(verdict.largest.change) / own.bound;
    const bool larger = deciding && weight(verdict) == weight(*deciding) && rank > deciding_rank;
    if (deciding && weight(verdict) <= weight(*deciding) && !larger) continue;
    deciding = std::move(verdict);
    deciding_rank = rank;
  }
  deciding->machine_slowed = machine_slowed && deciding->kind != Flatness::kGrowing;
  return *deciding;
}

std::string verdict_text(const FlatnessVerdict& verdict) {
  std::string text(flatness_name(verdict.kind));
  if (!verdict.largest.name.empty()) {
    text += fmt::format(": {} [{}, {}] ({})", percent(verdict.largest.change), percent(verdict.largest.low),
                        percent(verdict.largest.high), verdict.largest.name);
  }
  if (verdict.machine_slowed) text += "; the machine slowed, not the program";
  return text;
}

}  // namespace isochron::observe
