// The verdict on one series of windows as it is, without a look at the machine. Between level_change.h, which
// says by how much the level changed, and flatness.h, which takes the machine out.
#pragma once

#include <span>
#include <string>

#include "isochron/observe/statistics/flatness.h"

namespace isochron::observe {

/// What a series was before the machine was taken out of it, and what it would be, had the correction been a
/// little larger.
struct Correction {
  FlatnessInput before;
  FlatnessInput moved;
};

/// Cuts warm-up, and decides by the changes of level. Where `input` has been corrected, the intervals allow
/// for the error of that.
FlatnessVerdict judge_series(const FlatnessInput& input, const FlatnessOptions& options,
                             const Correction* correction = nullptr);

/// Times the windows or values that decide half of such runs: so many decide four fifths of them.
inline constexpr double kForMost = 2.3;
inline constexpr double kMostLonger = 1e4;  // times: no advice to make a run still longer

/// The one that may be farthest from none.
const ChangeEstimate& farthest(std::span<const ChangeEstimate> estimates);
/// "+1.25 %"
std::string percent(double change);

}  // namespace isochron::observe
