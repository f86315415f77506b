// What isn't finite is seen by whoever it reaches. (Values and gradients: the generated tests of the row and
// tests/nn/models/golden_models_test.cc.)
#include "isochron/ops/attention/attention.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/expect_error.h"
#include "support/near.h"
#include "support/vector_targets.h"

namespace isochron {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// One query of width 1 over two keys, whose values are 1 and 3.
double attended(double query, double first_key, DType dtype) {
  const Tensor q = from_vector({1, 1, 1, 1}, {query}, dtype);
  const Tensor k = from_vector({1, 2, 1, 1}, {first_key, 0}, dtype);
  const Tensor v = from_vector({1, 2, 1, 1}, {1, 3}, dtype);
  return attention(q, k, v).to_vector()[0];
}

TEST(Attention, ScoresThatArentFiniteShowInTheResult) {
  for_each_target([] {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      EXPECT_NEAR(attended(0, 1, dtype), 2, 1e-6);
      EXPECT_TRUE(std::isnan(attended(kNaN, 1, dtype)));
      EXPECT_TRUE(std::isnan(attended(1, kNaN, dtype)));
      EXPECT_TRUE(std::isnan(attended(1, kInfinity, dtype)));
    }
    EXPECT_TRUE(std::isnan(attended(1e30, 1e30, DType::kF32))) << "the score overflows";
    EXPECT_TRUE(std::isnan(attended(1e30, -1e30, DType::kF32))) << "downwards as well";
  });
}

TEST(Attention, ANaNReachesItsOwnRowAlone) {
  for_each_target([] {
    constexpr int64_t kLength = 70, kHeads = 2, kWidth = 16;
    Tensor q = random_normal({1, kLength, kHeads, kWidth});
    const Tensor k = random_normal(q.shape()), v = random_normal(q.shape());
    constexpr int64_t kBroken = (66 * kHeads + 1) * kWidth;  // query 66 of head 1
    q.span<float>()[kBroken] = NAN;
    const std::vector<double> y = attention(q, k, v, {.causal = true}).to_vector();
    for (size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(std::isnan(y[i]), i / kWidth == kBroken / kWidth) << i;
    }
  });
}

/// The mask in which each query sees the keys that a causal one with S - T more keys shows it.
Tensor causal_mask(int64_t queries, int64_t keys) {
  std::vector<double> seen;
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) seen.push_back(j <= i + keys - queries ? 1 : 0);
  }
  return from_vector({queries, keys}, seen, DType::kBool);
}

TEST(AttentionMask, SaysWhatTheOptionsSay) {
  const Tensor q = random_normal({2, 5, 4, 8}), k = random_normal({2, 7, 2, 8}),
               v = random_normal({2, 7, 2, 8});
  const Tensor keys = from_vector({2, 7}, {1, 1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1, 1, 1}, DType::kBool);
  const auto expect_same = [&](const AttentionOptions& a, const AttentionOptions& b) {
    EXPECT_TRUE(near(attention(q, k, v, a), attention(q, k, v, b), 1e-5, 1e-6));
  };
  expect_same({.causal = true}, {.mask = causal_mask(5, 7)});
  expect_same({.key_mask = keys}, {.mask = reshape(keys, {2, 1, 1, 7})});
  expect_same({.causal = true, .key_mask = keys}, {.key_mask = keys, .mask = causal_mask(5, 7)});
  expect_same({.causal = true, .key_mask = keys}, {.causal = true, .mask = reshape(keys, {2, 1, 1, 7})});
  expect_same({.scale = 2.0}, {.scale = 2.0, .mask = zeros({1})});
  const Tensor qkv = random_normal({2, 6, 8, 4});
  EXPECT_TRUE(near(packed_attention(qkv, 4, 2, {.causal = true}),
                   packed_attention(qkv, 4, 2, {.mask = causal_mask(6, 6)}), 1e-5, 1e-6));
}

TEST(AttentionMask, AQueryThatSeesNothingGivesZeroAndFiniteGradients) {
  const Tensor q = random_normal({1, 3, 1, 2}), k = random_normal(q.shape()), v = random_normal(q.shape());
  const Tensor bias = from_vector({3, 3}, {0, 1, 2, -kInfinity, -kInfinity, -kInfinity, 0, -kInfinity, 1});
  for (const Tensor& mask : {bias, bias > -1.0}) {
    GradientTape tape;
    const Tensor y = attention(q, k, v, {.mask = mask});
    EXPECT_EQ(y.to_vector()[2], 0);
    EXPECT_EQ(y.to_vector()[3], 0);
    EXPECT_NE(y.to_vector()[0], 0);
    for (const Tensor& gradient : tape.gradient(sum(y * y), {q, k, v})) {
      for (const double g : gradient.to_vector()) EXPECT_TRUE(std::isfinite(g));
    }
  }
}

TEST(AttentionMask, HalvesAndCapturesComputeInF32) {
  const Tensor q = random_normal({2, 4, 2, 8}), bias = random_normal({2, 4, 4});
  const auto in = [&](DType dtype) {
    const Tensor x = cast(q, dtype);
    return attention(x, x, x, {.mask = cast(bias, dtype)});
  };
  EXPECT_EQ(in(DType::kBF16).dtype(), DType::kBF16);
  EXPECT_TRUE(near(cast(in(DType::kBF16), DType::kF32), in(DType::kF32), 3e-2, 3e-2));
  auto step =
      capture([&](const Tensor& x, const Tensor& mask) { return attention(x, x, x, {.mask = mask}); });
  EXPECT_TRUE(near(step(q, bias), in(DType::kF32), 1e-5, 1e-6));
}

TEST(AttentionMask, OfAnotherShapeOrDtypeIsRefused) {
  const Tensor q = zeros({2, 3, 4, 8}), k = zeros({2, 5, 2, 8});
  const auto with = [&](const Tensor& mask) { return attention(q, k, k, {.mask = mask}); };
  EXPECT_ERROR(with(zeros({3, 4})), ErrorCode::kShapeMismatch,
               "the mask, f32(3, 4), must broadcast to (samples, heads, queries, keys), (2, 4, 3, 5)");
  EXPECT_ERROR(with(zeros({1, 2, 4, 3, 5})), ErrorCode::kShapeMismatch, "must broadcast");
  EXPECT_ERROR(with(zeros({3, 5}, DType::kF64)), ErrorCode::kDtypeMismatch,
               "the mask must be bool (false hides a key) or f32 (added to the scores), got f64(3, 5)");
  EXPECT_ERROR(with(zeros({3, 5}, DType::kI64)), ErrorCode::kDtypeMismatch, "got i64(3, 5)");
}

}  // namespace
}  // namespace isochron
