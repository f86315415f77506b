// Times that alternate between two levels, as when every fourth iteration waits for its input: windows of a
// few iterations mix both, so that the change of one level hides behind the other's size.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace isochron::apps {

struct TwoLevels {
  std::vector<double> shorter;  // in their order
  std::vector<double> longer;
};

/// The times of each level. nullopt for fewer than 64 times, for a level with less than a sixteenth of them,
/// if the levels are no further apart than the times of one level are from each other, and if the share of
/// the longer times changes over the run: that is a change of the whole.
std::optional<TwoLevels> two_levels(std::span<const double> ns);

}  // namespace isochron::apps
