// Separates times that alternate between two levels, for example if every fourth iteration waits for its
// input. Windows of a few iterations mix both levels, so a change of the lower level would be hidden by the
// size of the other.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace isochron::apps {

struct TwoLevels {
  std::vector<double> shorter;  // in order
  std::vector<double> longer;
};

/// The times of each level, which are at least a sixteenth of all. Returns nullopt for fewer than 64 times,
/// if a time isn't above 0, if the gap between the levels is below a factor of 1.2 or smaller than the spread
/// of a level, or if the share of the longer times changes over the run, which is a change of the run as a
/// whole.
std::optional<TwoLevels> two_levels(std::span<const double> ns);

}  // namespace isochron::apps
