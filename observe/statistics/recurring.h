// What comes again and again in a run by design (checkpoints, evaluations, collections of garbage, epochs)
// and would look like noise to the verdict: taken out of a series of windows, so that what remains shows the
// level. Stands below flatness.h.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace isochron::observe {

/// The windows' means with the time of long iterations spread evenly over the windows since the long
/// iteration before, so that it doesn't matter how many of them a stretch of windows happens to hold; sums
/// over the run hardly change. Long is what adds to a window's mean, beyond its `typical` value, at least a
/// third of what the windows' largest additions do. The `kStalls` largest are cut down to the next, for a
/// stall is no growth. Lengths must agree.
std::vector<double> with_long_iterations_spread(std::span<const double> typical,
                                                std::span<const double> means);
inline constexpr size_t kStalls = 5;

struct Season {
  double windows = 0;           // the period's length
  double explained = 0;         // of the variance, adjusted for the bins
  std::vector<double> profile;  // deviation from the level in each part of the period, mean 0
};
/// The period that explains most of what lies around the trend, by phase dispersion minimization
/// (Stellingwerf, "Period Determination Using Phase Dispersion Minimization", Astrophysical Journal 224,
/// 1978): at least two windows long, in the series at least four times. Nothing where it explains less than
/// 0.6 of the variance, or less than 0.8 when the series has it less than eight times.
std::optional<Season> find_season(std::span<const double> values);
/// `values` without it.
std::vector<double> without(const Season& season, std::span<const double> values);

}  // namespace isochron::observe
