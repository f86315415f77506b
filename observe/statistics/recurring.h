// Removes events that recur in a run by design (checkpoints, evaluations, garbage collections, epochs) from a
// series of windows. Such events would look like noise to the verdict, and the level shows without them.
// flatness.h uses this.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace isochron::observe {

/// The windows' means, with the time of long iterations spread evenly over the windows since the previous
/// long iteration. Then it doesn't matter how many long iterations a stretch of windows happens to contain;
/// sums over the run hardly change. An addition is the amount by which a window's mean exceeds its `typical`
/// value. A window contains long iterations if its addition is at least a third of the largest ones. The
/// `kStalls` largest additions are reduced to the next one, because a stall isn't growth. Lengths must agree.
std::vector<double> with_long_iterations_spread(std::span<const double> typical,
                                                std::span<const double> means);
inline constexpr size_t kStalls = 5;
/// Reduces the kStalls largest values to the next one, if there are at least two others.
void cut_stalls(std::vector<double>& values);

struct Season {
  double windows = 0;           // the period's length
  double explained = 0;         // share of the variance, adjusted for the number of bins
  std::vector<double> profile;  // deviation from the level in each part of the period, mean 0
};
/// The period that explains most of the variance around the trend, by phase dispersion minimization
/// (Stellingwerf, "Period Determination Using Phase Dispersion Minimization", Astrophysical Journal 224,
/// 1978). It is at least two windows long and occurs at least four times in the series. nullopt if it
/// explains less than 0.6 of the variance, or less than 0.8 if it occurs less than eight times.
std::optional<Season> find_season(std::span<const double> values);
/// `values` without the season.
std::vector<double> without(const Season& season, std::span<const double> values);

}  // namespace isochron::observe
