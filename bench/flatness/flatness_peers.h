// Other tests of a series, which flatness_rates compares with the verdict. Each returns whether it would
// raise an alarm.
#pragma once

#include <cstdint>
#include <span>

namespace isochron::bench {

/// Whether the mean of the last tenth differs from that of the first by more than `bound`.
bool tenths_differ(std::span<const double> values, double bound);

/// The Mann-Kendall test for a trend, at 5 %, assuming independent values.
bool mann_kendall_alarms(std::span<const double> values);

/// Whether there is a change point by energy statistics, at a level of 5 % with 199 permutations, and the
/// means on both sides differ by more than `bound`. This is the first step of E-divisive: Matteson and James,
/// "A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data", JASA 109, 2014. O(n^2)
/// per permutation.
bool energy_change_point(std::span<const double> values, double bound, uint64_t seed);

}  // namespace isochron::bench
