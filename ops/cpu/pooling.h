// Pooling kernels: one vector function a window, over its channels.
#pragma once

#include <memory>

#include "isochron/graph/op.h"
#include "isochron/ops/pooling.h"

namespace isochron::ops {

/// f32 or f64, or 16-bit floats in and out. Null where gradients of windows that overlap would be summed in
/// 16 bits, and where dtypes differ.
std::unique_ptr<graph::Kernel> prepare_pooling(Pooling pooling, const PoolingShape& shape,
                                               const graph::KernelRequest& request);

/// What the kernels are made of: the elements of one window, in vectors over the channels. `rows[k]` is the
/// pixel under window element `positions[k]`, k < count. Numbers are stored as E, positions as P.
template <typename E, typename P>
struct PoolingFunctions {
  /// y = the largest, at = its position (either null: not wanted).
  void (*max)(const E* const* rows, const int32_t* positions, int64_t count, E* y, P* at, int64_t n);
  /// y = factor * sum of the rows.
  void (*scaled_sum)(const E* const* rows, int64_t count, ComputeType<E> factor, E* y, int64_t n);
  /// dx = (add ? dx : 0) + (at == position ? g : 0).
  void (*scatter)(E* dx, const E* g, const P* at, int32_t position, bool add, int64_t n);
  /// dx = (add ? dx : 0) + factor * g.
  void (*scaled_add)(E* dx, const E* g, ComputeType<E> factor, bool add, int64_t n);
};
/// For float, double, float16, bfloat16 with uint8_t, int32_t.
template <typename E, typename P>
const PoolingFunctions<E, P>& pooling_functions();

}  // namespace isochron::ops
