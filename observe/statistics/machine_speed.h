// Removes the effect of the machine's changing speed from a series of windows, using the times of the
// reference kernel in each window. The recorder times the kernel; the flatness verdict uses the result.
#pragma once

#include <span>
#include <vector>

namespace isochron::observe {

/// The times of the reference kernel in each window of a run.
struct ReferenceSeries {
  std::span<const double> typical;  // its usual time in each window
  std::span<const double> means;
};

struct EvenSpeedOptions {
  double least = 0;   // lower limit of the exponent for small changes, the default for larger ones
  double errors = 0;  // number of standard errors by which to raise the exponents
};

/// The series as it would have been on a machine of constant speed: each value is divided by a power of the
/// ratio of `reference` (the kernel's typical times or means) to its usual value. There are three exponents:
/// for small changes of speed (clock frequency), for disturbances (another program uses part of the core),
/// and for large changes (cores moved apart). They are estimated in [0, 2] from the changes between
/// neighboring windows, with both trends removed. Windows in which the machine changed don't count. The
/// series is returned unchanged if a value or a time isn't positive. Lengths must agree.
std::vector<double> at_even_speed(std::span<const double> values, std::span<const double> reference,
                                  const ReferenceSeries& kernel, const EvenSpeedOptions& options = {});

/// Indices of the windows to judge: those in which the machine was undisturbed. If these are less than a
/// quarter of the windows in the first or last tenth of the run, that whole tenth is kept. If less than a
/// third of the run would remain, all windows are kept.
std::vector<size_t> undisturbed(const ReferenceSeries& kernel);
/// The same for windows within which the machine didn't change, whether disturbed or not.
std::vector<size_t> unmixed(const ReferenceSeries& kernel);

}  // namespace isochron::observe
