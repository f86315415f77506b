#include "isochron/nn/losses/class_metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "isochron/core/base/rng.h"
#include "isochron/data/formats/npy.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

using Curve = AreaUnderCurve::Curve;

/// Three batches of unequal size, whose metrics Keras computed (tests/golden/README.md).
class MetricsOfKeras : public testing::Test {
 protected:
  Tensor array(const std::string& name) const { return file_.at(name); }
  /// Feeds `metric`, eagerly and captured, without and with sample weights, and compares with `name`.
  template <typename M>
  void check(M metric, const std::string& name, const Tensor& prediction, const Tensor& target) {
    auto step = capture([&](const Tensor& p, const Tensor& t, const Tensor& w) { metric.update(p, t, w); });
    auto plain_step = capture([&](const Tensor& p, const Tensor& t) { metric.update(p, t); });
    for (const bool captured : {false, true}) {
      for (const bool weighted : {false, true}) {
        metric.reset();
        int64_t begin = 0;
        for (const double size : array("sizes").to_vector()) {
          const int64_t count = static_cast<int64_t>(size);
          const auto part = [&](const Tensor& x) { return narrow(x, 0, begin, count); };
          const Tensor p = part(prediction);
          const Tensor t = part(target);
          const Tensor w = part(array("weights"));
          if (captured && weighted) {
            step(p, t, w);
          } else if (captured) {
            plain_step(p, t);
          } else {
            metric.update(p, t, weighted ? w : Tensor());
          }
          begin += count;
        }
        const double expected = array(name + (weighted ? ".weighted" : "")).item<double>();
        EXPECT_NEAR(metric.result(), expected, kTolerance * std::abs(expected))
            << name << captured << weighted;
      }
    }
  }

  static constexpr double kTolerance = 2e-7;  // Keras adds 1e-7 to denominators
  data::NpzFile file_ = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/metrics_keras.npz");
};

TEST(AreaUnderCurveTest, IsExactForPredictionsAtItsThresholds) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    std::vector<double> predictions, targets;
    for (int i = 0; i < 200; ++i) {
      predictions.push_back(i / 199.0);
      targets.push_back(i >= 100);
    }
    AreaUnderCurve area;
    area.update(from_vector({200}, predictions, dtype), from_vector({200}, targets, dtype), Tensor());
    EXPECT_EQ(area.result(), 1);
  }
  AreaUnderCurve coarse(Curve::kRoc, 11);
  coarse.update(from_vector({2}, {0.4, 0.5}), from_vector({2}, {0, 1}), Tensor());
  EXPECT_EQ(coarse.result(), 1);
}

TEST_F(MetricsOfKeras, YesOrNo) {
  const Tensor prediction = array("yes_or_no.prediction");
  const Tensor target = array("yes_or_no.target");
  const ClassMetricOptions options{.threshold = 0.4};
  check(BinaryAccuracy(0.4), "binary_accuracy", prediction, target);
  check(Precision(options), "precision", prediction, target);
  check(Recall(options), "recall", prediction, cast(target, DType::kBool));
  check(AreaUnderCurve(), "auc_roc", prediction, target);
  check(AreaUnderCurve(Curve::kPrecisionRecall), "auc_pr", prediction, target);
  check(AreaUnderCurve(Curve::kRoc, 5), "auc_roc_coarse", prediction, cast(target, DType::kI32));
  check(AreaUnderCurve(Curve::kPrecisionRecall, 5), "auc_pr_coarse", prediction, target);
}

TEST_F(MetricsOfKeras, Classes) {
  const Tensor scores = array("classes.prediction");
  const Tensor labels = array("labels");
  const auto average = [](Average a) { return ClassMetricOptions{.classes = 4, .average = a}; };
  check(CategoricalAccuracy(), "accuracy", scores, array("classes.target"));
  check(SparseCategoricalAccuracy(), "accuracy", scores, labels);
  check(TopKCategoricalAccuracy(2), "top2", scores, array("classes.target"));
  check(SparseTopKCategoricalAccuracy(2), "top2", scores, cast(labels, DType::kI32));
  check(FScore(average(Average::kMacro)), "f1_macro", scores, labels);
  check(FScore(average(Average::kMicro)), "f1_micro", scores, labels);
  check(FScore(average(Average::kWeighted)), "f1_weighted", scores, labels);
  check(FScore(average(Average::kMacro), 2), "f2_macro", scores, labels);
  FScore each(average(Average::kMacro));
  each.update(scores, labels);
  const std::vector<double> expected = array("f1_per_class").to_vector();
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(each.per_class()[i], expected[i], kTolerance);
}

TEST_F(MetricsOfKeras, Numbers) {
  const Tensor prediction = array("numbers.prediction");
  const Tensor target = array("numbers.target");
  check(MeanAbsoluteError(), "mae", prediction, target);
  check(MeanSquaredError(), "mse", prediction, target);
  check(RootMeanSquaredError(), "rmse", prediction, target);
  check(R2Score(2), "r2", prediction, target);
}

Tensor labels_of(const std::vector<double>& values) {
  return from_vector({static_cast<int64_t>(values.size())}, values, DType::kI64);
}

TEST(ClassMetrics, AveragesFollowTheirDefinitions) {
  // Predicted 0 0 1 2 1 of 4 classes; so was 0 1 1 2 2. Class 3 never occurs.
  const Tensor scores = from_vector({5, 4}, {9, 0, 0, 0, 9, 0, 0, 0, 0, 9, 0, 0, 0, 0, 9, 0, 0, 9, 0, 0});
  const Tensor labels = labels_of({0, 1, 1, 2, 2});
  const auto of = [&]<typename M>(M metric) {
    metric.update(scores, labels);
    return metric.result();
  };
  const auto options = [](Average average) { return ClassMetricOptions{.classes = 4, .average = average}; };
  EXPECT_DOUBLE_EQ(of(Precision(options(Average::kMacro))), (0.5 + 0.5 + 1) / 3);
  EXPECT_DOUBLE_EQ(of(Recall(options(Average::kMacro))), (1 + 0.5 + 0.5) / 3);
  EXPECT_DOUBLE_EQ(of(Precision(options(Average::kMicro))), 0.6);
  EXPECT_DOUBLE_EQ(of(Recall(options(Average::kWeighted))), (1 * 1 + 2 * 0.5 + 2 * 0.5) / 5);
  EXPECT_DOUBLE_EQ(of(FScore(options(Average::kMacro))), (2.0 / 3 + 0.5 + 2.0 / 3) / 3);
  Precision precision(options(Average::kMacro));
  precision.update(scores, labels);
  EXPECT_EQ(precision.per_class(), (std::vector<double>{0.5, 0.5, 1, 0}));
}

TEST(ClassMetrics, NothingPredictedIsZeroAndNothingAtAllNaN) {
  Precision precision;
  EXPECT_TRUE(std::isnan(precision.result()));
  EXPECT_TRUE(std::isnan(AreaUnderCurve().result()));
  precision.update(zeros({3}), zeros({3}));
  EXPECT_EQ(precision.result(), 0);
  precision.reset();
  EXPECT_TRUE(std::isnan(precision.result()));
}

TEST(ClassMetrics, SequencesCountEveryToken) {
  Recall recall({.classes = 2, .average = Average::kMicro});
  recall.update(from_vector({2, 2, 2}, {1, 0, 0, 1, 1, 0, 1, 0}),
                from_vector({2, 2}, {0, 1, 1, 1}, DType::kI64), from_vector({2}, {1, 3}));
  EXPECT_EQ(recall.result(), 2.0 / 8);
}

TEST(ClassMetrics, RocAreaIsTheShareOfPairsInOrder) {
  Rng rng(3);
  const int64_t count = 300;
  std::vector<double> p(count);
  std::vector<double> t(count);
  for (size_t i = 0; i < p.size(); ++i) {
    t[i] = static_cast<double>(rng.below(2));
    p[i] = static_cast<double>(rng.below(40) + (t[i] > 0 ? 10 : 0)) / 50;  // on the grid, with ties
  }
  double ordered = 0;
  double pairs = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    for (size_t j = 0; j < p.size(); ++j) {
      if (t[i] != 1 || t[j] != 0) continue;
      pairs += 1;
      ordered += p[i] > p[j] ? 1 : p[i] == p[j] ? 0.5 : 0;
    }
  }
  AreaUnderCurve area(Curve::kRoc, 101);
  area.update(from_vector({count}, p, DType::kF64), from_vector({count}, t));
  EXPECT_NEAR(area.result(), ordered / pairs, 1e-12);
}

TEST(ClassMetrics, PerfectAndInvertedPredictionsBoundTheArea) {
  const Tensor truth = from_vector({4}, {0, 0, 1, 1});
  AreaUnderCurve roc;
  roc.update(from_vector({4}, {0, 0.1, 0.9, 1}), truth);
  EXPECT_DOUBLE_EQ(roc.result(), 1);
  roc.reset();
  roc.update(from_vector({4}, {1, 0.9, 0.1, 0}), truth);
  EXPECT_DOUBLE_EQ(roc.result(), 0);
  AreaUnderCurve curve(Curve::kPrecisionRecall);
  curve.update(from_vector({4}, {0, 0.1, 0.9, 1}), truth);
  EXPECT_DOUBLE_EQ(curve.result(), 1);
}

TEST(ClassMetrics, LogitsAreNoProbabilities) {
  AreaUnderCurve area;
  for (const double wrong : {1.5, -0.1, std::nan("")}) {
    EXPECT_ERROR(area.update(from_vector({2}, {0.5, wrong}), ones({2})), ErrorCode::kOutOfRange, "-1");
  }
  area.reset();
  area.update(from_vector({2}, {1.0000001, 0}), from_vector({2}, {1, 0}));
  EXPECT_EQ(area.result(), 1);
}

TEST(ClassMetrics, RejectWrongCalls) {
  Precision classes({.classes = 3});
  EXPECT_ERROR(classes.update(ones({2, 4}), labels_of({0, 1})), ErrorCode::kShapeMismatch, "(N, ..., 3)");
  EXPECT_ERROR(classes.update(ones({2, 3}), ones({2})), ErrorCode::kDtypeMismatch, "i32 or i64");
  EXPECT_ERROR(classes.update(ones({2, 3}), labels_of({0, 3})), ErrorCode::kOutOfRange, "3");
  EXPECT_ERROR(Recall().update(ones({2, 1}), ones({2})), ErrorCode::kShapeMismatch, "(2, 1)");
  EXPECT_ERROR(Recall().update(ones({2}), ones({2}), ones({3})), ErrorCode::kShapeMismatch, "sample weights");
  EXPECT_ERROR(Recall({.classes = 1}), ErrorCode::kInvalidArgument, "at least 2");
  EXPECT_ERROR(FScore({}, 0), ErrorCode::kInvalidArgument, "beta");
  EXPECT_ERROR(AreaUnderCurve(Curve::kRoc, 2), ErrorCode::kInvalidArgument, ">= 3");
  EXPECT_ERROR(SparseTopKCategoricalAccuracy(0), ErrorCode::kInvalidArgument, "k must be");
  EXPECT_ERROR(R2Score(0), ErrorCode::kInvalidArgument, "outputs");
  EXPECT_ERROR(R2Score(2).update(ones({3}), ones({3})), ErrorCode::kShapeMismatch, "(N, 2)");
}

}  // namespace
}  // namespace isochron::nn
