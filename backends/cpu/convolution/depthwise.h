// Depthwise convolution. Vectors run over the channels, which are contiguous.
#pragma once

#include <memory>

#include "isochron/backends/cpu/convolution/convolution.h"

namespace isochron::ops {

inline bool is_depthwise(const ConvolutionShape& shape) {
  return shape.groups > 1 && shape.groups == shape.channels;
}

/// For depthwise shapes, f32 and f64; any window, stride, dilation and number of output channels per channel.
/// The order of every sum is independent of the number of threads.
std::unique_ptr<graph::Kernel> prepare_depthwise_convolution(ConvolutionPass pass,
                                                             const ConvolutionShape& shape, bool bias,
                                                             DType dtype, int threads);

/// The vector functions that the kernel uses, over n channels.
template <typename T>
struct DepthwiseFunctions {
  /// y = bias + sum over k < count of rows[k] weights[k]. A null `bias` means 0.
  void (*weighted_sum)(const T* const* rows, const T* const* weights, int64_t count, const T* bias, T* y,
                       int64_t n);
  /// total += sum over i < count of x[i x_step + c] g[i g_step + c]. A null `x` means 1.
  void (*add_products)(const T* x, int64_t x_step, const T* g, int64_t g_step, int64_t count, T* total,
                       int64_t n);
};
template <typename T>
const DepthwiseFunctions<T>& depthwise_functions();
template <>
const DepthwiseFunctions<float>& depthwise_functions<float>();
template <>
const DepthwiseFunctions<double>& depthwise_functions<double>();

}  // namespace isochron::ops
