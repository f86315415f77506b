// Pooling of NHWC images: the largest or the mean element of each window, channel by channel. f32 and f64.
#pragma once

#include "isochron/core/tensor.h"
#include "isochron/ops/window.h"

namespace isochron {

struct PoolingOptions {
  /// Empty: the window itself (no overlap).
  Dims stride = {};
  /// Padding counts for nothing: a maximum is of elements inside the image, and so is a mean.
  Padding padding = Padding::valid();
};

/// x: (N, H, W, C), window: {height, width}; result (N, OH, OW, C). A NaN in the window wins. The gradient
/// goes to the largest element, to the first of them on a tie (as in TensorFlow and PyTorch). Throws
/// kShapeMismatch, kDtypeMismatch, kInvalidArgument.
Tensor max_pool2d(const Tensor& x, const Dims& window, const PoolingOptions& options = {});
Tensor average_pool2d(const Tensor& x, const Dims& window, const PoolingOptions& options = {});
/// The mean over all pixels: (N, H, W, C) to (N, C).
Tensor global_average_pool2d(const Tensor& x);

namespace ops {

/// A checked pooling; `height` and `width` as seen by the forward op.
struct PoolingShape {
  int64_t batch = 0;
  int64_t channels = 0;
  WindowAxis height;
  WindowAxis width;
  int64_t input_pixels() const { return height.input * width.input; }
  int64_t output_pixels() const { return height.output * width.output; }
};

}  // namespace ops
}  // namespace isochron
