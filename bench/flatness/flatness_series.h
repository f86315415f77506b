// Synthetic iteration times that resemble those of training programs: healthy runs, whose level is the same
// at the end as at the beginning, and faulty runs, which change by twice the verdict's bound or more.
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

/// `bound` is the verdict's relative bound; faulty runs change by twice as much.
std::vector<SeriesClass> series_classes(double bound);

/// The main function of programs with the arguments [SERIES_PER_CLASS] [TEXT]. Calls `print_table` for the
/// healthy classes and then for the others, with TEXT as `only`, so that only classes whose name contains it
/// are judged. Returns the exit code.
int print_tables(int argc, char** argv, int usual_count,
                 const std::function<void(bool healthy, int count, const std::string& only)>& print_table);

}  // namespace isochron::bench
