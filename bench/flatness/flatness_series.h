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

/// The main of a program called with [SERIES_PER_CLASS] [TEXT]: `print_table` for healthy classes, then for
/// the others, of those whose name holds TEXT. Returns its exit code.
int print_tables(int argc, char** argv, int usual_count,
                 const std::function<void(bool healthy, int count, const std::string& only)>& print_table);

}  // namespace isochron::bench
