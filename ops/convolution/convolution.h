// Convolution along one, two or three spatial axes, and its transpose. Images are (N, spatial..., C), kernels
// (spatial..., C / groups, O): (W, ...), (H, W, ...) or (D, H, W, ...).
#pragma once

#include "isochron/core/tensor/tensor.h"
#include "isochron/ops/convolution/padding.h"

namespace isochron {

struct ConvolutionOptions {
  /// One number per spatial axis; empty: all ones.
  Dims stride = {};
  Padding padding = Padding::valid();
  Dims dilation = {};
  /// Input channels are split into `groups` equal parts. Each part is the input of an equal, contiguous part
  /// of the output channels. With as many groups as channels this is a depthwise convolution.
  int64_t groups = 1;
};

/// y[n, p, o] = sum over k, i of x[n, p stride - before + k dilation, i] kernel[k, i, o] (cross-correlation,
/// as in every framework), where p and k run over the spatial axes. x: (N, spatial..., C), kernel:
/// (spatial..., C / groups, O), bias: (O) or undefined; result (N, spatial..., O). f32 and f64.
///
/// Error in f32: a sum of n products has an error of at most about 2e-6 sqrt(n) times its largest term. 3x3
/// kernels at stride 1 may use Winograd's algorithm. The bound is then 2e-6 sqrt(n) times the largest product
/// of any element under the 4x4 output tile and any element of the kernel, and a NaN or infinity spreads over
/// the whole tile.
///
/// Throws kShapeMismatch, kDtypeMismatch, kInvalidArgument, kUnsupported for windows that span more than 2^24
/// elements of an axis.
Tensor convolution(const Tensor& x, const Tensor& kernel, const Tensor& bias,
                   const ConvolutionOptions& options = {});
/// The same for a given number of spatial axes. x: (N, W, C), kernel: (KW, C / groups, O).
Tensor conv1d(const Tensor& x, const Tensor& kernel, const ConvolutionOptions& options = {});
Tensor conv1d(const Tensor& x, const Tensor& kernel, const Tensor& bias,
              const ConvolutionOptions& options = {});
/// x: (N, H, W, C), kernel: (KH, KW, C / groups, O).
Tensor conv2d(const Tensor& x, const Tensor& kernel, const ConvolutionOptions& options = {});
Tensor conv2d(const Tensor& x, const Tensor& kernel, const Tensor& bias,
              const ConvolutionOptions& options = {});
/// x: (N, D, H, W, C), kernel: (KD, KH, KW, C / groups, O).
Tensor conv3d(const Tensor& x, const Tensor& kernel, const ConvolutionOptions& options = {});
Tensor conv3d(const Tensor& x, const Tensor& kernel, const Tensor& bias,
              const ConvolutionOptions& options = {});

struct ConvolutionTransposeOptions {
  /// The stride of the convolution that is transposed: outputs are `stride` elements apart. One number per
  /// spatial axis; empty: all ones.
  Dims stride = {};
  Padding padding = Padding::valid();
  Dims dilation = {};
  int64_t groups = 1;
  /// The number of elements added after the last output along each axis, smaller than the stride; empty means
  /// none. Not allowed with `same` padding.
  Dims output_padding = {};
  /// The result's spatial extents, as an alternative to output_padding; empty means the rule below.
  Dims output_size = {};
};

/// The transpose of `convolution` as a linear map: x has the shape of a convolution's result, and the result
/// has the shape of its input. x: (N, spatial..., C), kernel: (spatial..., O / groups, C) as in Keras (to
/// convert PyTorch's (C, O / groups, spatial...), transpose by (2..., 1, 0)), bias: (O) or undefined; result
/// (N, spatial..., O). An extent e becomes (e - 1) stride + (window - 1) dilation + 1 - before - after +
/// output_padding (PyTorch's rule); with `same` padding it becomes e stride (Keras' rule). Keras' `valid`
/// with a stride larger than the window corresponds to output_padding = stride - window. Throws
/// kShapeMismatch, kDtypeMismatch, kInvalidArgument, kUnsupported for strides and window spans beyond 2^24.
Tensor convolution_transpose(const Tensor& x, const Tensor& kernel, const Tensor& bias,
                             const ConvolutionTransposeOptions& options = {});
/// The same for a given number of spatial axes.
Tensor conv1d_transpose(const Tensor& x, const Tensor& kernel,
                        const ConvolutionTransposeOptions& options = {});
Tensor conv1d_transpose(const Tensor& x, const Tensor& kernel, const Tensor& bias,
                        const ConvolutionTransposeOptions& options = {});
Tensor conv2d_transpose(const Tensor& x, const Tensor& kernel,
                        const ConvolutionTransposeOptions& options = {});
Tensor conv2d_transpose(const Tensor& x, const Tensor& kernel, const Tensor& bias,
                        const ConvolutionTransposeOptions& options = {});
Tensor conv3d_transpose(const Tensor& x, const Tensor& kernel,
                        const ConvolutionTransposeOptions& options = {});
Tensor conv3d_transpose(const Tensor& x, const Tensor& kernel, const Tensor& bias,
                        const ConvolutionTransposeOptions& options = {});

}  // namespace isochron
