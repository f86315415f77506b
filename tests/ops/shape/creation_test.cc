// Numbers that become tensors: a number that doesn't fit an integer dtype is refused wherever it comes from.
#include "isochron/ops/shape/creation.h"

#include <gmock/gmock.h>

#include <cmath>

#include "isochron/ops/shape/slicing.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using Values = std::vector<double>;

TEST(FromVector, KeepsTheTypeOfItsElements) {
  const Tensor floats = from_vector({3}, std::vector<float>{1.5F, 2, -3});
  EXPECT_EQ(floats.dtype(), DType::kF32);
  EXPECT_THAT(floats.to_vector(), testing::ElementsAre(1.5, 2, -3));
  const int64_t large = (int64_t{1} << 60) + 1;
  const Tensor integers = from_vector({2, 1}, std::vector<int64_t>{large, 7});
  EXPECT_EQ(integers.dtype(), DType::kI64);
  EXPECT_EQ(integers.span<int64_t>()[0], large);
  EXPECT_EQ(from_vector({1}, std::vector<double>{2}).dtype(), DType::kF32);
  EXPECT_ERROR(from_vector({2}, std::vector<int32_t>{1, 2, 3}), ErrorCode::kShapeMismatch,
               "2 elements, got 3");
}

TEST(Creation, RefusesWhatAnIntegerCannotHold) {
  for (const double number : {300.0, -1.0, std::nan("")}) {
    EXPECT_ERROR(scalar(number, DType::kU8), ErrorCode::kOutOfRange, "out of the range of u8");
    EXPECT_ERROR(full({2}, number, DType::kU8), ErrorCode::kOutOfRange, "out of the range of u8");
    EXPECT_ERROR(from_vector({2}, {1, number}, DType::kU8), ErrorCode::kOutOfRange, "out of the range of u8");
  }
  EXPECT_EQ(from_vector({3}, {255, 0, 1.75}, DType::kU8).to_vector(), (Values{255, 0, 1}))
      << "fractions are cut";
  EXPECT_ERROR(from_vector({1}, {0x1p63}, DType::kI64), ErrorCode::kOutOfRange, "out of the range of i64");
  EXPECT_EQ(arange(256, DType::kU8).to_vector().back(), 255);
  EXPECT_ERROR(arange(257, DType::kU8), ErrorCode::kOutOfRange, "out of the range of u8");
}

TEST(Pad, RefusesABorderThatTheTensorCannotHold) {
  const Tensor bytes = from_vector({2}, {1, 2}, DType::kU8), whole = from_vector({2}, {1, 2}, DType::kI32);
  EXPECT_ERROR(pad(bytes, {1}, {0}, -1), ErrorCode::kOutOfRange, "out of the range of u8");
  EXPECT_ERROR(pad(whole, {1}, {0}, 2.5), ErrorCode::kDtypeMismatch, "truncated to the integer dtype");
  EXPECT_EQ(pad(bytes, {1}, {0}, 255).to_vector(), (Values{255, 1, 2}));
}

TEST(Creation, RefusesFiniteNumbersThatWouldBeInfinite) {
  EXPECT_ERROR(scalar(70000, DType::kF16), ErrorCode::kOutOfRange, "of f16, 65504");
  EXPECT_ERROR(full({2}, -70000, DType::kF16), ErrorCode::kOutOfRange, "of f16, 65504");
  EXPECT_ERROR(from_vector({2}, {1, 1e39}, DType::kBF16), ErrorCode::kOutOfRange, "of bf16");
  EXPECT_ERROR(scalar(1e39), ErrorCode::kOutOfRange, "cast the tensor to f64");
  EXPECT_ERROR(arange(70000, DType::kF16), ErrorCode::kOutOfRange, "of f16");
  EXPECT_ERROR(pad(ones({1}, DType::kF16), {1}, {0}, 1e9), ErrorCode::kOutOfRange, "of f16");
  EXPECT_EQ(full({}, INFINITY, DType::kF16).to_vector()[0], INFINITY);
  EXPECT_TRUE(std::isnan(scalar(NAN, DType::kBF16).to_vector()[0]));
  EXPECT_EQ(full({}, 1e-9, DType::kF16).to_vector()[0], 0) << "rounded";
}

}  // namespace
}  // namespace isochron
