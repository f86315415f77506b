// The verdict on a series after the machine's influence has been removed. flatness.h uses it and explains
// when it is needed.
#pragma once

#include "isochron/observe/statistics/flatness.h"

namespace isochron::observe {

/// Whether the program spent enough time waiting for a core to matter.
bool waits(const FlatnessInput& input);

/// The verdict on the series minus the time spent waiting for a core.
FlatnessVerdict judge_without_waiting(const FlatnessInput& input, const FlatnessOptions& options);

/// The sharpest verdict on the series after the machine's influence has been removed. Four choices depend on
/// the run: whether the means are corrected by the kernel's means or in the same way as the medians; whether
/// waiting for a core affects all iterations or a few; whether disturbed windows are corrected well enough to
/// be judged with the others; and whether the undisturbed iterations alone are enough. The choice with the
/// narrowest intervals is taken; their widths don't depend on the change. `least`: see EvenSpeedOptions.
FlatnessVerdict judge_at_even_speed(const FlatnessInput& input, const FlatnessOptions& options, double least);

}  // namespace isochron::observe
