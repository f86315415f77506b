// The description of a call that convolution kernels are built from.
#pragma once

#include "isochron/ops/convolution/window.h"

namespace isochron::graph {
struct OpCall;
}

namespace isochron::ops {

/// The checked shape of a convolution. The window is always that of the forward op, also for calls that
/// compute a gradient.
struct ConvolutionShape : SlidingWindow {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t outputs = 0;
  int64_t groups = 1;
  int64_t group_channels() const { return channels / groups; }
  int64_t group_outputs() const { return outputs / groups; }
  double products() const {
    return static_cast<double>(batch) * static_cast<double>(output_pixels()) *
           static_cast<double>(window_elems()) * static_cast<double>(group_channels()) *
           static_cast<double>(outputs);
  }
};

/// Which of the three is computed from the other two:
///   kForward         inputs x, kernel [, bias]; output y
///   kInputGradient   inputs dy, kernel;         output dx
///   kWeightGradient  inputs x, dy;              outputs dkernel [, dbias]
enum class ConvolutionPass { kForward, kInputGradient, kWeightGradient };
/// The shape of a call of the op for `pass`. Throws the errors of its shape rule.
ConvolutionShape convolution_shape(ConvolutionPass pass, const graph::OpCall& call);

}  // namespace isochron::ops
