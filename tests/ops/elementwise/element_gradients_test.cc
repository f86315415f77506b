// Gradients of element ops whose terms 16 bits represent badly.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "isochron/autograd/autograd.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"

namespace isochron {
namespace {

/// Of the sum of `function`, by one number of this dtype.
double slope_at(double at, DType dtype, const std::function<Tensor(const Tensor&)>& function, int order = 1) {
  const Tensor x = full({1}, at, dtype);
  GradientTape tape(true);
  tape.watch(x);
  Tensor y = function(x);
  for (int i = 0; i < order; ++i) y = tape.gradient(sum(y), x);
  return cast(y, DType::kF64).item<double>();
}

TEST(ElementGradients, KeepTheirDigitsIn16Bits) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const double at : {-5.0, -7.0, -9.0})
      EXPECT_NEAR(slope_at(at, dtype, [](const Tensor& x) { return elu(x); }), std::exp(at),
                  0.02 * std::exp(at))
          << dtype_name(dtype) << " " << at;
    for (const double at : {300.0, -300.0})
      EXPECT_EQ(slope_at(
                    at, dtype, [](const Tensor& x) { return gelu(x); }, 2),
                0)
          << dtype_name(dtype) << at;
  }
  const auto unread = [](const Tensor& x) { return where(x > 0.01, reciprocal(x), zeros_like(x)); };
  EXPECT_EQ(slope_at(0.003, DType::kF16, unread), 0);
  const auto small = [](const Tensor& x) { return reciprocal(x) * 1e-3; };
  EXPECT_NEAR(slope_at(0.003, DType::kF16, small), -111, 1);
}

}  // namespace
}  // namespace isochron
