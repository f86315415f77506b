// Convolution kernels: Winograd's method and oneDNN's in f32 and on 16-bit tensors, plain loops for f64 and
// for small calls.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"
#include "isochron/ops/convolution/convolution_shape.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_convolution(ConvolutionPass pass, const ConvolutionShape& shape,
                                                   const graph::KernelRequest& request);
/// The same for images and kernels stored in one 16-bit dtype, with a result in that dtype or f32; biases are
/// f32. Null if the call can only be computed in f32.
std::unique_ptr<graph::Kernel> prepare_half_convolution(ConvolutionPass pass, const ConvolutionShape& shape,
                                                        const graph::KernelRequest& request);

}  // namespace isochron::ops
