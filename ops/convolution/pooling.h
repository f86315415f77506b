// Pooling along one, two or three spatial axes: the largest or the mean element of each window, channel by
// channel. Images are (N, spatial..., C). f32 and f64.
#pragma once

#include "isochron/core/tensor/tensor.h"
#include "isochron/ops/convolution/padding.h"

namespace isochron {

struct PoolingOptions {
  /// One number per spatial axis; empty: the window itself (no overlap).
  Dims stride = {};
  /// Must be smaller than the window on either side, so that each window overlaps the image.
  Padding padding = Padding::valid();
  /// Average pooling only: divide by the window's size, with padding counted as zeros (PyTorch's
  /// count_include_pad). Otherwise padding is ignored: means and maxima are over elements inside the image.
  bool count_padding = false;
};

/// x: (N, spatial..., C), window: one extent per spatial axis; result (N, spatial..., C). The maximum of a
/// window with a NaN is NaN. The gradient goes to the largest element, on a tie to the first of them (as in
/// TensorFlow and PyTorch). Throws kShapeMismatch, kDtypeMismatch, kInvalidArgument, kUnsupported for windows
/// of more than 2^24 elements, along one axis or in total.
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
/// (N, C), or to (N, 1..., C) if `keep_dims`. The gradient of the maximum is divided equally among tied
/// elements.
Tensor global_average_pool(const Tensor& x, bool keep_dims = false);
Tensor global_max_pool(const Tensor& x, bool keep_dims = false);
/// The mean and the largest element of windows that cover the image evenly; result (N, size..., C). On an
/// axis with E elements and S outputs, the window of output i is [floor(i E / S), ceil((i + 1) E / S)), as in
/// PyTorch. Windows overlap unless S divides E; S may exceed E. An entry of -1 in `size` leaves that axis
/// unchanged. The average also takes 16-bit floats: it is `resize` with `Interpolation::kArea`.
/// adaptive_max_pool treats ties and NaN like `max_pool`. Throws kShapeMismatch if x has no spatial axis (for
/// the maximum: not 1 to 3 of them) or `size` doesn't have one entry per spatial axis, kInvalidArgument for
/// an empty axis and for a size below 1 other than -1, kDtypeMismatch, kUnsupported for extents above 2^24.
Tensor adaptive_average_pool(const Tensor& x, const Dims& size);
Tensor adaptive_max_pool(const Tensor& x, const Dims& size);

}  // namespace isochron
