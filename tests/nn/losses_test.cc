#include "isochron/nn/losses.h"

#include <gtest/gtest.h>

#include "isochron/autograd/autograd.h"
#include "isochron/ops/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::nn {
namespace {

const Tensor kPrediction = from_vector({2, 2}, {1, 2, 3, -4}, DType::kF64);
const Tensor kTarget = from_vector({2, 2}, {0, 2, 1, -1}, DType::kF64);  // errors 1, 0, 2, -3

Tensor numbers(const std::vector<double>& values) {
  return from_vector({static_cast<int64_t>(values.size())}, values, DType::kF64);
}

TEST(Losses, ReduceOverElementsThenSamples) {
  EXPECT_EQ(mean_squared_error(kPrediction, kTarget).item<double>(), 3.5);
  EXPECT_EQ(mean_absolute_error(kPrediction, kTarget).item<double>(), 1.5);
  EXPECT_EQ(huber(kPrediction, kTarget).item<double>(), (0.5 + 1.5 + 2.5) / 4);
  EXPECT_EQ(huber(kPrediction, kTarget, 2).item<double>(), (0.5 + 2 + 4) / 4);
  EXPECT_EQ(mean_squared_error(kPrediction, kTarget, {.reduction = Reduction::kNone}).to_vector(),
            (std::vector<double>{0.5, 6.5}));
  EXPECT_EQ(mean_squared_error(kPrediction, kTarget, {.reduction = Reduction::kSum}).item<double>(), 7);
}

TEST(Losses, WeighSamples) {
  const Tensor weights = numbers({1, 0.5});
  const auto loss = [&](Reduction reduction) {
    return mean_squared_error(kPrediction, kTarget, {.reduction = reduction, .sample_weights = weights});
  };
  EXPECT_EQ(loss(Reduction::kNone).to_vector(), (std::vector<double>{0.5, 3.25}));
  EXPECT_EQ(loss(Reduction::kSum).item<double>(), 3.75);
  EXPECT_EQ(loss(Reduction::kMean).item<double>(), 1.875);
  EXPECT_EQ(loss(Reduction::kWeightedMean).item<double>(), 2.5);
}

TEST(Losses, TakeVectorsOfSamples) {
  const Tensor weights = numbers({0, 1});
  EXPECT_EQ(mean_squared_error(numbers({1, 5}), numbers({3, 2})).item<double>(), 6.5);
  EXPECT_EQ(mean_absolute_error(numbers({1, 5}), numbers({3, 2}),
                                {.reduction = Reduction::kWeightedMean, .sample_weights = weights})
                .item<double>(),
            3);
}

TEST(Losses, HaveGradients) {
  GradientTape tape(true);
  const Tensor squared = mean_squared_error(kPrediction, kTarget);
  const Tensor robust = huber(kPrediction, kTarget);
  EXPECT_TRUE(
      near(tape.gradient(squared, kPrediction), from_vector({2, 2}, {0.5, 0, 1, -1.5}, DType::kF64), 1e-15));
  EXPECT_TRUE(near(tape.gradient(robust, kPrediction),
                   from_vector({2, 2}, {0.25, 0, 0.25, -0.25}, DType::kF64), 1e-15));
}

TEST(Losses, RejectWrongCalls) {
  EXPECT_ERROR(mean_squared_error(ones({32, 1}), ones({32})), ErrorCode::kShapeMismatch, "(32, 1)");
  EXPECT_ERROR(mean_absolute_error(scalar(1), scalar(2)), ErrorCode::kShapeMismatch, "(N, ...)");
  EXPECT_ERROR(mean_squared_error(ones({2}), ones({2}, DType::kF64)), ErrorCode::kDtypeMismatch, "f64");
  EXPECT_ERROR(huber(ones({2}), ones({2}), 0), ErrorCode::kInvalidArgument, "delta");
  EXPECT_ERROR(mean_squared_error(kPrediction, kTarget, {.sample_weights = numbers({1, 1, 1})}),
               ErrorCode::kShapeMismatch, "sample weights are (3)");
  EXPECT_ERROR(mean_squared_error(kPrediction, kTarget, {.reduction = Reduction::kWeightedMean}),
               ErrorCode::kInvalidArgument, "needs sample weights");
}

}  // namespace
}  // namespace isochron::nn
