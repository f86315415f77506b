// Convolution in plain loops: for f64, for small calls, and for calls that the library doesn't compute well.
#pragma once

#include <memory>

#include "isochron/backends/cpu/convolution/convolution.h"

namespace isochron::ops {

/// Any stride, dilation and groups; f32 and f64. The order of every sum is independent of the number of
/// threads.
std::unique_ptr<graph::Kernel> prepare_plain_convolution(ConvolutionPass pass, const ConvolutionShape& shape,
                                                         bool bias, DType dtype, int threads);

}  // namespace isochron::ops
