// The verdict on one series of windows as measured, regardless of the machine. It uses level_change.h, which
// estimates how much the level changed, and is used by flatness.h, which removes the machine's influence.
#pragma once

#include "isochron/observe/statistics/flatness.h"

namespace isochron::observe {

/// A series before the correction for the machine's influence, and after a slightly larger correction.
struct Correction {
  FlatnessInput before;
  FlatnessInput moved;
};

/// Removes the warm-up and decides by the changes of level. If `input` has been corrected for the machine's
/// influence, `correction` widens the intervals by the error of that correction.
FlatnessVerdict judge_series(const FlatnessInput& input, const FlatnessOptions& options,
                             const Correction* correction = nullptr);

/// If half of all similar runs are decided with some number of windows or values, four fifths are decided
/// with kForMost times that number.
inline constexpr double kForMost = 2.3;
inline constexpr double kMaxLonger = 1e4;  // largest factor by which to advise a longer run

}  // namespace isochron::observe
