// Removes the effect of the machine's changing speed from a series of windows, by means of the reference
// kernel that was timed in them. Sits between the recorder, which times the kernel, and the flatness verdict.
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
  double least = 0;   // lower limit of the exponent for small changes, the default for larger ones
  double errors = 0;  // standard errors that the exponents are moved up by
};

/// The series as it would have been on a machine of constant speed: each value is divided by a power of
/// `reference` (its typical times or its means) relative to the usual value. There is one exponent each for
/// small changes of speed (clock frequency), for disturbances (another program has a share of the core), and
/// large changes (cores moved apart). They are estimated in [0, 2] from neighboring windows with both trends
/// removed; windows in which the machine changed don't count. The series is returned unchanged if a value or
/// a time isn't positive. Lengths must agree.
std::vector<double> at_even_speed(std::span<const double> values, std::span<const double> reference,
                                  const ReferenceSeries& kernel, const EvenSpeedOptions& options = {});

/// Indices of the windows to judge: those in which the machine was undisturbed. If that is less than a
/// quarter of the first or last tenth of the run, all of that tenth is kept; if less than a third of the run
/// would remain, all of the run.
std::vector<size_t> undisturbed(const ReferenceSeries& kernel);
/// The same for the windows in which the machine didn't change, disturbed or not.
std::vector<size_t> unmixed(const ReferenceSeries& kernel);

}  // namespace isochron::observe
