#include "isochron/nn/losses/margin_losses.h"

#include <cmath>
#include <limits>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/softmax.h"
#include "nn/losses/loss_checks.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::nn {
namespace {

class MarginLossesOfPyTorch : public GoldenLosses {
 protected:
  MarginLossesOfPyTorch() : GoldenLosses("losses_torch.npz") {}
};

TEST_F(MarginLossesOfPyTorch, OfElements) {
  const Tensor sign = array("m.sign"), first = array("m.x"), second = array("m.y");
  check_over_all("m.hinge_embedding", "m.x", LossOptions{}, [&](const Tensor& x, const auto& options) {
    return hinge_embedding(x, sign, 1.5, options);
  });
  check_over_all("m.ranking", "m.x", LossOptions{}, [&](const Tensor& x, const auto& options) {
    return margin_ranking(x, second, sign, 0, options);
  });
  check_over_all("m.ranking_second", "m.y", LossOptions{}, [&](const Tensor& y, const auto& options) {
    return margin_ranking(first, y, sign, 0.5, options);
  });
  check_over_all("m.soft", "m.x", LossOptions{},
                 [&](const Tensor& x, const auto& options) { return soft_margin(x, sign, options); });
}

TEST_F(MarginLossesOfPyTorch, OfEmbeddings) {
  const Tensor anchor = array("m.x"), positive = array("m.y"), negative = array("m.z");
  check_over_all("m.cosine", "m.rows", LossOptions{}, [&](const Tensor& x, const auto& options) {
    return cosine_embedding(x, array("m.others"), array("m.row_sign"), 0.1, options);
  });
  check_over_all("m.triplet", "m.x", TripletMarginOptions{.margin = 1.2},
                 [&](const Tensor& x, const auto& o) { return triplet_margin(x, positive, negative, o); });
  check_over_all("m.triplet_positive", "m.y", TripletMarginOptions{.eps = 0.01, .swap = true},
                 [&](const Tensor& y, const auto& o) { return triplet_margin(anchor, y, negative, o); });
  check_over_all("m.triplet_negative", "m.z", TripletMarginOptions{.swap = true},
                 [&](const Tensor& z, const auto& o) { return triplet_margin(anchor, positive, z, o); });
}

TEST_F(MarginLossesOfPyTorch, OfClasses) {
  const Tensor labels = array("m.labels"), weights = array("m.weights"), several = array("m.several");
  const auto loss = [&](const Tensor& x, const auto& options) { return multi_margin(x, labels, options); };
  check_over_all("m.multi", "m.rows", MultiMarginOptions{}, loss);
  check_over_all("m.multi_all", "m.rows",
                 MultiMarginOptions{.power = 2, .margin = 0.7, .class_weights = weights}, loss);
  // PyTorch's multilabel_soft_margin_loss, as docs/from-pytorch.md says.
  check("m.multi_label.mean", "m.rows",
        [&](const Tensor& x) { return nn::binary_cross_entropy_from_logits(x, several); });
  check("m.multi_label.none", "m.rows", [&](const Tensor& x) {
    return nn::binary_cross_entropy_from_logits(x, several, {.reduction = Reduction::kNone});
  });
  check("m.multi_label_weighted.mean", "m.rows", [&](const Tensor& x) {
    return reduce_losses(weights * isochron::binary_cross_entropy_from_logits(x, several), {});
  });
}

class MarginLossesOfKeras : public GoldenLosses {
 protected:
  MarginLossesOfKeras() : GoldenLosses("losses_keras.npz") {}
};

TEST_F(MarginLossesOfKeras, Agree) {
  const LossOptions rows{.reduction = Reduction::kNone};
  check("hinge", "x", [&](const Tensor& x) { return hinge(x, array("sign"), rows); });
  check("hinge_binary", "x", [&](const Tensor& x) { return hinge(x, array("binary"), rows); });
  check("squared_hinge", "x", [&](const Tensor& x) { return squared_hinge(x, array("sign"), rows); });
  check("categorical_hinge", "x",
        [&](const Tensor& x) { return categorical_hinge(x, array("classes"), rows); });
}

TEST(MarginLosses, HaveTheGradientOfTheirFormula) {
  const Tensor x = from_vector({2, 3}, {0.3, -1.2, 0.8, 2.1, -0.4, 0.1}, DType::kF64);
  const Tensor y = from_vector({2, 3}, {-0.7, 0.2, 1.1, 0.4, 0.5, -0.9}, DType::kF64);
  const Tensor z = from_vector({2, 3}, {0.6, 0.9, -0.5, 1.4, -0.2, 0.7}, DType::kF64);
  const Tensor sign = from_vector({2, 3}, {1, -1, -1, 1, 1, -1}, DType::kF64);
  const Tensor one_hot = from_vector({2, 3}, {0, 1, 0, 0, 0, 1}, DType::kF64);
  const Tensor row_sign = vec64({1, -1}), labels = from_vector({2}, {1, 2}, DType::kI64);
  expect_gradient([&](const Tensor& in) { return hinge(in, sign); }, x);
  expect_gradient([&](const Tensor& in) { return squared_hinge(in, sign); }, x);
  expect_gradient([&](const Tensor& in) { return categorical_hinge(in, one_hot); }, x);
  expect_gradient([&](const Tensor& in) { return hinge_embedding(in, sign); }, x);
  expect_gradient([&](const Tensor& in) { return margin_ranking(in, y, sign, 0.4); }, x);
  expect_gradient([&](const Tensor& in) { return cosine_embedding(in, y, row_sign, -0.9); }, x);
  expect_gradient([&](const Tensor& in) { return cosine_embedding(x, in, row_sign, -0.9); }, y);
  expect_gradient([&](const Tensor& in) { return triplet_margin(in, y, z); }, x);
  expect_gradient([&](const Tensor& in) { return triplet_margin(x, in, z, {.swap = true}); }, y);
  expect_gradient([&](const Tensor& in) { return soft_margin(in, sign); }, x);
  expect_gradient([&](const Tensor& in) { return multi_margin(in, labels, {.power = 2}); }, x);
}

TEST(MarginLosses, HaveNoGradientAtTheirKinks) {
  const Tensor x = vec64({1, -1});
  const auto of_hinge = [&](const Tensor& in) { return hinge(in, x); };
  const auto of_ranking = [&](const Tensor& in) { return margin_ranking(in, x, vec64({1, -1})); };
  EXPECT_EQ(loss_and_gradient(of_hinge, x), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(loss_and_gradient(of_ranking, x), (std::vector<double>{0, 0, 0}));
}

TEST(MarginLosses, TiedClassesShareTheGradient) {
  const Tensor x = from_vector({1, 3}, {1, 1, 0}, DType::kF64);
  const Tensor target = from_vector({1, 3}, {0, 0, 1}, DType::kF64);
  EXPECT_EQ(loss_and_gradient([&](const Tensor& in) { return categorical_hinge(in, target); }, x),
            (std::vector<double>{2, 0.5, 0.5, -1}));
}

TEST(MarginLosses, EqualEmbeddingsHaveAGradientOfZero) {
  const Tensor x = from_vector({1, 2}, {0.5, -0.25}, DType::kF64);
  EXPECT_EQ(loss_and_gradient([&](const Tensor& in) { return triplet_margin(in, x, x, {.eps = 0}); }, x),
            (std::vector<double>{1, 0, 0}));
  const Tensor none = zeros({1, 2}, DType::kF64);
  for (const double value : loss_and_gradient(
           [&](const Tensor& in) { return cosine_embedding(in, x, full({1}, -1, DType::kF64)); }, none)) {
    EXPECT_EQ(value, 0);
  }
}

TEST(MarginLosses, AnInfiniteScoreOfALabelIsNoNaN) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto loss = [](double own, const MultiMarginOptions& options) {
    return loss_and_gradient(
        [&](const Tensor& in) { return multi_margin(in, zeros({1}, DType::kU8), options); },
        from_vector({1, 2}, {own, 0}, DType::kF64));
  };
  for (const int power : {1, 2})
    EXPECT_EQ(loss(infinity, {.power = power}), (std::vector<double>{0, 0, 0})) << power;
  EXPECT_EQ(loss(-infinity, {}), (std::vector<double>{infinity, -0.5, 0.5}));
}

TEST(MarginLosses, SoftMarginNeverOverflows) {
  const Tensor x = vec64({1e4, -1e4, 0});
  const Tensor losses = soft_margin(x, vec64({-1, -1, 1}), {.reduction = Reduction::kNone});
  EXPECT_TRUE(near(losses, vec64({1e4, 0, std::log(2.0)}), 1e-15));
}

// The square of 300 overflows f16, and bf16 rounds 256 + 1.
TEST(MarginLosses, Hold16Bits) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const Tensor x = cast(vec64({-300, 0, 0, 0}), dtype), one = ones({4}, dtype);
    const auto check = [&](const Tensor& loss, double expected) {
      EXPECT_EQ(loss.dtype(), dtype);
      EXPECT_NEAR(cast(loss, DType::kF64).item<double>(), expected,
                  expected * (dtype == DType::kF16 ? 1e-3 : 4e-3));
    };
    check(squared_hinge(x, one), (301.0 * 301 + 3) / 4);
    check(squared_hinge(x, one, {.reduction = Reduction::kWeightedMean, .sample_weights = one}),
          (301.0 * 301 + 3) / 4);
    check(margin_ranking(x, cast(vec64({256, 0, 0, 0}), dtype), one, 0.5), (556.5 + 1.5) / 4);
    const Tensor rows = cast(from_vector({1, 3}, {300, -300, 200}), dtype);
    check(multi_margin(rows, from_vector({1}, {2}, DType::kI64), {.power = 2}), 101.0 * 101 / 3);
    check(triplet_margin(rows, -rows, zeros({1, 3}, dtype)), std::sqrt(220000.0) + 1);
    const Tensor small = full({1, 256}, 1e-3, dtype);
    check(triplet_margin(small, small, zeros({1, 256}, dtype), {.margin = 0.02}),
          0.02 + 1.6e-5 - 16 * (1e-6 + cast(small, DType::kF64).to_vector()[0]));
  }
}

TEST(MarginLosses, SumMoreThan16BitsCount) {
  const Tensor x = zeros({1001, 1}, DType::kBF16), one = ones({1001, 1}, DType::kBF16);
  EXPECT_EQ(cast(hinge(x, one), DType::kF64).item<double>(), 1);
  EXPECT_EQ(cast(hinge(x, one, {.reduction = Reduction::kSum}), DType::kF64).item<double>(), 1000);
}

TEST(MarginLosses, WeighSamples) {
  const Tensor x = from_vector({2, 2}, {0, 0, 3, -1}, DType::kF64), one = ones({2, 2}, DType::kF64);
  const auto loss = [&](Reduction reduction) {
    return hinge(x, one, {.reduction = reduction, .sample_weights = vec64({1, 0.5})});
  };
  EXPECT_EQ(loss(Reduction::kNone).to_vector(), (std::vector<double>{1, 0.5}));
  EXPECT_EQ(loss(Reduction::kMean).item<double>(), 0.75);
  EXPECT_EQ(loss(Reduction::kWeightedMean).item<double>(), 1);
}

TEST(MarginLosses, RejectWrongCalls) {
  const Tensor x = ones({2, 3}), rows = ones({2}), whole = zeros({2, 3}, DType::kI32);
  EXPECT_ERROR(hinge(x, rows), ErrorCode::kShapeMismatch,
               "[hinge] predictions are f32(2, 3), targets f32(2)");
  EXPECT_ERROR(hinge(x, Tensor()), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(hinge(zeros({0, 3}), zeros({0, 3})), ErrorCode::kInvalidArgument, "the batch is empty");
  EXPECT_ERROR(squared_hinge(whole, whole), ErrorCode::kDtypeMismatch, "[squared_hinge]");
  EXPECT_ERROR(squared_hinge(x, ones({2, 3}, DType::kF16)), ErrorCode::kDtypeMismatch, "cast one");
  EXPECT_ERROR(categorical_hinge(rows, rows), ErrorCode::kShapeMismatch, "(N, ..., C)");
  EXPECT_ERROR(hinge_embedding(x, rows), ErrorCode::kShapeMismatch, "[hinge_embedding]");
  EXPECT_ERROR(margin_ranking(x, x, rows), ErrorCode::kShapeMismatch, "[margin_ranking]");
  EXPECT_ERROR(cosine_embedding(x, x, x), ErrorCode::kShapeMismatch, "targets f32(2, 3)");
  EXPECT_ERROR(cosine_embedding(x, x, ones({2}, DType::kI32)), ErrorCode::kDtypeMismatch, "cast one");
  EXPECT_ERROR(triplet_margin(x, x, ones({2, 1})), ErrorCode::kShapeMismatch, "[triplet_margin]");
  EXPECT_ERROR(triplet_margin(x, x, x, {.margin = 0}), ErrorCode::kInvalidArgument, "the margin must be > 0");
  EXPECT_ERROR(soft_margin(x, rows), ErrorCode::kShapeMismatch, "[soft_margin]");
  const Tensor labels = zeros({2}, DType::kI64);
  EXPECT_ERROR(multi_margin(x, rows), ErrorCode::kDtypeMismatch, "labels must be integers");
  EXPECT_ERROR(multi_margin(x, zeros({3}, DType::kI64)), ErrorCode::kShapeMismatch, "one label for each row");
  EXPECT_ERROR(multi_margin(x, from_vector({2}, {0, 3}, DType::kI64)), ErrorCode::kOutOfRange, "3");
  EXPECT_ERROR(multi_margin(x, labels, {.power = 3}), ErrorCode::kInvalidArgument, "1 or 2");
  EXPECT_ERROR(multi_margin(x, labels, {.class_weights = rows}), ErrorCode::kShapeMismatch, "class weights");
  EXPECT_ERROR(hinge(x, x, {.sample_weights = ones({2}, DType::kF64)}), ErrorCode::kDtypeMismatch, "f64(2)");
  EXPECT_ERROR(hinge(x, x, {.sample_weights = ones({3})}), ErrorCode::kShapeMismatch, "sample weights");
}

}  // namespace
}  // namespace isochron::nn
