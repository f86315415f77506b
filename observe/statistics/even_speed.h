// The verdict on a series once the machine is taken out of it. Below flatness.h, which says when that is
// asked for.
#pragma once

#include "isochron/observe/statistics/flatness.h"

namespace isochron::observe {

/// Whether enough time was spent waiting for a core to matter.
bool waits(const FlatnessInput& input);

/// The sharpest verdict on what remains of the series once the machine is taken out. Four things are a
/// matter of the run: whether the kernel's mean in a window tells more about the steps' mean there than what
/// it did to their median, whether waiting for a core is in all iterations or in a few, whether disturbed
/// windows are corrected well enough to be judged with the others, and whether the iterations that were not
/// disturbed say enough by themselves. The widths of the intervals tell, which know nothing of the change.
/// `least` is the exponent with which steps follow the kernel where the windows show none.
FlatnessVerdict judge_at_even_speed(const FlatnessInput& input, const FlatnessOptions& options, double least);

}  // namespace isochron::observe
