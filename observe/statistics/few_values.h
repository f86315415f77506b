// The verdict on a series of few values, such as the times of ten epochs. The method makes no assumption
// about their distribution: it uses the Theil-Sen trend of their logarithms, with the exact interval that
// follows from Kendall's distribution (Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau",
// JASA 63, 1968; Hollander and Wolfe, "Nonparametric Statistical Methods", 9.3). Mann and Whitney's test
// finds a step to another level. The values must be independent of each other, which smoothed values aren't.
// For 64 values or more, judge_flatness (flatness.h) is more sensitive.
#pragma once

#include <optional>
#include <span>

#include "isochron/observe/statistics/flatness.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {

/// Series of fewer values than this are judged without assuming a distribution. The first tenth of the
/// values, at least one, is warm-up.
inline constexpr size_t kFewValues = 64;
/// With fewer values than this, warm-up included, the verdict is inconclusive.
inline constexpr size_t kFewestValues = 5;

/// Confidence interval of the median slope between any two values, per index. It holds with at least
/// `confidence` for any continuous distribution of independent errors; ties make it wider than needed.
/// nullopt if there are too few values for an interval. Throws kInvalidArgument for a confidence outside (0,
/// 1). O(n^2) time and memory.
std::optional<Interval> theil_sen_interval(std::span<const double> values, double confidence);

/// Judges the change over the run that the trend implies, relative to its beginning. Growing: the whole
/// interval at `options.confidence` (95 %, divided among `options.series`) lies above the bound. Shrinking:
/// it lies below the negative bound. If the trend finds neither, a step to another level may decide instead:
/// the interval of its size, at a fifth of that error probability divided among all possible places, must lie
/// beyond the bound, and the last values must still be on the new level. A fall in the first half of the run
/// counts as settling, not as a step. Flat: the interval at 2 * confidence - 1 (90 %) lies within the bound,
/// unless two or more of the last values differ from the earlier ones by more than the bound. Otherwise
/// inconclusive, with the number of values that would decide. A single outlier decides nothing. The rest of
/// `options` is ignored. Levels and slope have the values' unit. Throws kInvalidArgument for a value that
/// isn't above 0, more than a thousand values, or options out of range.
FlatnessVerdict judge_few_values(std::span<const double> values, const FlatnessOptions& options = {});

}  // namespace isochron::observe
