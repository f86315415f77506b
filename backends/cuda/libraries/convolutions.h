// Convolutions and their gradients, computed by a library.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "isochron/core/cuda/library_algorithm.h"
#include "isochron/core/tensor/dtype.h"

namespace isochron::cuda {

/// A convolution of images x (batch, input..., channels) with a kernel (outputs, window..., channels /
/// groups) to y (batch, output..., outputs), each in row-major order, or one of its gradients with respect to
/// images or kernel. A call's tensors are x, kernel and y; in a gradient's call, some of them stand for their
/// gradients.
struct ConvolutionSpec {
  enum class Pass : uint8_t { kForward, kInputGradient, kWeightGradient } pass = Pass::kForward;
  struct Axis {
    int64_t input = 1, window = 1, stride = 1, dilation = 1, before = 0, after = 0, output = 1;
    bool operator==(const Axis&) const = default;
  };
  /// The spatial axes; only the first `axes` (2 or 3) are used.
  std::array<Axis, 3> axis = {};
  int axes = 2;
  int64_t batch = 0, channels = 0, outputs = 0, groups = 1;
  /// The dtype of all three tensors: kF32, kF16 or kBF16. Sums are in f32.
  DType dtype = DType::kF32;
  /// As in ProductSpec.
  bool tf32 = false;

  bool operator==(const ConvolutionSpec&) const = default;
};

using ConvolutionLibrary = KernelLibrary<ConvolutionSpec>;

/// This machine's cuDNN, shared by the whole process. Null if it isn't found, which is reported once as an
/// event kNotice.
ConvolutionLibrary* machine_convolutions();
/// A library that finds algorithms for a device that needn't be present. `described_device` is cuDNN's
/// description in JSON (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION). The algorithms can't be enqueued. Null as
/// above.
std::unique_ptr<ConvolutionLibrary> convolutions_for(const std::string& described_device);

}  // namespace isochron::cuda
