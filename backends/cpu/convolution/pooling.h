// Pooling kernels: one vector function for a row of windows, over their channels.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"
#include "isochron/ops/convolution/pooling_shape.h"

namespace isochron::ops {

/// f32 or f64, or 16-bit floats in and out. Null if gradients of overlapping windows would be summed in 16
/// bits, or if the dtypes differ.
std::unique_ptr<graph::Kernel> prepare_pooling(Pooling pooling, const PoolingShape& shape,
                                               const graph::KernelRequest& request);

/// Windows side by side in one row of the output that see their pixels at the same places.
struct WindowRun {
  const int64_t* offsets;    // of the first window's pixels, in elements from the image's first
  const int32_t* positions;  // the window elements that they lie under
  int64_t count;             // of both
  int64_t windows;
  int64_t step;  // elements from a window's pixels to the next one's
  int64_t channels;
};

/// What the kernels are made of, in vectors over the channels. x and dx are images; y, dy and `at` begin at
/// the first window's pixel of the output. Numbers are stored as E, positions as P.
template <typename E, typename P>
struct PoolingFunctions {
  /// y = the largest, at = its position (either null: not wanted).
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
/// For float, double, float16, bfloat16 with uint8_t, int32_t.
template <typename E, typename P>
const PoolingFunctions<E, P>& pooling_functions();

}  // namespace isochron::ops
