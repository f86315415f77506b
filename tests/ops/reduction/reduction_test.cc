// Reductions beyond the registry's samples: integers, and long axes in 16 bits.
#include "isochron/ops/reduction/reduction.h"

#include <gtest/gtest.h>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

TEST(Reductions, OfIntegersAreNeverCut) {
  const Tensor hits = from_vector({4}, {1, 0, 1, 1}, DType::kI64);
  EXPECT_ERROR(mean(hits), ErrorCode::kDtypeMismatch, "cast to f32 first");
  EXPECT_ERROR(variance(hits), ErrorCode::kDtypeMismatch, "cast to f32 first");
  EXPECT_EQ(sum(hits).item<int64_t>(), 3);
  const Tensor bytes = full({300}, 1, DType::kU8);
  EXPECT_ERROR(sum(bytes), ErrorCode::kDtypeMismatch, "cast to i64 first");
  EXPECT_ERROR(prod(bytes), ErrorCode::kDtypeMismatch, "cast to i64 first");
  EXPECT_EQ(max(bytes).item<uint8_t>(), 1);
}

TEST(Reductions, NumbersBesideIntegersAreNeverCut) {
  const Tensor x = arange(3);
  EXPECT_ERROR(x >= 0.5, ErrorCode::kDtypeMismatch,
               "0.5 would be truncated to the integer dtype of the tensor, i64");
  EXPECT_ERROR(0.5 * x, ErrorCode::kDtypeMismatch, "cast the tensor");
  EXPECT_ERROR(clip(x, 0.5, 2), ErrorCode::kDtypeMismatch, "cast the tensor");
  EXPECT_EQ((x * 2.0).to_vector(), (std::vector<double>{0, 2, 4}));
}

TEST(Reductions, TheVarianceOfALongAxisHoldsIn16Bits) {
  const Tensor places = arange(100000, DType::kF64);
  const Tensor x = cast(cast(places >= 50000.0, DType::kF64) * 2.0 - 1.0, DType::kF16);
  EXPECT_NEAR(cast(variance(x, {}, false, 1), DType::kF64).item<double>(), 1, 0.01);
}

TEST(Reductions, TheVarianceIn16BitsIsComputedInF32) {
  EXPECT_EQ(cast(variance(from_vector({2}, {256, 258}, DType::kBF16)), DType::kF64).item<double>(), 1);
  std::vector<double> one(1000);
  one[7] = 300;
  EXPECT_NEAR(cast(variance(from_vector({1000}, one, DType::kF16)), DType::kF64).item<double>(), 89.91, 0.1);
}

}  // namespace
}  // namespace isochron
