// Estimates how much the level of a series of windows changed over a run, with an interval. flatness.h uses
// this and compares the change with a bound.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace isochron::observe {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The statistics that measure a change: the slope times the run's length, the last tenth minus the first,
/// the level after the change point minus the level before it, and the last tenth minus everything before it.
enum Statistic : size_t { kTrend, kLastTenth, kStep, kEnd };
inline constexpr size_t kStatistics = 4;
using Statistics = std::array<double, kStatistics>;

/// How windows, and stretches of windows, are summarized: medians and trimmed means with robust statistics,
/// on which a single window has no influence; means with linear statistics, in which every window counts.
enum class Track { kMedians, kTrimmedMeans, kMeans };
std::string_view statistic_name(Track track, Statistic statistic);  // "last tenth of means"

/// One value per window. The trimmed means and the means may be missing.
struct WindowLevels {
  std::span<const double> medians;
  std::span<const double> trimmed_means = {};
  std::span<const double> means = {};
};

struct LevelChangeOptions {
  /// `confidence`: of two one-sided tests of each statistic. `joint_confidence`: of all statistics of all
  /// series together.
  double confidence = 0.95;
  double joint_confidence = 0.99;
  int replicates = 299;
  uint64_t seed = 1;
  bool corrected = false;  // a step may be left over from the correction for the machine's speed
};

/// A stretch in which the level differs from before, and after which it changes in the opposite direction.
struct Excursion {
  size_t begin = 0, end = 0;  // points
  double change = 0;          // relative to the level before
};

/// The changes of one track, relative to the level of its first tenth.
struct LevelChange {
  Track track = Track::kMedians;
  Statistics changes{};
  Statistics half_widths{};            // of each statistic's own interval, at `confidence`
  Statistics joint_half_widths{};      // of the joint intervals, at `joint_confidence`
  std::optional<Excursion> excursion;  // if the level has this shape
  std::optional<Statistic> shape;      // the statistic that corresponds to the level's shape; none: constant
  double baseline = 1;                 // the first tenth's level, in the series' unit
  double wander = 0;                   // standard deviation around the shape, relative
  double independent = 0;              // effective sample size, in points
  size_t change_point = 0;             // index of a point
};

/// The changes of the medians or the trimmed means, whichever are known more precisely, and of the means if
/// given. Periodic parts and long iterations are removed first (recurring.h); the windows are grouped into
/// about 64 points. Standard errors come from a circular block bootstrap of the residuals around the simplest
/// shape that explains the points (constant, line, step, ramp, three levels or monotone curve), widened for
/// their dependence. The intervals are Student's, with as many degrees of freedom as there are independent
/// points. Needs at least 4 windows.
std::vector<LevelChange> level_changes(const WindowLevels& levels, const LevelChangeOptions& options);

/// The same statistics, with the same change point, for other values of the same windows.
Statistics changes_at(const LevelChange& change, const WindowLevels& levels);

/// The number of windows or points in the first tenth of `n`.
size_t tenth(size_t n);
/// The number of windows that are grouped into one point.
size_t windows_per_point(size_t windows);

}  // namespace isochron::observe
