// Pooling along one, two or three spatial axes: the largest or the mean element of each window, channel by
// channel. Images are (N, spatial..., C). f32 and f64.
#pragma once

#include "isochron/core/tensor/tensor.h"
#include "isochron/ops/convolution/window.h"

namespace isochron {

namespace graph {
struct OpCall;
}

struct PoolingOptions {
  /// One number a spatial axis; empty: the window itself (no overlap).
  Dims stride = {};
  /// Smaller than the window on either side, so that each window meets the image.
  Padding padding = Padding::valid();
  /// Means only: divide by all elements of the window, padding counted as zeros (PyTorch's
  /// count_include_padding). Otherwise padding counts for nothing: a maximum is of elements inside the image,
  /// and so is a mean.
  bool count_padding = false;
};

/// x: (N, spatial..., C), window: an extent for each spatial axis; result (N, spatial..., C). A NaN in the
/// window wins. The gradient goes to the largest element, to the first of them on a tie (as in TensorFlow and
/// PyTorch). Throws kShapeMismatch, kDtypeMismatch, kInvalidArgument, kUnsupported for windows of more than
/// 2^24 elements, along one axis or in all.
Tensor max_pool(const Tensor& x, const Dims& window, const PoolingOptions& options = {});
Tensor average_pool(const Tensor& x, const Dims& window, const PoolingOptions& options = {});
/// The same for a given number of spatial axes: (N, W, C), (N, H, W, C), (N, D, H, W, C).
Tensor max_pool1d(const Tensor& x, const Dims& window, const PoolingOptions& options = {});
Tensor max_pool2d(const Tensor& x, const Dims& window, const PoolingOptions& options = {});
Tensor max_pool3d(const Tensor& x, const Dims& window, const PoolingOptions& options = {});
Tensor average_pool1d(const Tensor& x, const Dims& window, const PoolingOptions& options = {});
Tensor average_pool2d(const Tensor& x, const Dims& window, const PoolingOptions& options = {});
Tensor average_pool3d(const Tensor& x, const Dims& window, const PoolingOptions& options = {});
/// The mean and the largest element over all pixels: (N, spatial..., C) with any number of spatial axes to
/// (N, C), or to (N, 1..., C) where `keep_dims`. The gradient of the maximum goes equally to all that tie.
Tensor global_average_pool(const Tensor& x, bool keep_dims = false);
Tensor global_max_pool(const Tensor& x, bool keep_dims = false);

namespace ops {

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
/// What a call of a pooling's row comes to. Throws as its shape rule.
PoolingShape pooling_shape(Pooling pooling, const graph::OpCall& call);

}  // namespace ops
}  // namespace isochron
