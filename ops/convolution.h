// Two-dimensional convolution of NHWC images with HWIO kernels.
#pragma once

#include "isochron/core/tensor.h"
#include "isochron/ops/window.h"

namespace isochron {

struct ConvolutionOptions {
  Dims stride = {1, 1};
  Padding padding = Padding::valid();
  Dims dilation = {1, 1};
  /// Input channels are split into `groups` equal parts, each seen by its share of the output channels.
  int64_t groups = 1;
};

/// y[n, oh, ow, o] = sum over kh, kw, i of x[n, oh sh - top + kh dh, ow sw - left + kw dw, i] kernel[kh, kw,
/// i, o] (a correlation, as in every framework). x: (N, H, W, C), kernel: (KH, KW, C / groups, O), bias: (O);
/// result (N, OH, OW, O). f32 and f64. In f32 sums of n products are off by at most about 2e-6 sqrt(n) of
/// their largest term (Winograd's form, where it is faster, included). Throws kShapeMismatch,
/// kDtypeMismatch, kInvalidArgument.
Tensor conv2d(const Tensor& x, const Tensor& kernel, const ConvolutionOptions& options = {});
Tensor conv2d(const Tensor& x, const Tensor& kernel, const Tensor& bias,
              const ConvolutionOptions& options = {});

namespace ops {

/// A checked convolution: `height` and `width` as seen by conv2d, whichever of its gradients is computed.
struct ConvolutionShape {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t outputs = 0;
  int64_t groups = 1;
  WindowAxis height;
  WindowAxis width;
  double products() const {
    return static_cast<double>(batch) * static_cast<double>(height.output * width.output) *
           static_cast<double>(height.window * width.window) * static_cast<double>(channels / groups) *
           static_cast<double>(outputs);
  }
};

}  // namespace ops
}  // namespace isochron
