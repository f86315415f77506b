// Copies the windows of images into rows (im2col), for computations that convolution and pooling don't offer.
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

/// Returns the elements under each window: x (N, spatial..., C) to (N, spatial..., K), where K is the product
/// of the window's extents and C. The positions of a window are in row-major order, the channels of a
/// position side by side. Hence matmul(unfold(x, window), reshape(kernel, {-1, O})) is the convolution with
/// `kernel`, (window..., C, O). Any dtype. The gradient of an element is the sum over the windows that
/// contain it. Each axis is computed by as many slices as its window has elements. Throws kShapeMismatch,
/// kInvalidArgument, kUnsupported as `convolution`.
Tensor unfold(const Tensor& x, const Dims& window, const UnfoldOptions& options = {});

}  // namespace isochron
