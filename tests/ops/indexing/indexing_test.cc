// What the registry's samples can't say of slicing and indexing: the user's functions and errors that depend
// on values.
#include <gtest/gtest.h>

#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using Values = std::vector<double>;

Tensor numbers(const Shape& shape) { return cast(reshape(arange(shape.elems()), shape), DType::kF32); }

TEST(Slice, CountsFromTheEndAndTakesSteps) {
  const Tensor x = numbers({6});
  EXPECT_EQ(slice(x, {1}, {5}, {2}).to_vector(), (Values{1, 3}));
  EXPECT_EQ(slice(x, {-3}, {kSliceEnd}).to_vector(), (Values{3, 4, 5}));
  EXPECT_EQ(slice(x, {0}, {-1}).to_vector(), (Values{0, 1, 2, 3, 4}));
  EXPECT_EQ(slice(x, {-1}, {kSliceEnd}, {-2}).to_vector(), (Values{5, 3, 1}));
  EXPECT_EQ(slice(x, {4}, {1}, {-1}).to_vector(), (Values{4, 3, 2}));
  EXPECT_EQ(slice(x, {6}, {6}).shape(), Shape({0}));
  EXPECT_EQ(slice(x, {3}, {2}).shape(), Shape({0}));
}

TEST(Slice, LeavesTrailingAxesWhole) {
  EXPECT_EQ(slice(numbers({3, 2}), {1}, {3}).to_vector(), (Values{2, 3, 4, 5}));
}

TEST(Slice, RefusesToClip) {
  const Tensor x = numbers({6});
  EXPECT_ERROR(slice(x, {0}, {7}), ErrorCode::kOutOfRange, "bounds are not clipped");
  EXPECT_ERROR(slice(x, {-7}, {2}), ErrorCode::kOutOfRange, "6 elements");
  EXPECT_ERROR(slice(x, {0}, {-8}), ErrorCode::kOutOfRange, "6 elements");
  EXPECT_ERROR(slice(x, {6}, {0}, {-1}), ErrorCode::kOutOfRange, "6 elements");
  EXPECT_ERROR(slice(x, {0}, {6}, {0}), ErrorCode::kInvalidArgument, "step is 0");
  EXPECT_ERROR(slice(x, {0, 0}, {1, 1}), ErrorCode::kInvalidArgument, "starts (0, 0)");
  EXPECT_ERROR(narrow(x, 0, 4, 3), ErrorCode::kOutOfRange, "3 elements from 4");
  EXPECT_ERROR(narrow(x, 0, -7, 1), ErrorCode::kOutOfRange, "bounds are not clipped");
  EXPECT_EQ(narrow(x, 0, -2, 2).to_vector(), (Values{4, 5}));
}

TEST(Stack, AddsAnAxisThatSplitTakesAway) {
  const std::vector<Tensor> parts = {numbers({2, 3}), numbers({2, 3}) + 10.0};
  const Tensor stacked = stack(parts, 1);
  EXPECT_EQ(stacked.shape(), Shape({2, 2, 3}));
  EXPECT_EQ(stacked.to_vector(), (Values{0, 1, 2, 10, 11, 12, 3, 4, 5, 13, 14, 15}));
  const std::vector<Tensor> pieces = split(stacked, 2, 1);
  EXPECT_EQ(squeeze(pieces[1], {1}).to_vector(), parts[1].to_vector());
  EXPECT_ERROR(stack({numbers({2}), numbers({3})}), ErrorCode::kShapeMismatch, "one shape");
  EXPECT_ERROR(split(stacked, 2, 2), ErrorCode::kShapeMismatch, "does not divide");
  EXPECT_ERROR(concatenate({}), ErrorCode::kInvalidArgument, "at least one");
}

TEST(Pad, PutsTheValueAround) {
  EXPECT_EQ(pad(numbers({2, 2}), {0, 1}, {1, 0}, 9).to_vector(), (Values{9, 0, 1, 9, 2, 3, 9, 9, 9}));
  EXPECT_ERROR(pad(numbers({2}), {-1}, {0}), ErrorCode::kInvalidArgument, "use slice");
  EXPECT_ERROR(pad(numbers({2}), {INT64_MAX}, {1}), ErrorCode::kOverflow, "pad");
}

TEST(Flip, ReversesTheChosenAxes) {
  EXPECT_EQ(flip(numbers({2, 3})).to_vector(), (Values{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(flip(numbers({2, 3}), {-1}).to_vector(), (Values{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(flip(numbers({0, 3})).shape(), Shape({0, 3}));
}

TEST(Squeeze, RemovesOnlyAxesOfOneElement) {
  EXPECT_EQ(squeeze(numbers({1, 3, 1})).shape(), Shape({3}));
  EXPECT_EQ(expand_dims(numbers({3}), -1).shape(), Shape({3, 1}));
  EXPECT_ERROR(squeeze(numbers({1, 3}), {1}), ErrorCode::kShapeMismatch, "extent 1");
  EXPECT_ERROR(expand_dims(numbers({3}), 2 + 1), ErrorCode::kOutOfRange, "expand_dims");
}

TEST(Gather, NamesTheIndexThatIsOutOfRange) {
  const Tensor indices = from_vector({4}, {0, 2, 5, 1}, DType::kI64);
  EXPECT_ERROR(gather(numbers({5, 2}), indices), ErrorCode::kOutOfRange,
               "[gather] index 5 at position 2 lies outside [0, 5)");
  EXPECT_ERROR(one_hot(from_vector({1}, {-1}, DType::kI32), 3), ErrorCode::kOutOfRange,
               "index -1 at position 0");
  EXPECT_ERROR(scatter_add(numbers({4, 2}), indices, 5), ErrorCode::kOutOfRange, "[scatter_add] index 5");
}

TEST(Gather, ChecksIndicesAtEveryReplay) {
  auto step = capture([](const Tensor& x, const Tensor& indices) { return gather(x, indices); });
  const Tensor x = numbers({3});
  EXPECT_EQ(step(x, from_vector({2}, {2, 0}, DType::kI32)).to_vector(), (Values{2, 0}));
  EXPECT_ERROR(step(x, from_vector({2}, {0, 3}, DType::kI32)), ErrorCode::kOutOfRange,
               "index 3 at position 1");
  EXPECT_EQ(step(x, from_vector({2}, {1, 1}, DType::kI32)).to_vector(), (Values{1, 1}));
}

TEST(ScatterAdd, SumsSixteenBitFloatsInF32) {
  const Tensor updates = full({1000}, 1, DType::kBF16);  // in bf16, 256 + 1 is 256
  EXPECT_EQ(scatter_add(updates, zeros({1000}, DType::kI32), 1).to_vector(), (Values{1000}));
}

TEST(ArgMax, TakesTheFirstOfEqualsAndNanBeforeAll) {
  EXPECT_EQ(argmax(from_vector({4}, {1, 7, 7, 2})).item<int64_t>(), 1);
  EXPECT_EQ(argmin(from_vector({2, 2}, {1, 0, 0, 2})).item<int64_t>(), 1);
  EXPECT_EQ(argmax(from_vector({4}, {1, NAN, 7, NAN})).item<int64_t>(), 1);
  EXPECT_EQ(argmin(from_vector({3}, {1, 0, NAN})).item<int64_t>(), 2);
  EXPECT_EQ(argmax(numbers({2, 3}), -1, true).shape(), Shape({2, 1}));
  EXPECT_ERROR(argmax(numbers({0})), ErrorCode::kShapeMismatch, "is empty");
}

TEST(Scatter, OfEqualIndicesTheLastStaysAndHasTheGradient) {
  const Tensor base = zeros({4, 2}), indices = from_vector({3}, {1, 3, 1}, DType::kI64);
  const Tensor updates = from_vector({3, 2}, {1, 2, 3, 4, 5, 6});
  GradientTape tape;
  const Tensor y = scatter(base, indices, updates);
  EXPECT_EQ(y.to_vector(), (Values{0, 0, 5, 6, 0, 0, 3, 4}));
  EXPECT_EQ(base.to_vector(), Values(8, 0)) << "the base stays";
  const std::vector<Tensor> gradients = tape.gradient(sum(y * 2.0), {base, updates});
  EXPECT_EQ(gradients[0].to_vector(), (Values{2, 2, 0, 0, 2, 2, 0, 0}));
  EXPECT_EQ(gradients[1].to_vector(), (Values{0, 0, 2, 2, 2, 2}));
}

TEST(Scatter, ReplacesRowsOfAVariableInPlace) {
  constexpr int64_t kRows = 1000;
  const Variable buffer(zeros({kRows, 8}), "replay", false);
  const Variable next(zeros({}, DType::kI64), "next", false);
  auto add = capture([&](const Tensor& row) {
    const Tensor at = next.tensor();
    buffer.assign(scatter(buffer, at, row));
    next.assign(where(at >= 999.0, scalar(0, DType::kI64), at + 1.0));
  });
  for (int i = 0; i < kRows + 3; ++i) add(full({8}, i));
  EXPECT_EQ(add.plan_report().updates_copied, 0);
  EXPECT_LT(add.plan_report().arena_bytes, 4096u) << "there is no second buffer";
  const std::vector<double> rows = buffer.tensor().to_vector();
  for (int64_t i = 0; i < kRows; ++i) EXPECT_EQ(rows[static_cast<size_t>(i) * 8], i < 3 ? kRows + i : i);
}

TEST(Scatter, AnIndexOutsideTheBaseChangesNothing) {
  const Variable base(ones({3, 2}), "base", false);
  auto step = capture([&](const Tensor& indices) { base.assign(scatter(base, indices, zeros({2, 2}))); });
  EXPECT_ERROR(step(from_vector({2}, {1, 3}, DType::kI64)), ErrorCode::kOutOfRange,
               "[scatter] index 3 at position 1 lies outside [0, 3)");
  EXPECT_EQ(base.tensor().to_vector(), Values(6, 1));
  EXPECT_ERROR(scatter(base, zeros({2}, DType::kI64), zeros({3, 2})), ErrorCode::kShapeMismatch,
               "base f32(3, 2) at indices i64(2) along axis 0 takes updates f32(2, 2), got f32(3, 2)");
}

TEST(ScatterExtremes, TheGradientGoesToTheFirstOfEquals) {
  const Tensor base = from_vector({3, 2}, {0, 9, 0, 0, 5, 5}),
               indices = from_vector({3}, {0, 1, 0}, DType::kI64);
  const Tensor updates = from_vector({3, 2}, {4, 1, -1, 0, 4, 9});
  GradientTape tape;
  const Tensor y = scatter_max(base, indices, updates);
  EXPECT_EQ(y.to_vector(), (Values{4, 9, 0, 0, 5, 5}));
  const Tensor seed = from_vector({3, 2}, {1, 2, 3, 4, 5, 6});
  const std::vector<Tensor> gradients = tape.gradient(sum(y * seed), {base, updates});
  EXPECT_EQ(gradients[0].to_vector(), (Values{0, 2, 3, 4, 5, 6}));
  EXPECT_EQ(gradients[1].to_vector(), (Values{1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(scatter_min(base, indices, updates).to_vector(), (Values{0, 1, -1, 0, 5, 5}));
}

TEST(ScatterExtremes, NanWinsAndGroupsMayBeEmpty) {
  const Tensor x = from_vector({3}, {NAN, 2, 1}), group = from_vector({3}, {2, 0, 0}, DType::kI64);
  const Tensor largest = scatter_max(full({3}, -INFINITY), group, x);
  const Values of_groups = where(is_inf(largest), 0, largest).to_vector();
  EXPECT_EQ(of_groups[0], 2);
  EXPECT_EQ(of_groups[1], 0);
  EXPECT_TRUE(std::isnan(of_groups[2]));
  EXPECT_TRUE(std::isnan(scatter_min(full({1}, NAN), zeros({3}, DType::kI64), ones({3})).item<float>()));
  EXPECT_ERROR(scatter_max(zeros({2}), from_vector({1}, {2}, DType::kI64), ones({1})), ErrorCode::kOutOfRange,
               "[scatter_max] index 2 at position 0 lies outside [0, 2)");
}

TEST(ScatterExtremes, UpdateAVariableInPlaceAndInMixedPrecision) {
  const Variable record(zeros({1000, 8}), "record", false);
  auto keep =
      capture([&](const Tensor& x) { record.assign(scatter_max(record, zeros({}, DType::kI64), x)); });
  for (const double x : {3.0, 5.0, 4.0}) keep(full({8}, x));
  EXPECT_EQ(keep.plan_report().updates_copied, 0);
  EXPECT_LT(keep.plan_report().arena_bytes, 4096u);
  EXPECT_EQ(sum(record).item<float>(), 40);

  const Variable weight(full({4, 4}, 0.3), "weight");
  const Tensor x = full({6, 4}, 1.1), group = from_vector({6}, {0, 0, 1, 1, 1, 2}, DType::kI64);
  auto step = capture(
      [&](const Tensor& in) {
        const Tensor hidden = matmul(in, weight) * 1.7;
        return gradients(sum(scatter_max(full({3, 4}, -100), group, hidden)), {weight})[0];
      },
      {.passes = {.precision = Precision::kMixedBf16}});
  for (const double g : step(x).to_vector()) EXPECT_NEAR(g, 3 * 1.1 * 1.7, 0.1) << "one row of each group";
}

}  // namespace
}  // namespace isochron
