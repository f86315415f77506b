// Synthetic runs, iteration by iteration, like those of training programs: healthy runs, whose level is the
// same at the end as at the beginning, and sick runs, which change by twice the verdict's bound or more.
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
  /// The durations of a run in ns; its length and everything the name doesn't specify are drawn from `seed`.
  std::function<std::vector<double>(uint64_t seed)> make;
};

/// `bound`: of the verdict, relative; sick runs change by twice as much.
std::vector<SeriesClass> series_classes(double bound);

/// The main function of a program called with [SERIES_PER_CLASS] [TEXT]: calls `print_table` for the healthy
/// classes and then for the others, in each case only for classes whose name contains TEXT. Returns the exit
/// code.
int print_tables(int argc, char** argv, int usual_count,
                 const std::function<void(bool healthy, int count, const std::string& only)>& print_table);

}  // namespace isochron::bench
