#include "isochron/nn/losses.h"

#include <gtest/gtest.h>

#include <cmath>

#include "isochron/autograd/autograd.h"
#include "isochron/data/npy.h"
#include "isochron/ops/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::nn {
namespace {

TEST(Losses, OfAnEmptyBatchAreAnError) {
  EXPECT_ERROR(mean_squared_error(zeros({0, 3}), zeros({0, 3})), ErrorCode::kInvalidArgument,
               "the batch is empty");
}

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

TEST(Losses, CrossEntropiesAgreeWithPyTorch) {
  const data::NpzFile file = data::read_npz(std::string(ISOCHRON_SOURCE_DIR) + "/tests/golden/ops_torch.npz");
  const auto array = [&](const std::string& name) { return file.at("cross_entropy." + name); };
  const Tensor logits = array("logits");
  const Tensor probabilities = array("probabilities");
  const auto check = [&](auto loss, const Tensor& prediction, const Tensor& truth, const std::string& name) {
    const Tensor rows = array(name + ".y");
    EXPECT_TRUE(near(loss(prediction, truth, {}), array(name + "_mean.y"), 1e-12)) << name;
    EXPECT_TRUE(near(loss(prediction, truth, {.reduction = Reduction::kNone}), rows, 1e-12)) << name;
  };
  check(nn::sparse_softmax_cross_entropy, logits, array("labels"), "sparse_logits");
  check(nn::softmax_cross_entropy, logits, array("targets"), "dense_logits");
  check(nn::sparse_categorical_cross_entropy, probabilities, array("labels"), "sparse_probabilities");
  check(nn::categorical_cross_entropy, probabilities, array("targets"), "dense_probabilities");
}

TEST(Losses, SequencesAreAveragedWithinASample) {
  const Tensor logits = zeros({2, 3, 4}, DType::kF64);
  const Tensor labels = zeros({2, 3}, DType::kI64);
  const LossOptions none{.reduction = Reduction::kNone};
  EXPECT_TRUE(near(nn::sparse_softmax_cross_entropy(logits, labels, none),
                   full({2}, std::log(4.0), DType::kF64), 1e-15));
}

TEST(Losses, BinaryCrossEntropies) {
  const Tensor logits = from_vector({2, 2}, {0, 2, -1, 50}, DType::kF64);
  const Tensor targets = from_vector({2, 2}, {1, 0, 0.25, 1}, DType::kF64);
  // log(1 + e^x) - t x of each.
  const std::vector<double> rows = {(std::log(2.0) + std::log1p(std::exp(2.0))) / 2,
                                    (std::log1p(std::exp(-1.0)) + 0.25 + 0) / 2};
  const LossOptions none{.reduction = Reduction::kNone};
  EXPECT_TRUE(near(nn::binary_cross_entropy_from_logits(logits, targets, none), numbers(rows), 1e-12));
  const Tensor p = from_vector({1, 2}, {0.25, 0.75}, DType::kF64);
  const Tensor t = from_vector({1, 2}, {1, 0.5}, DType::kF64);
  const double expected = (-std::log(0.25) - 0.5 * std::log(0.75) - 0.5 * std::log(0.25)) / 2;
  EXPECT_NEAR(nn::binary_cross_entropy(p, t).item<double>(), expected, 1e-12);
}

TEST(Losses, RejectWrongCalls) {
  EXPECT_ERROR(nn::sparse_softmax_cross_entropy(ones({2, 3}), from_vector({2}, {0, 3}, DType::kI64)),
               ErrorCode::kOutOfRange, "3");
  EXPECT_ERROR(nn::binary_cross_entropy(ones({2, 1}), ones({2})), ErrorCode::kShapeMismatch, "(2, 1)");
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
