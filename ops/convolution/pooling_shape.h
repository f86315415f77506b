// What kernels of pooling are told of a call.
#pragma once

#include "isochron/ops/convolution/window.h"

namespace isochron::graph {
struct OpCall;
}

namespace isochron::ops {

/// A checked pooling; its window as seen by the forward op.
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
/// `positions` (u8, i32 where a window has more than 256 elements) counts the elements of a window,
/// row-major.
enum class Pooling { kMax, kMaxGradient, kMaxSelect, kAverage, kAverageGradient };
/// The shape of a call of the op for `pooling`. Throws the errors of its shape rule.
PoolingShape pooling_shape(Pooling pooling, const graph::OpCall& call);

}  // namespace isochron::ops
