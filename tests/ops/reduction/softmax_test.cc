// Softmax and cross-entropy beyond the registry's samples: any axis, 16-bit floats, extreme rows, bad labels.
#include "isochron/ops/reduction/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/rng.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/log_sum_exp.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST(Softmax, SumsToOneOverAnyAxis) {
  const Tensor x = from_vector({2, 3, 2}, {1, -2, 3, 0, 5, 6, -1, 2, 0.5, 9, 7, -3});
  for (const int64_t axis : {0, 1, 2, -2}) {
    for (const double total : sum(softmax(x, axis), {axis}).to_vector()) EXPECT_NEAR(total, 1, 1e-6) << axis;
  }
  EXPECT_ERROR(softmax(x, 3), ErrorCode::kOutOfRange, "softmax");
}

TEST(Softmax, SurvivesLogitsThatOverflowTheExponential) {
  const std::vector<double> y = softmax(from_vector({1, 3}, {1e30, 1e30, -1e30})).to_vector();
  EXPECT_EQ(y, (std::vector<double>{0.5, 0.5, 0}));
  EXPECT_EQ(log_softmax(from_vector({1, 2}, {-1e30, 1e30})).to_vector()[1], 0);
}

TEST(Softmax, GivesMaskedLogitsNoProbability) {
  const Tensor x = from_vector({2, 3}, {-kInfinite, 0, 0, -kInfinite, -kInfinite, -kInfinite});
  const std::vector<double> y = softmax(x).to_vector();
  EXPECT_EQ(std::vector<double>(y.begin(), y.begin() + 3), (std::vector<double>{0, 0.5, 0.5}));
  for (size_t i = 3; i < 6; ++i) EXPECT_TRUE(std::isnan(y[i])) << "nothing is left to choose from";
}

TEST(Softmax, MasksByInfinityAsByAnyLowNumber) {
  Rng rng(5);
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    std::vector<double> infinite(1003), low;
    for (double& logit : infinite) logit = rng.uniform() < 0.5 ? -kInfinite : rng.normal();
    for (const double logit : infinite) low.push_back(std::max(logit, -1e30));
    const Tensor x = from_vector({1, 1003}, infinite, dtype), y = from_vector({1, 1003}, low, dtype);
    EXPECT_EQ(softmax(x).to_vector(), softmax(y).to_vector()) << dtype_name(dtype);
    EXPECT_EQ(log_sum_exp(x, {1}).to_vector(), log_sum_exp(y, {1}).to_vector()) << dtype_name(dtype);
    const std::vector<double> logarithms = log_softmax(x).to_vector();
    for (size_t i = 0; i < infinite.size(); ++i)
      EXPECT_EQ(std::isinf(logarithms[i]), std::isinf(infinite[i]));
  }
}

TEST(Softmax, LetsNanThrough) {
  for (const double y : softmax(from_vector({1, 20}, std::vector<double>(20, NAN))).to_vector()) {
    EXPECT_TRUE(std::isnan(y));
  }
  std::vector<double> values(20, 1);
  values[17] = NAN;
  for (const double y : log_softmax(from_vector({1, 20}, values)).to_vector()) EXPECT_TRUE(std::isnan(y));
}

TEST(Softmax, ComputesSixteenBitFloatsInF32) {
  const Tensor x = from_vector({2, 3}, {1, 2, 3, -1, 0, 4}, DType::kBF16);
  const Tensor wide = cast(softmax(cast(x, DType::kF32)), DType::kBF16);
  EXPECT_EQ(softmax(x).dtype(), DType::kBF16);
  EXPECT_EQ(softmax(x).to_vector(), wide.to_vector());
}

TEST(SparseCrossEntropy, NamesRowAndLabelThatIsOutOfRange) {
  const Tensor logits = zeros({3, 4});
  EXPECT_ERROR(sparse_softmax_cross_entropy(logits, from_vector({3}, {0, 4, 1}, DType::kI64)),
               ErrorCode::kOutOfRange, "label 4 of row 1 is outside [0, 4)");
  EXPECT_ERROR(sparse_softmax_cross_entropy(logits, from_vector({3}, {0, 1, -1}, DType::kI32)),
               ErrorCode::kOutOfRange, "label -1 of row 2");
  EXPECT_ERROR(sparse_softmax_cross_entropy(logits, zeros({3})), ErrorCode::kDtypeMismatch, "integers");
}

TEST(SparseCrossEntropy, ChecksLabelsAtEveryReplay) {
  auto step =
      capture([](const Tensor& x, const Tensor& labels) { return sparse_softmax_cross_entropy(x, labels); });
  const Tensor logits = zeros({2, 4});
  EXPECT_NEAR(step(logits, from_vector({2}, {0, 3}, DType::kI64)).to_vector()[1], std::log(4.0), 1e-6);
  EXPECT_ERROR(step(logits, from_vector({2}, {0, 9}, DType::kI64)), ErrorCode::kOutOfRange,
               "label 9 of row 1");
}

TEST(SparseCrossEntropy, KeepsItsGradientWhereTheModelIsSure) {
  // 1 - p is e^-40 here: subtracting p from 1 would give 0.
  const Tensor logits = from_vector({1, 2}, {40, 0}, DType::kF64);
  GradientTape tape;
  const Tensor loss = sparse_softmax_cross_entropy(logits, zeros({1}, DType::kI64));
  EXPECT_DOUBLE_EQ(tape.gradient(loss, logits).to_vector()[1], std::exp(-40.0) / (1 + std::exp(-40.0)));
}

TEST(CategoricalCrossEntropy, ClipsProbabilitiesOfZero) {
  const Tensor p = from_vector({1, 2}, {1, 0}, DType::kF64);
  const Tensor labels = ones({1}, DType::kI64);
  EXPECT_NEAR(sparse_categorical_cross_entropy(p, labels).item<double>(), -std::log(1e-7), 1e-9);
  EXPECT_NEAR(categorical_cross_entropy(p, from_vector({1, 2}, {0, 1}, DType::kF64)).item<double>(),
              -std::log(1e-7), 1e-9);
  EXPECT_NEAR(binary_cross_entropy(p, 1.0 - p).to_vector()[0], -std::log(1e-7), 1e-8);
}

TEST(BinaryCrossEntropy, FromLogitsNeitherOverflowsNorClips) {
  const Tensor logits = from_vector({3}, {-1000, 0, 1000}, DType::kF64);
  const std::vector<double> losses =
      binary_cross_entropy_from_logits(logits, ones({3}, DType::kF64)).to_vector();
  EXPECT_EQ(losses[0], 1000);
  EXPECT_DOUBLE_EQ(losses[1], std::log(2.0));
  EXPECT_EQ(losses[2], 0);
}

TEST(BinaryCrossEntropy, FromLogitsHasTheGradientOfTheSigmoidAtZeroToo) {
  const Tensor logits = from_vector({4}, {-0.0, 0, 0, 2}, DType::kF64);
  const Tensor targets = from_vector({4}, {0, 1, 0.25, 0.25}, DType::kF64);
  GradientTape tape(true);
  tape.watch(logits);
  const Tensor first = tape.gradient(sum(binary_cross_entropy_from_logits(logits, targets)), logits);
  const Tensor p = sigmoid(logits);
  EXPECT_TRUE(near(first, p - targets, 1e-15));
  EXPECT_TRUE(near(tape.gradient(sum(first), logits), p * (1.0 - p), 1e-14));
}

}  // namespace
}  // namespace isochron
