// What the machine's changing speed did to a series of windows, by the reference kernel timed in them, and
// the series without it. Between the recorder, which times the kernel, and the flatness verdict.
#pragma once

#include <span>
#include <vector>

namespace isochron::observe {

/// The series as it would have been on a machine of even speed: each value divided by a power of the kernel's
/// time over its usual one. The exponents, one for small changes of speed (clock frequency) and one for
/// disturbances (somebody else has a share of the core), are what the series shows between windows at most
/// four apart, with the trends of both taken out; in [0, 2]. `least` is the exponent where it shows none.
/// Returned as it is where a value or a time isn't positive. Lengths must agree.
std::vector<double> at_even_speed(std::span<const double> values, std::span<const double> reference,
                                  double least);

/// Indices of the windows that are fit to be judged: those in which the machine was undisturbed, but all of
/// the first or last tenth of the run where less than a quarter of it was, and all of the run where less than
/// a third would remain.
std::vector<size_t> undisturbed(std::span<const double> reference);

}  // namespace isochron::observe
