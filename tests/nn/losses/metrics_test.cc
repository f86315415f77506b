#include "isochron/nn/losses/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "isochron/graph/step/captured.h"
#include "isochron/nn/losses/class_metrics.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

const Tensor kScores = from_vector({4, 3}, {0, 2, 1, 5, 4, 3, 0, 0, 1, 1, 0, 0});  // largest: 1, 0, 2, 0

Tensor labels(const std::vector<double>& values) {
  return from_vector({static_cast<int64_t>(values.size())}, values, DType::kI64);
}

TEST(Metrics, AccuracyCountsRows) {
  SparseCategoricalAccuracy accuracy;
  EXPECT_TRUE(std::isnan(accuracy.result()));
  accuracy.update(kScores, labels({1, 0, 2, 2}));
  EXPECT_EQ(accuracy.result(), 0.75);
  accuracy.update(kScores, labels({0, 1, 1, 1}));
  EXPECT_EQ(accuracy.result(), 0.375);
  accuracy.reset();
  accuracy.update(kScores, labels({1, 0, 2, 2}), from_vector({4}, {1, 1, 0, 2}));
  EXPECT_EQ(accuracy.result(), 0.5);
}

TEST(Metrics, AccuracyLeavesIgnoredLabelsOut) {
  const Tensor scores = from_vector({2, 3, 2}, {1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 1});  // 0 0 1, 0 1 1
  const Tensor labels = from_vector({2, 3}, {0, 1, -100, 0, -100, 1}, DType::kI64);
  SparseCategoricalAccuracy accuracy(-100), weighted(-100);
  accuracy.update(scores, labels);
  EXPECT_DOUBLE_EQ(accuracy.result(), 3. / 4);
  weighted.update(scores, labels, from_vector({2}, {1, 3}));
  EXPECT_DOUBLE_EQ(weighted.result(), (1. + 3 + 3) / (1 + 1 + 3 + 3));
}

TEST(Metrics, ErrorsOverUnequalBatches) {
  Mean mean;
  MeanAbsoluteError absolute;
  RootMeanSquaredError root;
  const auto update = [&](const Tensor& prediction) {
    const Tensor target = zeros_like(prediction);
    mean.update(prediction);
    absolute.update(prediction, target);
    root.update(prediction, target);
  };
  update(from_vector({3, 1}, {1, -2, 3}));
  update(from_vector({1, 1}, {-6}));
  EXPECT_EQ(mean.result(), -1);
  EXPECT_EQ(absolute.result(), 3);
  EXPECT_EQ(root.result(), std::sqrt(12.5));
}

TEST(Metrics, SampleWeightsReachEveryElementOfASample) {
  Mean mean;
  mean.update(from_vector({2, 2}, {1, 3, 10, 20}), from_vector({2}, {1, 0}));
  EXPECT_EQ(mean.result(), 2);
}

TEST(Metrics, SumWhatNarrowDtypesCantHold) {
  Mean mean;
  mean.update(cast(full({1000}, 3), DType::kBF16));  // 3000 isn't one of them
  EXPECT_EQ(mean.result(), 3);
  Mean whole;
  whole.update(full({3}, 0x60000000, DType::kI32));
  EXPECT_EQ(whole.result(), 0x60000000);
}

TEST(Metrics, BelongToTheCapturedStep) {
  SparseCategoricalAccuracy accuracy;
  Mean loss;
  auto step = capture([&](const Tensor& scores, const Tensor& truth) {
    accuracy.update(scores, truth);
    loss.update(scores);
  });
  for (int i = 0; i < 3; ++i) step(kScores, labels({1, 0, 0, 1}));
  EXPECT_EQ(accuracy.result(), 0.5);
  EXPECT_NEAR(loss.result(), 17.0 / 12, 1e-12);
  accuracy.reset();
  step(kScores, labels({1, 0, 2, 0}));
  EXPECT_EQ(accuracy.result(), 1);
  EXPECT_EQ(step.plan_count(), 1u);
  EXPECT_EQ(step.plan_report().updates_copied, 0);
}

TEST(Metrics, SumManyBatchesWithoutLosingDigits) {
  Mean mean;
  auto step = capture([&](const Tensor& x) { mean.update(x); });
  const Tensor x = full({1}, 0.1);
  for (int i = 0; i < 100000; ++i) step(x);
  EXPECT_NEAR(mean.result(), static_cast<double>(0.1f), 1e-12);
}

TEST(Metrics, TopKCountsLargerScoresOnly) {
  const Tensor scores = from_vector({3, 4}, {1, 2, 3, 4, 5, 5, 5, 0, INFINITY, 1, NAN, -INFINITY});
  const auto share = [&](int64_t k, const std::vector<double>& truth) {
    SparseTopKCategoricalAccuracy top(k);
    top.update(scores, labels(truth));
    return top.result();
  };
  EXPECT_EQ(share(1, {3, 2, 1}), 2.0 / 3) << "ties are all first";
  EXPECT_EQ(share(2, {2, 3, 1}), 2.0 / 3);
  EXPECT_EQ(share(4, {0, 3, 2}), 2.0 / 3) << "NaN is never right";
  EXPECT_EQ(share(4, {0, 3, 3}), 2.0 / 3) << "nor is -infinity";
}

TEST(Metrics, BinaryAccuracyTakesAnyKindOfTarget) {
  const Tensor p = from_vector({2, 2}, {0.2, 0.7, 0.5, 0.9});
  for (const DType dtype : {DType::kF32, DType::kBool, DType::kI64}) {
    BinaryAccuracy accuracy;
    accuracy.update(p, from_vector({2, 2}, {0, 1, 1, 0}, dtype));
    EXPECT_EQ(accuracy.result(), 0.5);
  }
}

TEST(Metrics, BinaryAccuracyTakesAnyKindOfPrediction) {
  for (const DType dtype : {DType::kF64, DType::kF16, DType::kBool, DType::kI64, DType::kU8}) {
    const Tensor p = from_vector({2, 2}, {0, 1, 1, 1}, dtype), t = from_vector({2, 2}, {0, 1, 1, 0});
    BinaryAccuracy accuracy;
    accuracy.update(p, t);
    EXPECT_EQ(accuracy.result(), 0.75) << dtype_name(dtype);
    Precision precision;
    precision.update(p, t);
    EXPECT_NEAR(precision.result(), 2.0 / 3, 1e-6) << dtype_name(dtype);
  }
}

TEST(Metrics, R2KeepsItsDigitsAwayFromZero) {
  R2Score score;
  EXPECT_TRUE(std::isnan(score.result()));
  auto step = capture([&](const Tensor& p, const Tensor& t) { score.update(p, t); });
  double errors = 0;
  double sum = 0;
  std::vector<double> all;
  for (int batch = 0; batch < 50; ++batch) {
    std::vector<double> t;
    std::vector<double> p;
    for (int i = 0; i < 8; ++i) {
      t.push_back((batch * 8 + i) % 17);
      p.push_back(t.back() + (i % 3) - 1);
      errors += (p[static_cast<size_t>(i)] - t.back()) * (p[static_cast<size_t>(i)] - t.back());
      sum += t.back();
      all.push_back(t.back());
      t.back() += 1e8;
      p.back() += 1e8;
    }
    step(from_vector({8}, p, DType::kF64), from_vector({8}, t, DType::kF64));
  }
  double deviations = 0;
  for (const double v : all) deviations += (v - sum / 400) * (v - sum / 400);
  EXPECT_NEAR(score.result(), 1 - errors / deviations, 1e-9);
}

TEST(Metrics, R2OfConstantTargets) {
  R2Score score(2);
  score.update(from_vector({2, 2}, {1, 5, 1, 6}), from_vector({2, 2}, {1, 4, 1, 4}));
  EXPECT_EQ(score.result(), 0.5) << "one without error, one with";
}

TEST(Metrics, R2OfNaNIsNaN) {
  for (const bool in_target : {false, true}) {
    const Tensor some = from_vector({3}, {1, 2, 4}, DType::kF64);
    const Tensor bad = from_vector({3}, {1, std::nan(""), 4}, DType::kF64);
    R2Score score;
    score.update(in_target ? some : bad, in_target ? bad : some);
    EXPECT_TRUE(std::isnan(score.result())) << in_target;
  }
}

TEST(Metrics, R2OfConstantTargetsWhoseMeanIsRounded) {
  // Three times 0.1, divided by 3, is another number.
  const Tensor target = full({3}, 0.1, DType::kF64);
  R2Score off, exact;
  for (int batch = 0; batch < 2; ++batch) {
    off.update(full({3}, 0.2, DType::kF64), target);
    exact.update(target, target);
  }
  EXPECT_EQ(off.result(), 0);
  EXPECT_EQ(exact.result(), 1);
}

TEST(Metrics, SquareWhatNarrowDtypesCantHold) {
  const struct {
    DType dtype;
    double off;
  } cases[] = {{DType::kF16, 300}, {DType::kBF16, 300}, {DType::kI32, 60000}};
  for (const auto& [dtype, off] : cases) {
    MeanSquaredError squared;
    RootMeanSquaredError root;
    MeanAbsoluteError absolute;
    const Tensor prediction = full({2}, off, dtype), target = zeros({2}, dtype);
    squared.update(prediction, target);
    root.update(prediction, target);
    absolute.update(prediction, target);
    const double held = prediction.to_vector()[0];
    EXPECT_EQ(squared.result(), held * held) << dtype_name(dtype);
    EXPECT_EQ(root.result(), held) << dtype_name(dtype);
    EXPECT_EQ(absolute.result(), held) << dtype_name(dtype);
  }
  MeanAbsoluteError far;
  far.update(full({1}, 2e9, DType::kI32), full({1}, -2e9, DType::kI32));
  EXPECT_EQ(far.result(), 4e9);
}

TEST(Metrics, RejectWrongCalls) {
  SparseCategoricalAccuracy accuracy;
  EXPECT_ERROR(accuracy.update(kScores, labels({1, 2})), ErrorCode::kShapeMismatch, "labels (N, ...)");
  EXPECT_ERROR(accuracy.update(kScores, ones({4})), ErrorCode::kDtypeMismatch, "i32 or i64");
  EXPECT_ERROR(MeanAbsoluteError().update(ones({3, 1}), ones({3})), ErrorCode::kShapeMismatch, "(3, 1)");
  EXPECT_ERROR(Mean().update(ones({3}), ones({2})), ErrorCode::kShapeMismatch, "sample weights are (2)");
  auto step = capture([&](const Tensor& x) {
    accuracy.result();
    return x;
  });
  EXPECT_ERROR(step(ones({1})), ErrorCode::kCaptureViolation, "result()");
}

}  // namespace
}  // namespace isochron::nn
