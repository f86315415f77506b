// The planner: finds offsets in one arena for buffers of known size and lifetime, so that no two buffers that
// are live at the same time overlap and the arena is as small as possible. `graph` uses it to place a whole
// train step, `isochron plan` to place the buffers of a file.
//
// The problem (dynamic storage allocation) is NP-hard. The planner stops as soon as the arena equals its
// lower bound, the largest sum of aligned sizes live at the same time. Otherwise it returns the best result
// of
//   1. a skyline: longest-lived first, each on top of those already there (n log n, exact for nested
//      lifetimes);
//   2. best fit in order of time, forwards, backwards and from the peak in both directions (n log n);
//   3. a portfolio of greedy orders (by size, size x lifetime, lifetime, start, ...), each buffer in the
//      lowest or tightest gap that is free for its whole lifetime (Pisarchyk and Lee: "Efficient Memory
//      Management for Deep Neural Net Inference", 2020);
//   4. the same, repeated with the buffers that ended too high moved forward (Joslin and Clements: "Squeaky
//      Wheel Optimization", JAIR 1999);
//   5. a bounded search over canonical placements (Moffitt: "MiniMalloc: A Lightweight Memory Allocator for
//      Hardware-Accelerated Machine Learning", ASPLOS 2023);
//   6. steps 1 to 5 for fewer buffers: buffers that fill a rectangle of time and memory without a gap, or
//      nearly so, are joined into one (joined_problem.h);
//   7. if the result is more than 1/64 above the bound, a local search that forces buffers, or the rectangles
//      of step 6, into a lower arena and ejects the ones that they overlap (ejection_search.h).
// Steps 4 to 6 stop within 0.1 % of the bound. Buffers are first split into groups that share no point in
// time. Work is counted in steps, never in time, so that the same requests always give the same plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "isochron/memory/allocators/allocator.h"

namespace isochron {

/// A buffer alive in [lower, upper).
struct BufferRequest {
  int64_t lower = 0;
  int64_t upper = 0;
  size_t size_bytes = 0;
};

struct PlannerOptions {
  size_t alignment = kCpuAlignment;      // of every offset; a power of two
  size_t capacity_bytes = kNoByteLimit;  // a larger arena throws kOutOfMemory
  // Bounds the work if the skyline misses the lower bound: about 2 ns per step, used only until the bound is
  // reached. Negative: 20 million steps and 15,000 more for each buffer, at most 1.2 billion; and for step 7,
  // 2 million for each buffer, at most 700 million. 0: the skyline only. Positive: a limit for both together.
  int64_t step_budget = -1;
};

struct MemoryPlan {
  std::vector<size_t> offsets;       // bytes, in the order of the requests; 0 for empty buffers
  size_t arena_bytes = 0;            // end of the highest buffer, rounded up to the alignment
  size_t lower_bound_bytes = 0;      // largest sum of aligned sizes alive at one moment
  size_t alignment_waste_bytes = 0;  // the part of lower_bound_bytes that alignment added
  size_t total_bytes = 0;            // sum of the requested sizes: the memory needed without sharing
  int64_t peak_time = 0;             // first moment at which the lower bound is reached
  std::string method;                // the method that found the plan: "skyline", "greedy by size", ...

  /// arena / lower bound; 1 for an empty plan.
  double ratio() const {
    return lower_bound_bytes == 0 ? 1.0
                                  : static_cast<double>(arena_bytes) / static_cast<double>(lower_bound_bytes);
  }
};

/// Places `requests`. Deterministic. Throws kInvalidArgument (lower >= upper, negative lower, alignment not a
/// power of two), kOverflow, and, if the arena exceeds the capacity, kOutOfMemory naming the owners at the
/// peak.
MemoryPlan plan_memory(std::span<const BufferRequest> requests, const PlannerOptions& options = {});

/// Verifies a plan, independently of the method that produced it: every offset is aligned, every buffer is
/// inside the arena, and no two live buffers overlap. Throws kInvalidArgument naming the offending buffers.
void check_plan(std::span<const BufferRequest> requests, const MemoryPlan& plan,
                size_t alignment = kCpuAlignment);

/// Indices of the buffers with content that are alive at `time`, largest first.
std::vector<size_t> owners_at(std::span<const BufferRequest> requests, int64_t time);

}  // namespace isochron
