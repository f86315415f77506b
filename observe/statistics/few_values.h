// The verdict on a series of few values, such as the times of ten epochs, by a method without any assumption
// on how they are distributed: the Theil-Sen trend of their logarithms with the exact interval that Kendall's
// distribution gives (Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau", JASA 63, 1968;
// Hollander and Wolfe, "Nonparametric Statistical Methods", 9.3). The values must be independent of each
// other: smoothed ones aren't. From 64 values on, judge_flatness (flatness.h) sees more.
#pragma once

#include <optional>
#include <span>

#include "isochron/observe/statistics/flatness.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {

/// Judged without a word on distribution below this many values; the first tenth, one at least, is warm-up.
inline constexpr size_t kFewValues = 64;
/// Fewer than this, warm-up included, are inconclusive.
inline constexpr size_t kFewestValues = 5;

/// Interval of the median slope between any two values, per index, that holds with at least `confidence`,
/// whatever continuous distribution their independent errors have; ties make it wider than needed. nullopt
/// when so few values give none. Throws kInvalidArgument for a confidence outside (0, 1). O(n^2) time and
/// memory.
std::optional<Interval> theil_sen_interval(std::span<const double> values, double confidence);

/// Judges the change over the run that the trend makes, relative to its beginning: growing when the whole
/// interval at `options.confidence` (95 %, shared out among `options.series`) lies above the bound, shrinking
/// when below its negative; flat when the interval at 2 * confidence - 1 (90 %) lies within,
/// unless two or more of the last values are at a level beyond the bound from those before; else
/// inconclusive, with how many such values would decide. One outlier decides nothing. Of `options` counts no
/// more. Levels and slope have the values' unit. Throws kInvalidArgument for a value that isn't above 0, more
/// than a thousand values, or options out of range.
FlatnessVerdict judge_few_values(std::span<const double> values, const FlatnessOptions& options = {});

}  // namespace isochron::observe
