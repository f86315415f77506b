// A/B comparison of a loop with its twin: another process that does the same work and is stopped while the
// loop runs on. Before and after the run, the two take turns of some milliseconds in random order. The
// machine's changes from one millisecond to the next then affect both; the memory placement of each process,
// which may be worth a tenth of its time, stays the same. A change of their ratio is therefore an effect of
// the loop's running on, even on a machine whose speed changes by half within a run. `isochron compare` uses
// this; docs/flatness.md has the method.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isochron/observe/statistics/flatness.h"

namespace isochron::observe {

/// The iterations of one turn. A stall of the machine is among the longest.
struct TurnTimes {
  int64_t iterations = 0;  // except those that refilled the caches; 0: nothing is known
  double median_ns = 0;
  double usual_ns = 0;  // mean of all but the longest 15 %
};

/// Summarizes the durations of a turn, given in order. If there are four or more, the first tenth is left
/// out, at least one. Reorders them.
TurnTimes turn_times(std::span<double> durations_ns);

/// Two turns, one after the other.
struct TurnPair {
  TurnTimes loop;
  TurnTimes twin;
};

/// The turns of a loop and its twin before and after the loop's run.
struct TwinTurns {
  static constexpr size_t kMostPairs = 4096;  // of either
  std::vector<TurnPair> before;
  std::vector<TurnPair> after;
};

/// The number of pairs, before and after each, below which there is no verdict.
inline constexpr size_t kLeastTurnPairs = 16;

/// Relative standard error of the ratio of the loop's time to its twin's, as estimated from `pairs`; infinity
/// for fewer than kLeastTurnPairs.
double turn_pairs_error(std::span<const TurnPair> pairs);

/// The verdict of `turns` on the run between them; `alone`: the verdict on that run by itself. Flat if the
/// changes of both medians and usual means lie within the bound; growing or shrinking if one of them lies
/// beyond it. If neither is certain, a run that is flat by itself stays flat, and any other is inconclusive.
/// A level is the mean logarithm of the pairs' ratios without a fifth of them on either side; its standard
/// error is that of such a mean (Tukey and McLaughlin, "Less Vulnerable Confidence and Significance
/// Procedures", Sankhya A 25, 1963). The confidence, 95 %, holds over three looks. Returns `alone` if there
/// are too few pairs. `bound`: the run's. Throws kInvalidArgument for a turn without iterations.
FlatnessVerdict judge_ab_comparison(FlatnessVerdict alone, const TwinTurns& turns,
                                    double bound = FlatnessOptions{}.bound);

}  // namespace isochron::observe
