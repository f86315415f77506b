// Removes events that recur in a run by design (checkpoints, evaluations, garbage collections, epochs) from a
// series of windows. They would look like noise to the verdict; what remains shows the level. flatness.h
// builds on this.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace isochron::observe {

/// The windows' means, with the time of long iterations spread evenly over the windows since the previous
/// long iteration. It then doesn't matter how many of them a stretch of windows happens to hold; sums over
/// the run hardly change. Iterations are long if they add to a window's mean, beyond its `typical` value, at
/// least a third of what the windows' largest additions do. The `kStalls` largest additions are cut down to
/// the next one, because a stall is no growth. Lengths must agree.
std::vector<double> with_long_iterations_spread(std::span<const double> typical,
                                                std::span<const double> means);
inline constexpr size_t kStalls = 5;
/// Cuts the kStalls largest values down to the next one, if there are at least two others.
void cut_stalls(std::vector<double>& values);

struct Season {
  double windows = 0;           // the period's length
  double explained = 0;         // of the variance, adjusted for the bins
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
