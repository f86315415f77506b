// By how much the level of a series of windows changed over a run, and how well that is known. Below
// flatness.h, which holds it against a bound.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace isochron::observe {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What a change is read off: the slope times the run's length, the last tenth less the first, the level
/// after the change point less the level before, and the last tenth less all before it.
enum Statistic : size_t { kTrend, kLastTenth, kStep, kEnd };
inline constexpr size_t kStatistics = 4;
using Statistics = std::array<double, kStatistics>;

/// How a window is summed up, and stretches of windows are: medians and trimmed means with robust statistics,
/// for which single windows don't count, means with linear ones, in which every window counts.
enum class Track { kMedians, kTrimmedMeans, kMeans };
std::string_view statistic_name(Track track, Statistic statistic);  // "last tenth of means"

/// One value a window. The trimmed means and the means may be missing.
struct WindowLevels {
  std::span<const double> medians;
  std::span<const double> trimmed_means = {};
  std::span<const double> means = {};
};

struct LevelChangeOptions {
  /// Of two one-sided tests of each statistic, and of all statistics of all series together.
  double confidence = 0.95;
  double joint_confidence = 0.99;
  int replicates = 299;
  uint64_t seed = 1;
  bool corrected = false;  // a step may be what the correction for the machine's speed has left
};

/// The changes of one track, relative to the level of its first tenth.
struct LevelChange {
  Track track = Track::kMedians;
  Statistics changes{};
  Statistics half_widths{};        // of the interval of each by itself, see `confidence`
  Statistics joint_half_widths{};  // of those that hold together
  std::optional<Statistic> shape;  // whose shape the level has; none: constant
  double baseline = 1;             // the first tenth's level, in the series' unit
  double wander = 0;               // standard deviation around the shape, relative
  double independent = 0;          // points, of as many that depend on each other
  size_t change_point = 0;         // of the points
};

/// Of the medians or the trimmed means, whichever is known better, and of the means where there are any. What
/// recurs with a period and long iterations are taken out first (recurring.h), and the windows grouped to
/// about 64 points. Errors are those of a circular block bootstrap of what lies around the simplest shape
/// that explains the points (constant, line, step, ramp, excursion or monotone curve), widened for their
/// dependence; intervals are Student's with as many degrees as there are independent points. Needs 4 windows.
std::vector<LevelChange> level_changes(const WindowLevels& levels, const LevelChangeOptions& options);

/// The changes that other values, of equal windows, show in the same places.
Statistics changes_at(const LevelChange& change, const WindowLevels& levels);

/// How many of `n` windows or points are in the first tenth of them.
size_t tenth(size_t n);
/// How many windows make one of those points.
size_t windows_per_point(size_t windows);

}  // namespace isochron::observe
