// `isochron bench --ranks`: compares a train step over all ranks with the same step on each rank alone.
#pragma once

#include <cstdint>
#include <vector>

#include "isochron/apps/bench/cases.h"

namespace isochron::apps {

struct RanksOptions {
  CaseOptions how;
  double seconds = 3;  // for a case
  int64_t steps = 0;   // over ranks, and as many alone; 0: as many as `seconds` have room for
  bool json = false;
};

/// Measures the cases, all of which train, one after the other. Over ranks and alone take turns, for the
/// machine may change meanwhile; all ranks begin a turn together. Prints a table, or one JSON object a line.
/// Throws kInvalidArgument where ranks were started with different options.
void bench_ranks(const std::vector<const BenchCase*>& cases, const RanksOptions& options);

/// How many steps fit into `seconds` where `steps` of them took `took_ns`; at least 1. All ranks get what the
/// first one finds, as they must take equally many.
int64_t steps_of_all(int64_t steps, int64_t took_ns, double seconds);

}  // namespace isochron::apps
