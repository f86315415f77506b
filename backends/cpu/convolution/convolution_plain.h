// Convolution in plain loops: for f64, for small calls, and for whatever the library has nothing good for.
#pragma once

#include <memory>

#include "isochron/backends/cpu/convolution/convolution.h"

namespace isochron::ops {

/// Any stride, dilation and groups; f32 and f64. Every sum has one order, whatever the threads.
std::unique_ptr<graph::Kernel> prepare_plain_convolution(ConvolutionPass pass, const ConvolutionShape& shape,
                                                         bool bias, DType dtype, int threads);

}  // namespace isochron::ops
