// Runs a function of tensors on the CPU or on a simulated device and returns its results.
#pragma once

#include <cmath>
#include <vector>

#include "isochron/core/base/rng.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/shape/creation.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {

/// The results of `function` in `precision`: on the CPU or, if `multiprocessors` > 0, on a simulated device
/// with that many multiprocessors, with or without libraries.
template <typename F>
std::vector<std::vector<double>> results_of(F function, const std::vector<Tensor>& arguments,
                                            int multiprocessors = 0, bool libraries = true,
                                            Precision precision = Precision::kF32) {
  cuda::SimulatedDevice device;
  device.properties.multiprocessors = multiprocessors;
  const SimulatedGpu simulated(device, true, libraries);
  CaptureOptions options;
  options.passes.precision = precision;
  if (multiprocessors > 0) options.plan.device = SimulatedGpu::kDevice;
  CapturedFunction captured(function, options);
  std::vector<const Tensor*> pointers;
  for (const Tensor& argument : arguments) pointers.push_back(&argument);
  std::vector<std::vector<double>> results;
  for (const Tensor& result : captured.call(pointers)) results.push_back(result.to_vector());
  return results;
}

/// Numbers in [-1, 1].
inline Tensor waves(const Shape& shape, double frequency, DType dtype = DType::kF32) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.elems(); ++i) values.push_back(std::sin(frequency * static_cast<double>(i)));
  return from_vector(shape, values, dtype);
}

/// Numbers in [-1, 1).
inline Tensor uniform_numbers(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = 2 * rng.uniform() - 1;
  return from_vector(shape, values);
}

/// Whole numbers in [-2, 2], which all dtypes hold.
inline Tensor whole_numbers(const Shape& shape, double frequency) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.elems(); ++i)
    values.push_back(std::round(2 * std::sin(frequency * static_cast<double>(i))));
  return from_vector(shape, values);
}

}  // namespace isochron
