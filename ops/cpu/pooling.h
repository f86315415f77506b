// Pooling kernels: one vector function a window, over its channels.
#pragma once

#include <memory>

#include "isochron/graph/op.h"
#include "isochron/ops/pooling.h"

namespace isochron::ops {

///   kMax              input x;               outputs y, positions (either null: not wanted)
///   kMaxGradient      inputs dy, positions;  output dx
///   kMaxSelect        inputs x, positions;   output y: the elements at `positions`
///   kAverage          input x;               output y
///   kAverageGradient  input dy;              output dx
/// `positions` (i32) counts the elements of a window, row-major.
enum class Pooling { kMax, kMaxGradient, kMaxSelect, kAverage, kAverageGradient };

std::unique_ptr<graph::Kernel> prepare_pooling(Pooling pooling, const PoolingShape& shape,
                                               const graph::KernelRequest& request);

/// What the kernels are made of: the elements of one window, in vectors over the channels. `rows[k]` is the
/// pixel under window element `positions[k]`, k < count.
template <typename T>
struct PoolingFunctions {
  /// y = the largest, at = its position (either null: not wanted).
  void (*max)(const T* const* rows, const int32_t* positions, int64_t count, T* y, int32_t* at, int64_t n);
  /// y = factor * sum of the rows.
  void (*scaled_sum)(const T* const* rows, int64_t count, T factor, T* y, int64_t n);
  /// dx = (add ? dx : 0) + (at == position ? g : 0).
  void (*scatter)(T* dx, const T* g, const int32_t* at, int32_t position, bool add, int64_t n);
  /// dx = (add ? dx : 0) + factor * g.
  void (*scaled_add)(T* dx, const T* g, T factor, bool add, int64_t n);
};
template <typename T>
const PoolingFunctions<T>& pooling_functions();
template <>
const PoolingFunctions<float>& pooling_functions<float>();
template <>
const PoolingFunctions<double>& pooling_functions<double>();

}  // namespace isochron::ops
