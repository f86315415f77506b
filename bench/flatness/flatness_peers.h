// Other tests of a series, to compare with the verdict in flatness_rates: each says whether it would raise an
// alarm.
#pragma once

#include <cstdint>
#include <span>

namespace isochron::bench {

/// The mean of the last tenth differs from that of the first by more than `bound`.
bool tenths_differ(std::span<const double> values, double bound);

/// Mann-Kendall's test for a trend, at 5 %, as for independent values.
bool mann_kendall_alarms(std::span<const double> values);

/// A change point by energy statistics, at a level of 5 % with 199 permutations, if the means on either side
/// differ by more than `bound`: the first step of E-divisive, Matteson and James, "A Nonparametric Approach
/// for Multiple Change Point Analysis of Multivariate Data", JASA 109, 2014. O(n^2) per permutation.
bool energy_change_point(std::span<const double> values, double bound, uint64_t seed);

}  // namespace isochron::bench
