// What the machine's changing speed did to a series of windows, by the reference kernel timed in them, and
// the series without it. Between the recorder, which times the kernel, and the flatness verdict.
#pragma once

#include <span>
#include <vector>

namespace isochron::observe {

/// The reference kernel in each window of a run.
struct ReferenceSeries {
  std::span<const double> typical;  // its time in most of its timings
  std::span<const double> means;
};

struct EvenSpeedOptions {
  double least = 0;   // the exponent where the series shows none
  double errors = 0;  // standard errors that the exponents are moved up by
};

/// The series as it would have been on a machine of even speed: each value divided by a power of `reference`
/// (the typical times or the means) over its usual value. The exponents, one each for small changes of speed
/// (clock frequency), for disturbances (somebody else has a share of the core), and for large ones (cores
/// moved apart), are what the series shows between near windows, with the trends of both taken out; in [0,
/// 2]. Windows in which the machine changed tell nothing about them. Returned as it is where a value or a
/// time isn't positive. Lengths must agree.
std::vector<double> at_even_speed(std::span<const double> values, std::span<const double> reference,
                                  const ReferenceSeries& kernel, const EvenSpeedOptions& options = {});

/// Indices of the windows that are fit to be judged: those in which the machine was undisturbed, but all of
/// the first or last tenth of the run where less than a quarter of it was, and all of the run where less than
/// a third would remain.
std::vector<size_t> undisturbed(const ReferenceSeries& kernel);
/// The same of the windows throughout which the machine was the same, disturbed or not.
std::vector<size_t> unmixed(const ReferenceSeries& kernel);

}  // namespace isochron::observe
