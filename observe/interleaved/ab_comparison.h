// A loop beside its twin, another process that runs the same and then stands still while the loop goes on.
// Before and after, the two take turns of some milliseconds in random order: what the machine does from one
// millisecond to the next meets both, and where a process has its memory, which may be worth a tenth of its
// time, stays what it was. So what their ratio has changed by is what the loop's going on did to it, also on
// a machine whose speed changes by half within a run. `isochron compare` does it; docs/flatness.md has the
// method.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isochron/observe/statistics/flatness.h"

namespace isochron::observe {

/// The iterations of one turn. A stall of the machine is among the longest.
struct TurnTimes {
  int64_t iterations = 0;  // without those in which caches filled again; 0: nothing is known
  double median_ns = 0;
  double usual_ns = 0;  // mean of all but the longest 15 %
};

/// Of the durations of a turn in order. Where there are four or more, the first tenth is left out, one at
/// least. Reorders them.
TurnTimes turn_times(std::span<double> durations_ns);

/// Two turns, one after the other.
struct TurnPair {
  TurnTimes loop;
  TurnTimes twin;
};

/// What a loop and its twin were seen to do, before the loop went on and after.
struct TwinTurns {
  static constexpr size_t kMostPairs = 4096;  // of either
  std::vector<TurnPair> before;
  std::vector<TurnPair> after;
};

/// Pairs, before and after, below which nothing is said.
inline constexpr size_t kLeastTurnPairs = 16;

/// Standard error of what `pairs` say of the loop's time beside its twin's, relative; infinity below
/// kLeastTurnPairs.
double turn_pairs_error(std::span<const TurnPair> pairs);

/// What `turns` say of the run between them, which on its own was found to be `alone`: flat when the change
/// of both, medians and usual means, lies within the bound, growing or shrinking when one lies beyond it;
/// this decides, and where it is neither, a run that is flat by itself stays so, and any other is
/// inconclusive. A level is the mean logarithm of the pairs' ratios without a fifth of them on either side;
/// its standard error is that of such a mean (Tukey and McLaughlin, "Less Vulnerable Confidence and
/// Significance Procedures", Sankhya A 25, 1963). The confidence, 95 %, holds over three looks. `alone` where
/// there are too few pairs. `bound`: the run's. Throws kInvalidArgument for a turn without
/// iterations.
FlatnessVerdict judge_ab_comparison(FlatnessVerdict alone, const TwinTurns& turns,
                                    double bound = FlatnessOptions{}.bound);

}  // namespace isochron::observe
