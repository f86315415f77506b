// Convolutions of 3x3 windows at stride 1 by Winograd's minimal filtering F(4x4, 3x3): 36 multiplications for
// 16 results instead of 144 (Lavin and Gray: "Fast Algorithms for Convolutional Neural Networks", CVPR 2016).
// Everything stays in our layouts (NHWC images, HWIO kernels).
#pragma once

#include <memory>

#include "isochron/backends/cpu/convolution/convolution.h"

namespace isochron::ops {

/// How images, kernel and result are stored, f32 or a 16-bit float; sums run in f32, the bias is f32.
struct WinogradDtypes {
  DType operands = DType::kF32;
  DType result = DType::kF32;
};

/// Null if the method doesn't support the call: other windows, strides, dilations or groups, a 16-bit weight
/// gradient, or so few channels that the transforms don't pay.
std::unique_ptr<graph::Kernel> make_winograd(ConvolutionPass pass, const ConvolutionShape& shape, bool bias,
                                             int threads, const WinogradDtypes& dtypes = {});

}  // namespace isochron::ops
