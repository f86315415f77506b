// Sorting: what the registry's samples can't say.
#include "isochron/ops/reduction/sorting.h"

#include <gtest/gtest.h>

#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/ops/indexing/along_axis.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

using Values = std::vector<double>;

TEST(Sort, KeepsTheOrderOfEqualsInBothDirections) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kI64, DType::kI32, DType::kU8}) {
    const Tensor x = vec({2, 1, 2, 0, 1}, dtype);
    EXPECT_EQ(sort(x).first.to_vector(), (Values{0, 1, 1, 2, 2}));
    EXPECT_EQ(argsort(x).to_vector(), (Values{3, 1, 4, 0, 2}));
    EXPECT_EQ(argsort(x, 0, true).to_vector(), (Values{0, 2, 1, 4, 3}));
  }
  EXPECT_EQ(argsort(vec({1, 0, 1}, DType::kBool)).to_vector(), (Values{1, 0, 2}));
}

TEST(Sort, NanIsLargestAndZerosAreEqual) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16}) {
    const Tensor x = vec({NAN, -1, INFINITY, 0, -0.0, -NAN, -INFINITY}, dtype);
    EXPECT_EQ(argsort(x).to_vector(), (Values{6, 1, 3, 4, 2, 0, 5}));
    EXPECT_EQ(argsort(x, 0, true).to_vector(), (Values{0, 5, 2, 3, 4, 1, 6}));
    EXPECT_EQ(top_k(x, 2, 0, false).second.to_vector(), (Values{6, 1}));
    const Values sorted = sort(x).first.to_vector();
    EXPECT_FALSE(std::signbit(sorted[2]));
    EXPECT_TRUE(std::signbit(sorted[3]));
  }
}

TEST(Sort, TakesExtremeIntegers) {
  const Tensor x = from_span<int64_t>({4}, std::vector<int64_t>{0, INT64_MIN, INT64_MAX, -1});
  EXPECT_EQ(argsort(x).to_vector(), (Values{1, 3, 0, 2}));
}

TEST(Sort, LongLinesAreStableToo) {
  const int64_t count = 5000;
  Values values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7919 % 61) - 30;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kI32}) {
    for (const bool descending : {false, true}) {
      const auto [sorted, positions] = sort(vec(values, dtype), 0, descending);
      const Values s = sorted.to_vector();
      const Values p = positions.to_vector();
      for (size_t i = 1; i < values.size(); ++i) {
        ASSERT_TRUE(descending ? s[i - 1] >= s[i] : s[i - 1] <= s[i]) << i;
        ASSERT_TRUE(s[i - 1] != s[i] || p[i - 1] < p[i]) << i;
        ASSERT_EQ(values[static_cast<size_t>(p[i])], s[i]);
      }
    }
  }
}

TEST(TopK, GradientGoesBackToWhereTheValuesCameFrom) {
  const Tensor x = from_vector({2, 3}, {1, 5, 3, 9, 7, 8});
  GradientTape tape;
  const Tensor values = top_k(x, 2).first;
  const Tensor seed = from_vector({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(values.to_vector(), (Values{5, 3, 9, 8}));
  EXPECT_EQ(tape.gradient({&values, 1}, {&x, 1}, {&seed, 1})[0].to_vector(), (Values{0, 1, 2, 3, 0, 4}));
}

TEST(TopK, RefusesMoreThanThereIs) {
  EXPECT_ERROR(top_k(vec({1, 2}), 3), ErrorCode::kOutOfRange,
               "[top_k] k is 3, axis 0 of f32(2) has 2 elements");
  EXPECT_ERROR(sort(vec({1, 2}), 1), ErrorCode::kOutOfRange, "[sort]");
  EXPECT_EQ(top_k(vec({1, 2}), 0).first.shape(), Shape({0}));
}

TEST(Searchsorted, PutsNanBehindAllNumbers) {
  const Tensor sorted = vec({-1, 0, 0, 2, NAN});
  const Tensor values = from_vector({2, 3}, {0, -INFINITY, INFINITY, NAN, 1, 3});
  EXPECT_EQ(searchsorted(sorted, values).to_vector(), (Values{1, 0, 4, 4, 3, 4}));
  EXPECT_EQ(searchsorted(sorted, values, true).to_vector(), (Values{3, 0, 4, 5, 3, 4}));
  EXPECT_EQ(searchsorted(sorted, scalar(2)).shape(), Shape({}));
  EXPECT_EQ(searchsorted(sorted, values).dtype(), DType::kI64);
  EXPECT_ERROR(searchsorted(zeros({2, 3}), zeros({3, 3})), ErrorCode::kShapeMismatch,
               "expected sorted lines and as many lines of values, (..., S) and (..., V), got f32(2, 3) and "
               "f32(3, 3)");
  EXPECT_ERROR(searchsorted(sorted, arange(3)), ErrorCode::kDtypeMismatch, "[searchsorted]");
}

}  // namespace
}  // namespace isochron
