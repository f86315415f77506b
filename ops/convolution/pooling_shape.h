// The description of a call that pooling kernels are built from.
#pragma once

#include "isochron/ops/convolution/window.h"

namespace isochron::graph {
struct OpCall;
}

namespace isochron::ops {

/// The checked shape of a pooling call. The window is always that of the forward op.
struct PoolingShape : SlidingWindow {
  int64_t batch = 0;
  int64_t channels = 0;
  bool count_padding = false;
};

///   kMax              input x;               outputs y, positions (either null: not wanted)
///   kMaxGradient      inputs dy, positions;  output dx
///   kMaxSelect        inputs x, positions;   output y: the elements at `positions`
///   kAverage          input x;               output y
///   kAverageGradient  input dy;              output dx
/// `positions` holds the row-major position of an element in its window, as u8, or as i32 if a window has
/// more than 256 elements.
enum class Pooling { kMax, kMaxGradient, kMaxSelect, kAverage, kAverageGradient };
/// The shape of a call of the op for `pooling`. Throws the errors of its shape rule.
PoolingShape pooling_shape(Pooling pooling, const graph::OpCall& call);

}  // namespace isochron::ops
