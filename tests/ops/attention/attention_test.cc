// What isn't finite is seen by whoever it reaches. (Values and gradients: the generated tests of the row and
// tests/nn/models/golden_models_test.cc.)
#include "isochron/ops/attention/attention.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
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

}  // namespace
}  // namespace isochron
