// Synthetic runs, iteration by iteration, of the kinds that training programs show: healthy ones, whose level
// at the end is that of the beginning, and sick ones, which change by twice the verdict's bound or more.
// flatness_rates judges them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace isochron::bench {

enum class Truth { kHealthy, kGrowing, kShrinking };

struct SeriesClass {
  std::string name;
  Truth truth = Truth::kHealthy;
  /// The durations of a run in ns; its length and what the name leaves open are drawn from `seed`.
  std::function<std::vector<double>(uint64_t seed)> make;
};

/// `bound`: of the verdict, relative; sick runs change by twice as much.
std::vector<SeriesClass> series_classes(double bound);

}  // namespace isochron::bench
