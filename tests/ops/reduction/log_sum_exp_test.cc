// What the checks of all rows (tests/ops/rows/op_checks.h) don't see: axes, infinities, dtypes.
#include "isochron/ops/reduction/log_sum_exp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "isochron/autograd/autograd.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using testing::ElementsAre;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Reductions, GradientsIn16BitsCountManyElements) {
  const auto gradient_of = [](const Tensor& x, auto reduced) {
    GradientTape tape(true);
    tape.watch(x);
    return tape.gradient(reduced(x) * 32768.0, x).to_vector();
  };
  const std::vector<double> of_mean =
      gradient_of(zeros({1000, 1000}, DType::kF16), [](const Tensor& x) { return mean(x); });
  EXPECT_NEAR(of_mean[0], 32768 / 1e6, 32768 / 1e6 * 1e-3);
  const std::vector<double> of_ties =
      gradient_of(zeros({70'000}, DType::kF16), [](const Tensor& x) { return max(x); });
  EXPECT_NEAR(of_ties[7], 32768 / 7e4, 32768 / 7e4 * 1e-3);
}

TEST(LogSumExp, SumsOverAnyAxes) {
  const Tensor x = random_normal({2, 3, 4, 5}, 0, 2, DType::kF64);
  for (const Axes& axes : {Axes{}, Axes{-1}, Axes{0}, Axes{1, 3}, Axes{2, 0}, Axes{0, 1, 2, 3}}) {
    for (const bool keep_dims : {false, true}) {
      const Tensor got = log_sum_exp(x, axes, keep_dims), want = log(sum(exp(x), axes, keep_dims));
      ASSERT_EQ(got.shape(), want.shape());
      const std::vector<double> a = got.to_vector(), b = want.to_vector();
      for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-13);
    }
  }
}

TEST(LogSumExp, NeitherOverflowsNorVanishes) {
  // As torch.logsumexp gives them.
  const Tensor x =
      from_vector({4, 3}, {1000, 1000, 999, -1000, -1001, -1000, 0, 0, 0, 88, -88, 3}, DType::kF64);
  const std::vector<double> y = log_sum_exp(x, {1}).to_vector();
  const std::vector<double> want = {1000.861994804058, -999.1380051959419, 1.0986122886681098, 88};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(y[i], want[i], 1e-12);
}

TEST(LogSumExp, TakesInfinitiesForWhatTheyAre) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const Tensor x = from_vector(
        {5, 2}, {-kInfinity, -kInfinity, -kInfinity, 2, kInfinity, 1, kInfinity, -kInfinity, nan, 1}, dtype);
    GradientTape tape;
    tape.watch(x);
    const Tensor y = log_sum_exp(x, {-1});
    const std::vector<double> values = y.to_vector();
    EXPECT_THAT(std::vector(values.begin(), values.begin() + 4),
                ElementsAre(-kInfinity, 2, kInfinity, kInfinity));
    EXPECT_TRUE(std::isnan(values[4]));
    const std::vector<double> dx = tape.gradient(sum(y), x).to_vector();
    EXPECT_THAT(std::vector(dx.begin(), dx.begin() + 4), ElementsAre(0, 0, 0, 1));
  }
}

TEST(LogSumExp, OfNothingHasGradientsOfZeroOfAnyOrder) {
  const Tensor x = from_vector({2, 2}, {-kInfinity, -kInfinity, -kInfinity, 2}, DType::kF64);
  GradientTape tape(true);
  tape.watch(x);
  const Tensor first = tape.gradient(sum(log_sum_exp(x, {-1})), x);
  EXPECT_THAT(first.to_vector(), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(tape.gradient(sum(first), x).to_vector(), ElementsAre(0, 0, 0, 0));
}

TEST(LogSumExp, ComputesSixteenBitFloatsInF32) {
  const Tensor x = from_vector({2, 3}, {1, 2, 3, -1, 0, 4}, DType::kBF16);
  EXPECT_EQ(log_sum_exp(x, {1}).dtype(), DType::kBF16);
  EXPECT_EQ(log_sum_exp(x, {1}).to_vector(),
            cast(log_sum_exp(cast(x, DType::kF32), {1}), DType::kBF16).to_vector());
}

TEST(LogSumExp, RefusesAxesThatArentThereOrHoldNothing) {
  EXPECT_ERROR(log_sum_exp(zeros({2, 3}), {2}), ErrorCode::kOutOfRange, "log_sum_exp");
  EXPECT_ERROR(log_sum_exp(zeros({2, 0}), {1}), ErrorCode::kShapeMismatch, "without elements");
  EXPECT_ERROR(log_sum_exp(zeros({2}, DType::kI64)), ErrorCode::kDtypeMismatch, "cast it");
}

}  // namespace
}  // namespace isochron
