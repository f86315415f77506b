// Reductions at the end of element programs, which fold tiles into accumulators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "isochron/backends/cpu/elementwise/tile_functions.h"

namespace isochron::ops {

struct Reduction {
  int reg = 0;
  int output = 0;
  graph::ReduceKind kind = graph::ReduceKind::kSum;
  DType dtype = DType::kF32;
  TileReduction reduce = nullptr;
  TileFunction combine = nullptr;  // combines two tiles
  int64_t out_elems = 1;
  int64_t count = 1;  // elements folded into each result
  // The iteration shape, innermost axis last. Neighboring axes are merged if both or neither are reduced.
  std::vector<int64_t> extents;
  std::vector<int64_t> out_strides;  // 0 for reduced axes
  bool inner_reduced = true;
};

union Accumulator {
  double f;
  int64_t i;
};

template <typename N>
N combine_numbers(graph::ReduceKind kind, N a, N b) {
  switch (kind) {
    case graph::ReduceKind::kProd:
      return a * b;
    case graph::ReduceKind::kMax:
      return b > a || b != b ? b : a;
    case graph::ReduceKind::kMin:
      return b < a || b != b ? b : a;
    default:
      return a + b;
  }
}

inline void fold(Accumulator& into, Accumulator value, graph::ReduceKind kind, bool floating) {
  if (floating) {
    into.f = combine_numbers(kind, into.f, value.f);
  } else {
    into.i = combine_numbers(kind, into.i, value.i);
  }
}

Accumulator identity_of(graph::ReduceKind kind, bool floating);
/// Folds `tile`, which holds elements [begin, begin + n) of the iteration. `scratch` is a tile that may be
/// overwritten.
void accumulate_tile(const Reduction& reduction, Accumulator* into, std::byte* tile, std::byte* scratch,
                     int64_t begin, int64_t n);
/// Whether tiles are folded in scratch memory, as for column sums in a dtype that can hold partial results.
bool halves(const Reduction& reduction);
/// Writes the results; means are divided by their counts.
void store_results(void* out, const Accumulator* from, const Reduction& reduction);

}  // namespace isochron::ops
