// Pooling kernels. A vector function over the channels computes a row of windows.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"
#include "isochron/ops/convolution/pooling_shape.h"

namespace isochron::ops {

/// For f32, f64 and 16-bit floats. Null if gradients of overlapping windows would be summed in 16 bits, or if
/// input and output dtypes differ.
std::unique_ptr<graph::Kernel> prepare_pooling(Pooling pooling, const PoolingShape& shape,
                                               const graph::KernelRequest& request);

/// Adjacent windows of one output row that have pixels at the same relative positions.
struct WindowRun {
  const int64_t* offsets;    // pixels of the first window: element offsets in the image
  const int32_t* positions;  // position of each of these pixels in the window
  int64_t count;             // length of both arrays
  int64_t windows;
  int64_t step;  // elements from one window to the next
  int64_t channels;
};

/// The vector functions that the kernels use, over the channels. x and dx point to an image; y, dy and `at`
/// point to the output pixel of the first window. Numbers are stored as E, positions as P.
template <typename E, typename P>
struct PoolingFunctions {
  /// y = the maximum, at = its position; either may be null if it isn't needed.
  void (*max)(const WindowRun& run, const E* x, E* y, P* at);
  /// y = factor * sum of the pixels.
  void (*scaled_sum)(const WindowRun& run, const E* x, ComputeType<E> factor, E* y);
  /// y = the pixel at position `at`.
  void (*select)(const WindowRun& run, const E* x, const P* at, E* y);
  /// dx = (add ? dx : 0) + (at == position ? dy : 0).
  void (*scatter)(const WindowRun& run, const E* dy, const P* at, bool add, E* dx);
  /// dx = (add ? dx : 0) + factor * dy.
  void (*scaled_add)(const WindowRun& run, const E* dy, ComputeType<E> factor, bool add, E* dx);
};
/// E: float, double, float16 or bfloat16; P: uint8_t or int32_t.
template <typename E, typename P>
const PoolingFunctions<E, P>& pooling_functions();

}  // namespace isochron::ops
