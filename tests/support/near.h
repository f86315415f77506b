// Tensors of a few numbers, and their comparison within a relative tolerance.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "isochron/core/tensor/tensor.h"
#include "isochron/ops/shape/creation.h"

namespace isochron {

/// (N)
inline Tensor vec(const std::vector<double>& values, DType dtype = DType::kF32) {
  return from_vector({static_cast<int64_t>(values.size())}, values, dtype);
}
inline Tensor vec64(const std::vector<double>& values) { return vec(values, DType::kF64); }

/// |actual - expected| <= rtol |expected| + atol for every element; shapes must agree.
inline testing::AssertionResult near(const Tensor& actual, const Tensor& expected, double rtol,
                                     double atol = 0) {
  if (!(actual.shape() == expected.shape())) {
    return testing::AssertionFailure() << actual.spec().str() << " against " << expected.spec().str();
  }
  const std::vector<double> a = actual.to_vector();
  const std::vector<double> e = expected.to_vector();
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::abs(a[i] - e[i]) <= rtol * std::abs(e[i]) + atol)) {
      return testing::AssertionFailure() << "element " << i << " is " << fmt::format("{:.17g}", a[i])
                                         << ", expected " << fmt::format("{:.17g}", e[i]);
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace isochron
