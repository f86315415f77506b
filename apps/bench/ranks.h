// `isochron bench --ranks`: compares a train step over all ranks with the same step on each rank by itself.
#pragma once

#include <cstdint>
#include <vector>

#include "isochron/apps/bench/cases.h"

namespace isochron::apps {

struct RanksOptions {
  CaseOptions how;
  double seconds = 3;  // per case
  int64_t steps = 0;   // over all ranks, and as many alone; 0: as many as fit into `seconds`
  bool json = false;
};

/// Measures the cases, all of which must train, one after the other. Turns over all ranks alternate with
/// turns alone, because the machine may change in between. All ranks begin a turn together. Prints a table,
/// or one JSON object per line. Throws kInvalidArgument if the ranks were started with different options.
void bench_ranks(const std::vector<const BenchCase*>& cases, const RanksOptions& options);

/// How many steps fit into `seconds` if `steps` of them took `took_ns`; at least 1. All ranks get the first
/// rank's number, because all must take the same number of steps.
int64_t steps_of_all(int64_t steps, int64_t took_ns, double seconds);

}  // namespace isochron::apps
