// The windows of images as rows (im2col), for what convolution and pooling don't compute.
#pragma once

#include "isochron/core/tensor/tensor.h"
#include "isochron/ops/convolution/padding.h"

namespace isochron {

struct UnfoldOptions {
  /// One number per spatial axis; empty: all ones.
  Dims stride = {};
  /// Filled with zeros.
  Padding padding = Padding::valid();
  Dims dilation = {};
};

/// The elements under each window: x (N, spatial..., C) to (N, spatial..., K), where K = window[0] ... C; the
/// channels of a window's element lie side by side, the elements in row-major order. Hence
/// matmul(unfold(x, window), reshape(kernel, {-1, O})) is the convolution with `kernel`, (window..., C, O).
/// Any dtype. The gradient of an element is the sum over the windows that hold it. An axis takes as many
/// slices as its window has elements. Throws kShapeMismatch, kInvalidArgument, kUnsupported as `convolution`.
Tensor unfold(const Tensor& x, const Dims& window, const UnfoldOptions& options = {});

}  // namespace isochron
