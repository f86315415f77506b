// The verdict on one series of windows as measured, regardless of the machine. Sits between level_change.h,
// which estimates by how much the level changed, and flatness.h, which removes the machine's influence.
#pragma once

#include "isochron/observe/statistics/flatness.h"

namespace isochron::observe {

/// A series before the machine's influence was removed, and as a slightly larger correction would leave it.
struct Correction {
  FlatnessInput before;
  FlatnessInput moved;
};

/// Removes the warm-up and decides by the changes of level. If `input` has been corrected, the intervals
/// allow for the error of the correction.
FlatnessVerdict judge_series(const FlatnessInput& input, const FlatnessOptions& options,
                             const Correction* correction = nullptr);

/// If some number of windows or values decides half of such runs, kForMost times that number decides four
/// fifths.
inline constexpr double kForMost = 2.3;
inline constexpr double kMostLonger = 1e4;  // largest factor by which to advise a longer run

}  // namespace isochron::observe
