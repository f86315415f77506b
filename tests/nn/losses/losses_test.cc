#include "isochron/nn/losses/losses.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>

#include "isochron/autograd/autograd.h"
#include "isochron/data/formats/npy.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/softmax.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "nn/losses/loss_checks.h"
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
  const Tensor weights = vec64({1, 0.5});
  const auto loss = [&](Reduction reduction) {
    return mean_squared_error(kPrediction, kTarget, {.reduction = reduction, .sample_weights = weights});
  };
  EXPECT_EQ(loss(Reduction::kNone).to_vector(), (std::vector<double>{0.5, 3.25}));
  EXPECT_EQ(loss(Reduction::kSum).item<double>(), 3.75);
  EXPECT_EQ(loss(Reduction::kMean).item<double>(), 1.875);
  EXPECT_EQ(loss(Reduction::kWeightedMean).item<double>(), 2.5);
}

TEST(Losses, TakeVectorsOfSamples) {
  const Tensor weights = vec64({0, 1});
  EXPECT_EQ(mean_squared_error(vec64({1, 5}), vec64({3, 2})).item<double>(), 6.5);
  EXPECT_EQ(mean_absolute_error(vec64({1, 5}), vec64({3, 2}),
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

TEST(Losses, HuberIsASquareWhereThereIsNoError) {
  const Tensor x = from_vector({2}, {0, 0.5}, DType::kF64);
  GradientTape tape(true);
  tape.watch(x);
  const Tensor first = tape.gradient(huber(x, zeros({2}, DType::kF64), 1, {.reduction = Reduction::kSum}), x);
  EXPECT_EQ(tape.gradient(sum(first), x).to_vector(), (std::vector<double>{1, 1}));
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
  EXPECT_TRUE(near(nn::sparse_softmax_cross_entropy(logits, labels, {.reduction = Reduction::kNone}),
                   full({2}, std::log(4.0), DType::kF64), 1e-15));
}

TEST(Losses, BinaryCrossEntropies) {
  const Tensor logits = from_vector({2, 2}, {0, 2, -1, 50}, DType::kF64);
  const Tensor targets = from_vector({2, 2}, {1, 0, 0.25, 1}, DType::kF64);
  // log(1 + e^x) - t x of each.
  const std::vector<double> rows = {(std::log(2.0) + std::log1p(std::exp(2.0))) / 2,
                                    (std::log1p(std::exp(-1.0)) + 0.25 + 0) / 2};
  EXPECT_TRUE(near(nn::binary_cross_entropy_from_logits(logits, targets, {.reduction = Reduction::kNone}),
                   vec64(rows), 1e-12));
  const Tensor p = from_vector({1, 2}, {0.25, 0.75}, DType::kF64);
  const Tensor t = from_vector({1, 2}, {1, 0.5}, DType::kF64);
  const double expected = (-std::log(0.25) - 0.5 * std::log(0.75) - 0.5 * std::log(0.25)) / 2;
  EXPECT_NEAR(nn::binary_cross_entropy(p, t).item<double>(), expected, 1e-12);
}

class LossesOfPyTorch : public GoldenLosses {
 protected:
  LossesOfPyTorch() : GoldenLosses("losses_torch.npz") {}

  /// Under the three reductions; PyTorch's mean is `mean` here.
  template <typename F>
  void check_reductions(const std::string& name, Reduction mean, F loss, CrossEntropyOptions options) {
    for (const auto& [suffix, reduction] : {std::pair{".mean", mean}, std::pair{".sum", Reduction::kSum},
                                            std::pair{".none", Reduction::kNone}}) {
      options.reduction = reduction;
      check("cross_entropy." + name + suffix, "x", [&](const Tensor& x) { return loss(x, options); });
    }
  }
};

TEST_F(LossesOfPyTorch, ReduceOverAllElements) {
  const Tensor t = array("r.t"), y = array("r.y");
  for (const OverAll& over : kOverAll) {
    const LossOptions options{.reduction = over.reduction, .per_sample = over.per_sample};
    check("r.mse" + over.name, "r.x", [&](const Tensor& x) { return mean_squared_error(x, t, options); });
    check("r.mae" + over.name, "r.x", [&](const Tensor& x) { return mean_absolute_error(x, t, options); });
    check("r.huber" + over.name, "r.x", [&](const Tensor& x) { return huber(x, t, 0.7, options); });
    const BinaryCrossEntropyOptions binary{.reduction = over.reduction, .per_sample = over.per_sample};
    check("r.bce" + over.name, "r.p",
          [&](const Tensor& p) { return nn::binary_cross_entropy(p, y, binary); });
    check("r.bce_logits" + over.name, "r.x",
          [&](const Tensor& x) { return nn::binary_cross_entropy_from_logits(x, y, binary); });
  }
}

TEST_F(LossesOfPyTorch, CrossEntropiesReduceOverAllRows) {
  for (const OverAll& over : kOverAll) {
    CrossEntropyOptions options{.reduction = over.reduction, .per_sample = over.per_sample};
    check("r.labels" + over.name, "r.x",
          [&](const Tensor& x) { return nn::sparse_softmax_cross_entropy(x, array("r.labels"), options); });
    check("r.targets" + over.name, "r.x",
          [&](const Tensor& x) { return nn::softmax_cross_entropy(x, array("r.targets"), options); });
    options.ignore_index = -100;
    check("r.ignored" + over.name, "r.x",
          [&](const Tensor& x) { return nn::sparse_softmax_cross_entropy(x, array("r.ignored"), options); });
  }
}

TEST(Losses, SumWithinSamplesAndAverageOverThem) {
  const LossOptions sums{.per_sample = Reduction::kSum};
  EXPECT_EQ(mean_squared_error(kPrediction, kTarget, sums).item<double>(), 7);
  EXPECT_EQ(huber(kPrediction, kTarget, 2, sums).item<double>(), (0.5 + 2 + 4) / 2);
  EXPECT_EQ(
      mean_squared_error(kPrediction, kTarget, {.reduction = Reduction::kNone, .per_sample = Reduction::kSum})
          .to_vector(),
      (std::vector<double>{1, 13}));
  // kl and cosine have rows of one number.
  const Tensor logits = zeros({2, 3, 4}, DType::kF64), labels = zeros({2, 3}, DType::kI64);
  EXPECT_NEAR(
      nn::sparse_softmax_cross_entropy(logits, labels, {.per_sample = Reduction::kSum}).item<double>(),
      3 * std::log(4.0), 1e-14);
  const int64_t ignored = (int64_t{1} << 53) + 1;  // which f64 rounds
  const std::vector<int64_t> few{0, ignored, ignored};
  EXPECT_NEAR(nn::sparse_softmax_cross_entropy(zeros({3, 4}, DType::kF64), from_span<int64_t>({3}, few),
                                               {.ignore_index = ignored})
                  .item<double>(),
              std::log(4.0), 1e-14);
  const Tensor some = from_vector({2, 3}, {0, 7, 7, 1, 2, 7}, DType::kI64);
  EXPECT_NEAR(
      nn::sparse_softmax_cross_entropy(logits, some, {.ignore_index = 7, .per_sample = Reduction::kSum})
          .item<double>(),
      3 * std::log(4.0) / 2, 1e-14);
}

TEST(Losses, WeighSamplesHoweverTheyAreReduced) {
  const auto loss = [&](Reduction reduction, Reduction per_sample) {
    return mean_squared_error(
        kPrediction, kTarget,
        {.reduction = reduction, .sample_weights = vec64({1, 0.5}), .per_sample = per_sample});
  };
  EXPECT_EQ(loss(Reduction::kNone, Reduction::kNone).to_vector(), (std::vector<double>{1, 0, 2, 4.5}));
  EXPECT_EQ(loss(Reduction::kSum, Reduction::kNone).item<double>(), 7.5);
  EXPECT_EQ(loss(Reduction::kSum, Reduction::kSum).item<double>(), 7.5);
  EXPECT_EQ(loss(Reduction::kMean, Reduction::kNone).item<double>(), 1.875);
  EXPECT_EQ(loss(Reduction::kWeightedMean, Reduction::kNone).item<double>(), 7.5 / 3);
  EXPECT_EQ(loss(Reduction::kWeightedMean, Reduction::kSum).item<double>(), 7.5 / 1.5);
  EXPECT_ERROR(loss(Reduction::kMean, Reduction::kWeightedMean), ErrorCode::kInvalidArgument,
               "averaged, summed or kept");
}

TEST_F(LossesOfPyTorch, CrossEntropyOfLabels) {
  const auto of = [this](const std::string& labels) {
    return [this, labels](const Tensor& x, const CrossEntropyOptions& options) {
      return nn::sparse_softmax_cross_entropy(x, array(labels), options);
    };
  };
  const Tensor weights = array("weights");
  check_reductions("smooth", Reduction::kMean, of("full_labels"), {.label_smoothing = 0.1});
  check_reductions("weighted", Reduction::kWeightedMean, of("full_labels"), {.class_weights = weights});
  check_reductions("ignored", Reduction::kMean, of("labels"), {.ignore_index = -100});
  check_reductions("ignored", Reduction::kWeightedMean, of("labels"), {.ignore_index = -100});
  check_reductions("all", Reduction::kWeightedMean, of("labels"),
                   {.label_smoothing = 0.2, .class_weights = weights, .ignore_index = -100});
}

TEST_F(LossesOfPyTorch, CrossEntropyOfTargets) {
  const auto loss = [this](const Tensor& x, const CrossEntropyOptions& options) {
    return nn::softmax_cross_entropy(x, array("targets"), options);
  };
  check_reductions("dense_smooth", Reduction::kMean, loss, {.label_smoothing = 0.1});
  check_reductions("dense_all", Reduction::kMean, loss,
                   {.label_smoothing = 0.2, .class_weights = array("weights")});
}

TEST_F(LossesOfPyTorch, CrossEntropyOfProbabilities) {
  const CrossEntropyOptions all{.reduction = Reduction::kWeightedMean,
                                .label_smoothing = 0.2,
                                .class_weights = array("weights"),
                                .ignore_index = -100};
  check("cross_entropy.all.mean", "x", [&](const Tensor& x) {
    return nn::sparse_categorical_cross_entropy(softmax(x), array("labels"), all);
  });
  check("cross_entropy.dense_smooth.mean", "x", [&](const Tensor& x) {
    return nn::categorical_cross_entropy(softmax(x), array("targets"), {.label_smoothing = 0.1});
  });
}

TEST_F(LossesOfPyTorch, OfElementsAndVectors) {
  const BinaryCrossEntropyOptions weighted{.positive_weight = array("e.weight")};
  check("binary", "e.x",
        [&](const Tensor& x) { return nn::binary_cross_entropy_from_logits(x, array("e.t"), weighted); });
  check("binary", "e.x",
        [&](const Tensor& x) { return nn::binary_cross_entropy(sigmoid(x), array("e.t"), weighted); });
  check("kl", "e.x", [&](const Tensor& x) { return kl_divergence_from_logits(x, array("e.p")); });
  check("cosine", "e.x", [&](const Tensor& x) { return cosine_similarity_loss(x, array("e.t")) + 1.0; });
  check("log_cosh", "e.x", [&](const Tensor& x) { return log_cosh(x, array("e.t")); });
}

TEST(Losses, KlDivergenceOfProbabilitiesIsKerass) {
  const Tensor p = from_vector({2, 2}, {0.25, 0.75, 1, 0}, DType::kF64);
  const Tensor t = from_vector({2, 2}, {0.5, 0.5, 0, 1}, DType::kF64);
  const double first = 0.5 * std::log(2) + 0.5 * std::log(0.5 / 0.75);
  const double second = 1e-7 * std::log(1e-7) + std::log(1e7);
  EXPECT_TRUE(near(kl_divergence(p, t, {.reduction = Reduction::kNone}), vec64({first, second}), 1e-12));
}

TEST(Losses, CosineOfF16VectorsOfAnyLength) {
  const Tensor x = from_vector({3, 2}, {0, 0, 300, 400, 1e-3, 0}, DType::kF16);
  const Tensor t = from_vector({3, 2}, {1, 1, 300, 400, 1e-3, 0}, DType::kF16);
  EXPECT_EQ(cosine_similarity_loss(x, t, {.reduction = Reduction::kNone}).to_vector(),
            (std::vector<double>{0, -1, -1}));
}

TEST(Losses, CosineOfAZeroVectorIsZero) {
  const Tensor x = zeros({1, 3}, DType::kF64);
  GradientTape tape(true);
  const Tensor loss = cosine_similarity_loss(x, ones({1, 3}, DType::kF64));
  EXPECT_EQ(loss.item<double>(), 0);
  for (const double g : tape.gradient(loss, x).to_vector()) EXPECT_TRUE(std::isfinite(g));
}

TEST(Losses, LogCoshNeverOverflows) {
  const Tensor far = log_cosh(vec64({1e6, -1e6}), vec64({0, 0}), {.reduction = Reduction::kNone});
  EXPECT_TRUE(near(far, full({2}, 1e6 - std::log(2), DType::kF64), 1e-12));
}

TEST(Losses, LogCoshOfSmallErrorsHolds16Bits) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Tensor x = from_vector({3}, {0.0078125, -0.0078125, 0.0009765625}, dtype);
    GradientTape tape;
    tape.watch(x);
    const Tensor losses = log_cosh(x, zeros({3}, dtype), {.reduction = Reduction::kNone});
    EXPECT_NEAR(cast(losses, DType::kF64).to_vector()[1], 3.05e-5, 1e-6) << dtype_name(dtype);
    EXPECT_NEAR(cast(tape.gradient(sum(losses), x), DType::kF64).to_vector()[2], 0.0009765625, 1e-5);
  }
}

TEST(Losses, CosineOfEqualVectorsOf16BitsIsMinusOne) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Tensor x = cast(arange(128, DType::kF32) * 0.013 + 0.1, dtype);
    const Tensor rows = reshape(x, {1, 128});
    EXPECT_EQ(cast(cosine_similarity_loss(rows, rows), DType::kF64).item<double>(), -1) << dtype_name(dtype);
  }
}

TEST(Losses, SmoothedBinaryTargetsMoveTowardsOneHalf) {
  const Tensor x = vec64({2, -1});
  const Tensor t = vec64({1, 0});
  EXPECT_TRUE(near(nn::binary_cross_entropy_from_logits(x, t, {.label_smoothing = 0.2}),
                   nn::binary_cross_entropy_from_logits(x, vec64({0.9, 0.1})), 1e-14));
}

TEST(Losses, IgnoredTokensOfSequencesDoNotCount) {
  const Tensor logits = from_vector({2, 3, 2}, {0, 1, 5, 0, 0, 2, 3, 0, 0, 0, 0, 0}, DType::kF64);
  const Tensor labels = from_vector({2, 3}, {0, -1, 1, -1, 1, -1}, DType::kI32);
  const double a = std::log1p(std::exp(1.0));
  const double b = std::log1p(std::exp(-2.0));
  const double c = std::log(2.0);
  const auto loss = [&](Reduction reduction, const Tensor& weights = {}) {
    return nn::sparse_softmax_cross_entropy(
        logits, labels, {.reduction = reduction, .sample_weights = weights, .ignore_index = -1});
  };
  EXPECT_NEAR(loss(Reduction::kMean).item<double>(), (a + b + c) / 3, 1e-14);
  EXPECT_TRUE(near(loss(Reduction::kNone), vec64({(a + b) / 3, c / 3}), 1e-14));
  EXPECT_NEAR(loss(Reduction::kSum).item<double>(), (a + b + c) / 3, 1e-14);
  const Tensor weights = vec64({1, 4});
  EXPECT_NEAR(loss(Reduction::kMean, weights).item<double>(), (a + b + 4 * c) / 3, 1e-14);
  EXPECT_NEAR(loss(Reduction::kWeightedMean, weights).item<double>(), (a + b + 4 * c) / 6, 1e-14);
}

TEST(Losses, ABatchOfIgnoredLabelsCostsNothing) {
  const Tensor logits = ones({2, 3}, DType::kF64);
  for (const Reduction reduction : {Reduction::kMean, Reduction::kWeightedMean, Reduction::kSum}) {
    GradientTape tape(true);
    const Tensor loss = nn::sparse_softmax_cross_entropy(logits, full({2}, 7, DType::kI64),
                                                         {.reduction = reduction, .ignore_index = 7});
    EXPECT_EQ(loss.item<double>(), 0);
    EXPECT_EQ(tape.gradient(loss, logits).to_vector(), std::vector<double>(6, 0));
  }
}

TEST(Losses, ABatchOfWeightZeroCostsNothing) {
  const Tensor x = from_vector({2, 3}, {0.2, 0.5, 0.3, 0.1, 0.6, 0.3});
  const Tensor target = from_vector({2, 3}, {1, 0, 0, 0, 0, 1});
  const nn::LossOptions options{.reduction = Reduction::kWeightedMean, .sample_weights = zeros({2})};
  const std::function<Tensor()> losses[] = {
      [&] { return nn::mean_squared_error(x, target, options); },
      [&] { return nn::huber(x, target, 1, options); }, [&] { return nn::kl_divergence(x, target, options); },
      [&] {
        return nn::binary_cross_entropy(
            x, target, {.reduction = Reduction::kWeightedMean, .sample_weights = zeros({2})});
      },
      [&] {
        return nn::softmax_cross_entropy(
            x, target, {.reduction = Reduction::kWeightedMean, .sample_weights = zeros({2})});
      }};
  for (const auto& loss_of : losses) {
    GradientTape tape(true);
    tape.watch(x);
    const Tensor loss = loss_of();
    EXPECT_EQ(loss.item<float>(), 0);
    EXPECT_EQ(tape.gradient(loss, x).to_vector(), std::vector<double>(6, 0));
  }
}

// The sum of 16,384 losses of 4.16 overflows f16, and bf16 can't represent a count of 1,001.
TEST(Losses, WeightedMeansOfManyRowsHold16Bits) {
  for (const auto& [dtype, rows] : {std::pair(DType::kF16, 16384), std::pair(DType::kBF16, 1001)}) {
    const Tensor logits = zeros({rows, 64}, dtype), labels = zeros({rows}, DType::kI64);
    const double mean = std::log(64.0);
    EXPECT_NEAR(cast(nn::sparse_softmax_cross_entropy(logits, labels, {.ignore_index = -100}), DType::kF64)
                    .item<double>(),
                mean, 0.004 * mean);
    const LossOptions weighted{.reduction = Reduction::kWeightedMean, .sample_weights = ones({rows}, dtype)};
    EXPECT_EQ(cast(nn::mean_squared_error(zeros({rows, 1}, dtype), full({rows, 1}, 3, dtype), weighted),
                   DType::kF64)
                  .item<double>(),
              9);
  }
}

TEST(Losses, OfProbabilitiesStayFiniteIn16Bits) {
  const std::vector<double> p = {1, 1, 0, 0, 0.25, 1e-5}, t = {1, 0, 1, 0, 1, 1};
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const auto losses = [&](DType computed) {
      // As the 16 bits hold them, in either dtype.
      const Tensor x = cast(from_vector({1, 6}, p, dtype), computed);
      const Tensor target = from_vector({1, 6}, t, computed);
      std::vector<double> all;
      for (const bool binary : {true, false}) {
        GradientTape tape(true);
        tape.watch(x);
        const Tensor loss = binary ? nn::binary_cross_entropy(x, target) : nn::kl_divergence(x, target);
        all.push_back(cast(loss, DType::kF64).item<double>());
        for (const double gradient : tape.gradient(loss, x).to_vector()) all.push_back(gradient);
      }
      return all;
    };
    const std::vector<double> got = losses(dtype), want = losses(DType::kF32);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::fabs(want[i]) > 65504) continue;  // f16 can't represent this gradient
      EXPECT_NEAR(got[i], want[i], 0.01 * std::fabs(want[i]) + 1e-6) << dtype_name(dtype) << " " << i;
    }
  }
}

TEST(Losses, OfProbabilitiesStayFiniteInMixedPrecision) {
  // A sigmoid that rounds to 1 in 16 bits.
  const Tensor x = from_vector({4, 1}, {30, -30, 9, 0}), target = from_vector({4, 1}, {1, 0, 0, 1});
  for (const isochron::Precision precision :
       {isochron::Precision::kMixedBf16, isochron::Precision::kMixedF16}) {
    CaptureOptions options;
    options.passes.precision = precision;
    auto step = capture(
        [](const Tensor& in, const Tensor& t) {
          const Tensor loss = nn::binary_cross_entropy(sigmoid(matmul(in, ones({1, 1}))), t);
          return std::pair(loss, gradients(loss, std::array{in})[0]);
        },
        options);
    const auto [loss, gradient] = step(x, target);
    EXPECT_NEAR(loss.item<float>(), (9 + std::log(2.0)) / 4, 0.7) << "p of 9 is known to 2^-9 of itself";
    for (const double value : gradient.to_vector()) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(Losses, RejectWrongCalls) {
  const Tensor whole = zeros({2, 3}, DType::kI32);
  EXPECT_ERROR(nn::mean_squared_error(whole, whole), ErrorCode::kDtypeMismatch, "must be floating, got i32");
  EXPECT_ERROR(nn::mean_absolute_error(whole, whole), ErrorCode::kDtypeMismatch, "must be floating");
  EXPECT_ERROR(nn::huber(whole, whole), ErrorCode::kDtypeMismatch, "must be floating");
  EXPECT_ERROR(nn::log_cosh(whole, whole), ErrorCode::kDtypeMismatch, "must be floating");
  EXPECT_ERROR(nn::sparse_softmax_cross_entropy(ones({2, 3}), from_vector({2}, {0, 3}, DType::kI64)),
               ErrorCode::kOutOfRange, "3");
  EXPECT_ERROR(nn::binary_cross_entropy(ones({2, 1}), ones({2})), ErrorCode::kShapeMismatch, "(2, 1)");
  const Tensor logits = ones({2, 3});
  const Tensor one_label = zeros({2}, DType::kI64);
  for (const double smoothing : {1.5, -0.1}) {
    EXPECT_ERROR(nn::sparse_softmax_cross_entropy(logits, one_label, {.label_smoothing = smoothing}),
                 ErrorCode::kInvalidArgument, "[0, 1]");
  }
  EXPECT_ERROR(nn::sparse_softmax_cross_entropy(logits, one_label, {.class_weights = ones({2})}),
               ErrorCode::kShapeMismatch, "class weights are f32(2)");
  EXPECT_ERROR(nn::softmax_cross_entropy(logits, logits, {.class_weights = ones({3}, DType::kF64)}),
               ErrorCode::kDtypeMismatch, "cast one");
  EXPECT_ERROR(nn::softmax_cross_entropy(logits, logits, {.ignore_index = 1}), ErrorCode::kInvalidArgument,
               "needs labels");
  EXPECT_ERROR(nn::sparse_softmax_cross_entropy(logits, ones({2})), ErrorCode::kDtypeMismatch, "integers");
  EXPECT_ERROR(nn::binary_cross_entropy(logits, logits, {.positive_weight = ones({2})}),
               ErrorCode::kShapeMismatch, "(2)");
  EXPECT_ERROR(nn::binary_cross_entropy(logits, logits, {.label_smoothing = -1}), ErrorCode::kInvalidArgument,
               "[0, 1]");
  EXPECT_ERROR(kl_divergence(ones({2}), ones({2})), ErrorCode::kShapeMismatch, "(N, ..., C)");
  EXPECT_ERROR(mean_squared_error(ones({32, 1}), ones({32})), ErrorCode::kShapeMismatch, "(32, 1)");
  EXPECT_ERROR(mean_absolute_error(scalar(1), scalar(2)), ErrorCode::kShapeMismatch, "(N, ...)");
  EXPECT_ERROR(mean_squared_error(ones({2}), ones({2}, DType::kF64)), ErrorCode::kDtypeMismatch, "f64");
  EXPECT_ERROR(huber(ones({2}), ones({2}), 0), ErrorCode::kInvalidArgument, "delta");
  EXPECT_ERROR(mean_squared_error(kPrediction, kTarget, {.sample_weights = vec64({1, 1, 1})}),
               ErrorCode::kShapeMismatch, "sample weights are (3)");
  EXPECT_ERROR(mean_squared_error(kPrediction, kTarget, {.reduction = Reduction::kWeightedMean}),
               ErrorCode::kInvalidArgument, "needs sample weights");
}

}  // namespace
}  // namespace isochron::nn
