#include "isochron/observe/statistics/few_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/observe/statistics/level_change.h"
#include "isochron/observe/statistics/series_verdict.h"

namespace isochron::observe {
namespace {

constexpr size_t kMaxValues = 1000;
constexpr std::string_view kStatistic = "Theil-Sen trend";

/// Probabilities of 0, 1, ... inversions in a random order of n. Inserting the m-th element adds 0 to m - 1
/// inversions, each number with equal probability.
std::vector<double> inversion_probabilities(size_t n) {
  std::vector<double> probabilities{1};
  for (size_t m = 2; m <= n; ++m) {
    std::vector<double> next(m * (m - 1) / 2 + 1);
    double window = 0;  // sum of the last m probabilities of the shorter order
    for (size_t k = 0; k < next.size(); ++k) {
      if (k < probabilities.size()) window += probabilities[k];
      if (k >= m && k - m < probabilities.size()) window -= probabilities[k - m];
      next[k] = std::max(0.0, window) / static_cast<double>(m);
    }
    probabilities = std::move(next);
  }
  return probabilities;
}

/// How many of the sorted slopes lie outside the interval on each side. nullopt if even the interval between
/// the outermost slopes doesn't reach the confidence.
std::optional<size_t> slopes_outside(size_t n, double confidence) {
  const std::vector<double> probabilities = inversion_probabilities(n);
  const double tail = 0.5 * (1 - confidence);
  double sum = 0;
  size_t count = 0;  // 0 to count - 1 inversions together fit into the tail
  while (count < probabilities.size() && sum + probabilities[count] <= tail) sum += probabilities[count++];
  if (count == 0) return std::nullopt;
  return count - 1;
}

std::vector<double> logarithms(std::span<const double> values) {
  std::vector<double> result;
  for (const double value : values) result.push_back(std::log(value));
  return result;
}

/// The change over a run of n values that a slope of their logarithms implies, relative to the run's
/// beginning.
double change_over(double slope, size_t n) { return std::expm1(slope * static_cast<double>(n - 1)); }

/// The fewest values for which there is an interval.
size_t least_for(double confidence) {
  size_t n = 2;
  while (!slopes_outside(n, confidence)) ++n;
  return n;
}

/// How many times as many values would decide: half widths shrink with the square root of their number. A
/// change that can't be distinguished from zero needs an interval of half the bound.
double times_to_decide(const ChangeEstimate& estimate, double bound) {
  const double half_width = 0.5 * (estimate.high - estimate.low);
  const bool none = estimate.low <= 0 && estimate.high >= 0;
  const double needed = none ? 0.5 * bound : std::fabs(std::fabs(estimate.change) - bound);
  const double factor = needed > 0 ? kForMost * half_width * half_width / (needed * needed) : kInfinity;
  return factor <= kMaxLonger ? std::max(1.0, factor) : kInfinity;
}

size_t warmup_of(size_t count) { return std::max<size_t>(1, count / 10); }

void check_few_values(std::span<const double> values, const FlatnessOptions& options) {
  require(options.bound > 0 && options.confidence > 0.5 && options.confidence < 1 && options.series >= 1,
          ErrorCode::kInvalidArgument, "judge_few_values",
          "options out of range: need bound > 0, confidence in (0.5, 1), series >= 1");
  require(values.size() <= kMaxValues, ErrorCode::kInvalidArgument, "judge_few_values",
          "{} values; for {} or more use judge_flatness, and at most {} are accepted", values.size(),
          kFewValues, kMaxValues);
  for (size_t i = 0; i < values.size(); ++i)
    require(values[i] > 0 && std::isfinite(values[i]), ErrorCode::kInvalidArgument, "judge_few_values",
            "value {} is {}, expected a number above 0", i, values[i]);
}

constexpr size_t kFewestBefore = 3, kFewestBehind = 2;  // values, for a step
constexpr double kLongerForStep = 2;   // times as many values: a lasting step is then in the middle
constexpr double kDecidesByStep = 14;  // with fewer values, a complete separation may be chance

/// A step to another level: how many values follow it, and the change.
struct Step {
  size_t values = 0;
  double change = 0;  // relative
};

/// The change of the median of `values` relative to `before`. Of two middle values, the one nearer to
/// `before` counts.
double change_of_level(std::span<const double> values, double before) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double low = sorted[(sorted.size() - 1) / 2] / before - 1,
               high = sorted[sorted.size() / 2] / before - 1;
  return std::fabs(low) < std::fabs(high) ? low : high;
}

/// The clearest step beyond the bound with at least two values after it and at least three before it. A step
/// that separates all values before it from all values after it is clearer than any other. A trend uses few
/// pairs across a step near an end. Fewer values aren't enough, because a single value may be an outlier, and
/// so may some of the earlier ones. Unless `falls_early`, a fall with more than half of the values after it
/// doesn't count, because a run may settle. The test is Mann and Whitney's U ("On a Test of Whether one of
/// Two Random Variables is Stochastically Larger than the Other", Annals of Mathematical Statistics 18,
/// 1947), approximately normal. By chance, a step at a given place is found in one of a hundred series; with
/// few values, of which the last two lie beyond all earlier ones, in up to three.
std::optional<Step> clearest_step(std::span<const double> values, double bound, bool falls_early) {
  constexpr double kDeviations = 2.33;
  std::pair<bool, double> clearest;  // whether all values are separated; their ratio, or else deviations
  std::optional<Step> found;
  for (size_t m = kFewestBehind; m + kFewestBefore <= values.size(); ++m) {
    const auto rest = values.first(values.size() - m), last = values.last(m);
    const double change = change_of_level(last, median(rest));
    if (std::fabs(change) <= bound || (change < 0 && !falls_early && 2 * m > values.size())) continue;
    double above = 0;  // pairs whose later value is larger
    for (const double later : last) {
      for (const double earlier : rest) above += later > earlier ? 1 : later == earlier ? 0.5 : 0;
    }
    const double of_last = static_cast<double>(m), of_rest = static_cast<double>(rest.size());
    const double deviation = std::sqrt(of_last * of_rest * (of_last + of_rest + 1) / 12);
    const double off = above - 0.5 * of_last * of_rest;
    const double apart = std::copysign(1.0, change) * off;
    const bool all = apart == 0.5 * of_last * of_rest;
    const double deviations = apart / deviation;
    const auto& [lower, higher] = change > 0 ? std::pair(rest, last) : std::pair(last, rest);
    const std::pair<bool, double> clear(
        all, all ? std::ranges::min(higher) / std::ranges::max(lower) : deviations);
    if (clear <= clearest || !(all || deviations > kDeviations)) continue;
    clearest = clear;
    found = Step{m, change};
  }
  return found;
}

/// The distribution of Mann and Whitney's U for m and k values: the probabilities that the first value is the
/// larger one in 0, 1, ... of the m * k pairs, if all orders are equally likely. They are the coefficients of
/// a Gaussian binomial.
std::vector<double> pair_probabilities(size_t m, size_t k) {
  std::vector<double> counts(m * k + 1, 0);
  counts[0] = 1;
  double all = 1;
  for (size_t i = 1; i <= m; ++i) {
    for (size_t at = counts.size(); at-- > k + i;) counts[at] -= counts[at - k - i];
    for (size_t at = i; at < counts.size(); ++at) counts[at] += counts[at - i];
    all *= static_cast<double>(k + i) / static_cast<double>(i);
  }
  for (double& count : counts) count = std::max(0.0, count) / all;
  return counts;
}

/// The median difference between one of the last m values and one of the earlier ones, with the interval of
/// Mann and Whitney's test. The true difference lies beyond each end with probability `tail` (Hodges and
/// Lehmann, "Estimates of Location Based on Rank Tests", Annals of Mathematical Statistics 34, 1963). nullopt
/// if there are too few.
std::optional<ChangeEstimate> shift_at(std::span<const double> logs, size_t m, double tail) {
  const auto rest = logs.first(logs.size() - m), last = logs.last(m);
  std::vector<double> shifts;
  for (const double later : last) {
    for (const double earlier : rest) shifts.push_back(later - earlier);
  }
  std::ranges::sort(shifts);
  const std::vector<double> probabilities = pair_probabilities(m, rest.size());
  double sum = 0;
  size_t outside = 0;
  while (outside < shifts.size() / 2 && sum + probabilities[outside] <= tail) sum += probabilities[outside++];
  if (outside == 0) return std::nullopt;
  return ChangeEstimate{"change point", std::expm1(median(shifts)), std::expm1(shifts[outside - 1]),
                        std::expm1(shifts[shifts.size() - outside])};
}

/// The ratio of the variance of a mean of values around the two levels to the variance for independent
/// values.
double dependence(std::span<const double> logs, size_t m) {
  std::vector<double> residuals;
  for (const auto& part : {logs.first(logs.size() - m), logs.last(m)}) {
    const double level = median(part);
    for (const double value : part) residuals.push_back(value - level);
  }
  const double rho = std::clamp(autocorrelation(residuals, 1), 0.0, 0.97);
  return (1 + rho) / (1 - rho);
}

/// The probability beyond the normal distribution's quantile of `tail` if the deviations' variance is
/// `factor` times smaller.
double smaller_tail(double tail, double factor) {
  constexpr int kNearlyNormal = 200;  // degrees of freedom
  if (factor <= 1) return tail;
  return 0.5 * std::erfc(student_quantile(1 - 2 * tail, kNearlyNormal) * std::sqrt(factor / 2));
}

/// A step with the interval of its size. The error probability is divided among all possible places of a
/// step, and made smaller if values depend on their neighbors.
struct SizedStep {
  size_t values = 0;
  std::optional<ChangeEstimate> shift;
};
std::optional<SizedStep> sized_step(std::span<const double> values, double bound,
                                    const FlatnessOptions& options) {
  constexpr double kRarer = 5;  // than errors of the other claims, as in series_verdict.cc
  const std::optional<Step> step = clearest_step(values, bound, false);
  if (!step) return std::nullopt;
  const std::vector<double> logs = logarithms(values);
  const double places = static_cast<double>(values.size() + 1 - kFewestBefore - kFewestBehind);
  const double tail = (1 - options.confidence) / (2 * kRarer * options.series * places);
  return SizedStep{step->values,
                   shift_at(logs, step->values, smaller_tail(tail, dependence(logs, step->values)))};
}

/// The mean absolute distance of the logarithms from two levels, divided by their distance from a line.
double step_beside_line(std::span<const double> logs, size_t m) {
  const auto distance = [](std::span<const double> part, const auto& level_at) {
    double sum = 0;
    for (size_t i = 0; i < part.size(); ++i) sum += std::fabs(part[i] - level_at(i));
    return sum;
  };
  const auto around_median = [&](std::span<const double> part) {
    return distance(part, [level = median(part)](size_t) { return level; });
  };
  const Line line = theil_sen(logs);
  return (around_median(logs.first(logs.size() - m)) + around_median(logs.last(m))) /
         distance(logs, [&](size_t i) { return line.intercept + line.slope * static_cast<double>(i); });
}

/// A trend through a step is steeper than the step. If a step fits clearly better, and its size is near or
/// below the bound, makes growth or shrinking by the trend inconclusive and returns true.
bool doubt_trend_through_step(FlatnessVerdict& verdict, std::span<const double> values,
                              const FlatnessOptions& options) {
  constexpr double kClearly = 0.95, kSurely = 1.5;
  if (verdict.kind != Flatness::kGrowing && verdict.kind != Flatness::kShrinking) return false;
  if (values.size() >= kFewValues) return false;
  const std::optional<SizedStep> step = sized_step(values, 0, options);
  if (!step || !step->shift || std::fabs(step->shift->change) > kSurely * verdict.bound) return false;
  if (surely_beyond(*step->shift, verdict.bound)) return false;
  if (step_beside_line(logarithms(values), step->values) > kClearly) return false;
  doubt(verdict,
        fmt::format("the last {} values are {} from those before, which isn't surely beyond {:.1f} %",
                    step->values, percent(step->shift->change), 100 * verdict.bound),
        kLongerForStep);
  return true;
}

/// If the trend hasn't found growing or shrinking, a step can: if the whole interval of its size lies beyond
/// the bound, and the end of the run also differs from its beginning by more than the bound. `all` includes
/// the warm-up.
void decide_by_step(FlatnessVerdict& verdict, std::span<const double> values, std::span<const double> all,
                    const FlatnessOptions& options) {
  if (verdict.kind == Flatness::kGrowing || verdict.kind == Flatness::kShrinking) return;
  if (all.size() >= kFewValues) return;
  const std::optional<SizedStep> step = sized_step(values, verdict.bound, options);
  if (!step || !step->shift || !surely_beyond(*step->shift, verdict.bound)) return;
  const ChangeEstimate& shift = *step->shift;
  const auto first = all.first(std::max<size_t>(3, all.size() / 10));
  const auto last = values.last(std::max<size_t>(2, values.size() / 10));
  const double in_all = change_of_level(last, median(first));
  if (std::fabs(in_all) <= verdict.bound || in_all * shift.change < 0) return;
  const double since_step = change_of_level(last, median(values.first(values.size() - step->values)));
  if (std::fabs(since_step) <= verdict.bound || since_step * shift.change < 0) return;
  verdict.kind = shift.change > 0 ? Flatness::kGrowing : Flatness::kShrinking;
  verdict.largest = shift;
  verdict.estimates = {shift};
  verdict.iterations_to_decide = 0;
  verdict.reason = fmt::format("the last {} values are {:.1f} % {} those before", step->values,
                               100 * std::fabs(shift.change), shift.change > 0 ? "above" : "below");
}

/// If there is a step, a flat verdict becomes inconclusive, and an inconclusive one mentions the step.
void doubt_step(FlatnessVerdict& verdict, std::span<const double> values) {
  const double longer = std::max(kLongerForStep, kDecidesByStep / static_cast<double>(values.size()));
  if (verdict.kind != Flatness::kFlat && verdict.kind != Flatness::kInconclusive) return;
  const std::optional<Step> step =
      clearest_step(values, verdict.bound, verdict.kind == Flatness::kInconclusive);
  if (!step) return;
  if (verdict.kind == Flatness::kInconclusive) {
    verdict.reason = fmt::format("the last {} values differ by {} from those before; of the trend, {}",
                                 step->values, percent(step->change), verdict.reason);
    verdict.iterations_to_decide = std::min(verdict.iterations_to_decide, longer);
    return;
  }
  doubt(verdict,
        fmt::format("the last {} values differ by {} from those before, which a trend over so few values "
                    "can't show; the bound is {:.1f} %",
                    step->values, percent(step->change), 100 * verdict.bound),
        longer);
}

/// Sets the kind, the interval that decided it, and the reason.
void decide_by_trend(FlatnessVerdict& verdict, std::span<const double> logs, const FlatnessOptions& options) {
  std::vector<double> scratch;
  const double slope = theil_sen_slope(logs, scratch);
  const auto estimate = [&](double confidence) -> std::optional<ChangeEstimate> {
    const std::optional<Interval> interval = theil_sen_interval(logs, confidence);
    if (!interval) return std::nullopt;
    return ChangeEstimate{kStatistic, change_over(slope, logs.size()),
                          change_over(interval->low, logs.size()), change_over(interval->high, logs.size())};
  };
  const double confidence = 1 - (1 - options.confidence) / options.series;
  const auto flat = estimate(2 * options.confidence - 1), beyond = estimate(confidence);
  if (flat) verdict.smallest_detectable_change = 0.5 * (flat->high - flat->low);
  if (flat && within(*flat, options.bound)) {
    verdict.kind = Flatness::kFlat;
    verdict.largest = *flat;
    verdict.reason = fmt::format("the change lies within {:.1f} %", 100 * options.bound);
  } else if (beyond && (beyond->low > options.bound || beyond->high < -options.bound)) {
    verdict.kind = beyond->low > 0 ? Flatness::kGrowing : Flatness::kShrinking;
    verdict.largest = *beyond;
    verdict.reason =
        fmt::format("the trend is {}, {} {:+.1f} %", percent(beyond->change),
                    beyond->low > 0 ? "above" : "below", 100 * std::copysign(options.bound, beyond->low));
  } else if (beyond) {
    verdict.largest = *beyond;
    verdict.iterations_to_decide = times_to_decide(*beyond, options.bound);
    verdict.reason = fmt::format("the change may be {} to {}, the bound is {:.1f} %", percent(beyond->low),
                                 percent(beyond->high), 100 * options.bound);
  } else {
    verdict.iterations_to_decide =
        static_cast<double>(least_for(confidence)) / static_cast<double>(logs.size());
    verdict.reason = fmt::format("too few values for an interval: {} after warm-up", logs.size());
  }
  if (!verdict.largest.name.empty()) verdict.estimates = {verdict.largest};
}

}  // namespace

std::optional<Interval> theil_sen_interval(std::span<const double> values, double confidence) {
  require(confidence > 0 && confidence < 1, ErrorCode::kInvalidArgument, "theil_sen_interval",
          "needs a confidence in (0, 1), got {}", confidence);
  if (values.size() < 2) return std::nullopt;
  const std::optional<size_t> outside = slopes_outside(values.size(), confidence);
  if (!outside) return std::nullopt;
  std::vector<double> slopes;
  theil_sen_slope(values, slopes);
  std::ranges::sort(slopes);
  return Interval{slopes[*outside], slopes[slopes.size() - 1 - *outside]};
}

FlatnessVerdict judge_few_values(std::span<const double> values, const FlatnessOptions& options) {
  check_few_values(values, options);
  FlatnessVerdict verdict;
  verdict.bound = options.bound;
  if (values.size() < kFewestValues) {
    verdict.windows = static_cast<int>(values.size());
    verdict.iterations_to_decide = static_cast<double>(least_for(options.confidence) + 1);
    verdict.reason = fmt::format("too few values: {}, and {} are needed", values.size(), kFewestValues);
    return verdict;
  }
  const size_t warmup = warmup_of(values.size());
  const std::span<const double> kept = values.subspan(warmup);
  verdict.warmup_windows = static_cast<int>(warmup);
  verdict.windows = static_cast<int>(kept.size());
  const std::vector<double> logs = logarithms(kept);
  decide_by_trend(verdict, logs, options);
  if (!doubt_trend_through_step(verdict, kept, options)) {
    decide_by_step(verdict, kept, values, options);
    doubt_step(verdict, kept);
  }
  if (verdict.kind == Flatness::kInconclusive)
    verdict.iterations_to_decide =
        std::ceil(verdict.iterations_to_decide * static_cast<double>(kept.size())) +
        static_cast<double>(warmup);
  const size_t tenth = std::max<size_t>(1, kept.size() / 10);
  verdict.first_tenth = median(kept.first(tenth));
  verdict.last_tenth = median(kept.last(tenth));
  const double per_value = verdict.first_tenth / static_cast<double>(kept.size() - 1);
  verdict.slope = verdict.largest.change * per_value;
  verdict.slope_interval = {verdict.largest.low * per_value, verdict.largest.high * per_value};
  verdict.trend_test = mann_kendall(kept);
  const ChangePoint change_point = pettitt(kept);
  verdict.change_point = change_point.index;
  verdict.change_point_p = change_point.p_value;
  return verdict;
}

}  // namespace isochron::observe
