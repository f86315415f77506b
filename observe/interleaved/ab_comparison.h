// A/B comparison of a loop with its twin, another process that does the same work and is stopped while the
// loop runs. Before and after the run, the two take turns of some milliseconds in random order. Changes of
// the machine from one millisecond to the next then affect both, and the memory placement of each process,
// which may be worth a tenth of its time, stays the same. If the ratio of their times changes, the loop
// itself has changed during the run, even on a machine whose speed changes by half within a run. `isochron
// compare` uses this; docs/flatness.md describes the method.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isochron/observe/statistics/flatness.h"

namespace isochron::observe {

/// Summary of the iterations of one turn. A stall of the machine is among the longest 15 % and doesn't affect
/// it.
struct TurnTimes {
  int64_t iterations = 0;  // without those that refilled the caches; 0: unknown
  double median_ns = 0;
  double usual_ns = 0;  // mean of all but the longest 15 %
};

/// Summarizes the durations of a turn, given in order. If there are four or more, leaves out the first tenth,
/// but at least one. Reorders the durations.
TurnTimes turn_times(std::span<double> durations_ns);

/// Two turns, one after the other.
struct TurnPair {
  TurnTimes loop;
  TurnTimes twin;
};

/// The turns of a loop and its twin before and after the loop's run.
struct TwinTurns {
  static constexpr size_t kMaxPairs = 4096;  // before, and after
  std::vector<TurnPair> before;
  std::vector<TurnPair> after;
};

/// The least number of pairs before the run, and also after it, for a verdict.
inline constexpr size_t kMinTurnPairs = 16;

/// Relative standard error of the ratio of the loop's time to its twin's, as estimated from `pairs`; infinity
/// for fewer than kMinTurnPairs.
double turn_pairs_error(std::span<const TurnPair> pairs);

/// The verdict on the run between `turns`. `alone` is the verdict on the run by itself, and `bound` the run's
/// bound. Flat if the changes of both the medians and the usual means lie within the bound; growing or
/// shrinking if one of them lies beyond it. If neither is certain, a run that is flat by itself stays flat,
/// and any other is inconclusive. A level is the trimmed mean of the logarithms of the pairs' ratios, without
/// a fifth of them on either side, with the standard error of a trimmed mean (Tukey and McLaughlin, "Less
/// Vulnerable Confidence and Significance Procedures", Sankhya A 25, 1963). The confidence, 95 %, holds over
/// three looks. Returns `alone` if there are too few pairs. Throws kInvalidArgument for a turn without
/// iterations.
FlatnessVerdict judge_ab_comparison(FlatnessVerdict alone, const TwinTurns& turns,
                                    double bound = FlatnessOptions{}.bound);

}  // namespace isochron::observe
