// Cumulative ops and elements along an axis: what the registry's samples can't say.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "isochron/autograd/autograd.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/along_axis.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/reduction/cumulative.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

using Values = std::vector<double>;

Tensor row(const Values& values, DType dtype = DType::kF64) {
  return from_vector({static_cast<int64_t>(values.size())}, values, dtype);
}

Tensor scalar_update() { return from_vector({1, 1}, {1}); }

Tensor gradient_of(const Tensor& x, const std::function<Tensor(const Tensor&)>& function,
                   const Tensor& seed) {
  GradientTape tape;
  const Tensor y = function(x);
  return tape.gradient({&y, 1}, {&x, 1}, {&seed, 1})[0];
}

TEST(CumulativeSum, LeavesOutAndReversesAsTensorFlow) {
  const Tensor x = row({1, 2, 4});
  EXPECT_EQ(cumulative_sum(x, 0).to_vector(), (Values{1, 3, 7}));
  EXPECT_EQ(cumulative_sum(x, -1, {.exclusive = true}).to_vector(), (Values{0, 1, 3}));
  EXPECT_EQ(cumulative_sum(x, 0, {.reverse = true}).to_vector(), (Values{7, 6, 4}));
  EXPECT_EQ(cumulative_sum(x, 0, {true, true}).to_vector(), (Values{6, 4, 0}));
  EXPECT_EQ(cumulative_product(x, 0, {true, true}).to_vector(), (Values{8, 4, 1}));
  EXPECT_ERROR(cumulative_sum(x, 1), ErrorCode::kOutOfRange, "[cumulative_sum]");
}

TEST(CumulativeSum, WrapsIntegersAndAccumulatesFloatsInF64) {
  EXPECT_EQ(cumulative_sum(row({200, 100, 1}, DType::kU8), 0).to_vector(), (Values{200, 44, 45}));
  const Tensor ones_in_bf16 = full({600}, 1, DType::kBF16);  // in bf16, 256 + 1 is 256
  EXPECT_EQ(cumulative_sum(ones_in_bf16, 0).to_vector().back(), 600);
}

TEST(CumulativeProduct, GradientIsExactAtZeros) {
  // y = (2, 0, 0, 0): dx_1 = x_0 (g_1 + x_2 g_2 + x_2 x_3 g_3), dx_3 = x_0 x_1 x_2 g_3 = 0.
  const Tensor gradient = gradient_of(
      row({2, 0, 3, 5}), [](const Tensor& x) { return cumulative_product(x, 0); }, row({1, 1, 1, 1}));
  EXPECT_EQ(gradient.to_vector(), (Values{1, 2 * (1 + 3 + 15), 0, 0}));
}

TEST(LogCumulativeSumExp, NeitherOverflowsNorStumblesOverNothing) {
  const Tensor x = row({-INFINITY, 1000, 1000, -1000});
  const Tensor y = log_cumulative_sum_exp(x, 0);
  EXPECT_EQ(y.to_vector()[0], -INFINITY);
  EXPECT_NEAR(y.to_vector()[3], 1000 + std::log(2.0), 1e-12);
  const Values exclusive = log_cumulative_sum_exp(x, 0, {.exclusive = true}).to_vector();
  EXPECT_EQ(exclusive[0], -INFINITY);
  EXPECT_EQ(exclusive[2], 1000);
  const Tensor gradient = gradient_of(
      x, [](const Tensor& t) { return log_cumulative_sum_exp(t, 0); }, row({0, 1, 1, 1}));
  EXPECT_TRUE(near(gradient, row({0, 2, 1, 0}), 1e-12, 1e-12)) << gradient.str();
}

TEST(LogCumulativeSumExp, HasNoGradientWhereNothingIsAdded) {
  for (const Values& values : {Values{-INFINITY, -INFINITY, 0, 1}, Values{-INFINITY, -INFINITY}}) {
    const Tensor x = row(values), last = row(Values(values.size(), 1));
    const Values gradient = gradient_of(
                                x, [](const Tensor& t) { return log_cumulative_sum_exp(t, 0); }, last)
                                .to_vector();
    EXPECT_EQ(gradient[0], 0);
    EXPECT_EQ(gradient[1], 0);
    GradientTape tape(true);
    tape.watch(x);
    const Tensor first = tape.gradient(sum(log_cumulative_sum_exp(x, 0)), x);
    for (const double second : tape.gradient(sum(first), x).to_vector()) EXPECT_FALSE(std::isnan(second));
  }
}

TEST(CumulativeMax, TakesTheLastOfEqualsAndKeepsNan) {
  const auto [values, positions] = cumulative_max(row({1, 1, 0, 2}), 0);
  EXPECT_EQ(values.to_vector(), (Values{1, 1, 1, 2}));
  EXPECT_EQ(positions.to_vector(), (Values{0, 1, 1, 3}));
  EXPECT_EQ(cumulative_max(row({1, NAN, 3, NAN, 5}), 0).second.to_vector(), (Values{0, 1, 1, 3, 3}));
  EXPECT_EQ(cumulative_min(row({3, 1, 2}), 0, true).first.to_vector(), (Values{1, 1, 2}));
}

TEST(LinearRecurrence, IsADiscountedSum) {
  const Tensor returns = linear_recurrence(full({3}, 0.5, DType::kF64), row({1, 2, 4}), 0, true);
  EXPECT_EQ(returns.to_vector(), (Values{3, 4, 4}));
  EXPECT_ERROR(linear_recurrence(row({1}), row({1, 2}), 0), ErrorCode::kShapeMismatch, "[linear_recurrence]");
}

TEST(TakeAlongAxis, BroadcastsAllOtherAxes) {
  const Tensor x = from_vector({2, 3}, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(take_along_axis(x, from_vector({1, 2}, {2, 0}, DType::kI64), 1).to_vector(),
            (Values{2, 0, 5, 3}));
  EXPECT_EQ(take_along_axis(from_vector({1, 3}, {7, 8, 9}), from_vector({2, 1}, {2, 0}, DType::kI32), -1)
                .to_vector(),
            (Values{9, 7}));
  EXPECT_ERROR(take_along_axis(x, from_vector({3, 1}, {0, 0, 0}, DType::kI64), 1), ErrorCode::kShapeMismatch,
               "[take_along_axis]");
  EXPECT_ERROR(take_along_axis(x, row({0}, DType::kI64), 1), ErrorCode::kShapeMismatch, "indices of 2 axes");
  EXPECT_ERROR(take_along_axis(x, from_vector({2, 1}, {0, 3}, DType::kI64), 1), ErrorCode::kOutOfRange,
               "index 3 at position 1 lies outside [0, 3)");
}

TEST(PutAddAlongAxis, AddsToTheBaseInOrder) {
  const Tensor base = from_vector({2, 3}, {10, 20, 30, 40, 50, 60});
  const Tensor indices = from_vector({2, 2}, {2, 2, 0, 1}, DType::kI64);
  const Tensor updates = from_vector({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(put_add_along_axis(base, indices, updates, 1).to_vector(), (Values{10, 20, 33, 43, 54, 60}));
  EXPECT_EQ(put_add_along_axis(base, indices, scalar_update(), 1).to_vector(),
            (Values{10, 20, 32, 41, 51, 60}));
  EXPECT_ERROR(put_add_along_axis(base, indices, cast(updates, DType::kF64), 1), ErrorCode::kDtypeMismatch,
               "cast one");
  EXPECT_ERROR(put_add_along_axis(base, from_vector({3, 1}, {0, 0, 0}, DType::kI64), scalar_update(), 1),
               ErrorCode::kShapeMismatch, "[put_add_along_axis]");
}

TEST(ScatterAdd, AddsToABase) {
  const Tensor base = from_vector({3, 2}, {1, 1, 1, 1, 1, 1}, DType::kF64);
  const Tensor indices = from_vector({2}, {2, 2}, DType::kI64);
  const Tensor updates = from_vector({2, 2}, {1, 2, 3, 4}, DType::kF64);
  EXPECT_EQ(scatter_add(base, indices, updates).to_vector(), (Values{1, 1, 1, 1, 5, 7}));
  EXPECT_ERROR(scatter_add(base, indices, from_vector({2, 1}, {1, 2}, DType::kF64)),
               ErrorCode::kShapeMismatch, "the base is f64(3, 2)");
  EXPECT_ERROR(scatter_add(cast(base, DType::kF32), indices, updates), ErrorCode::kDtypeMismatch,
               "the base is f32");
}

}  // namespace
}  // namespace isochron
