// Reductions beyond the registry's samples: integers, and long axes in 16 bits.
#include "isochron/ops/reduction/reduction.h"

#include <gtest/gtest.h>

#include <array>

#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

TEST(Reductions, OfIntegersAreNeverCut) {
  const Tensor hits = from_vector({4}, {1, 0, 1, 1}, DType::kI64);
  EXPECT_ERROR(mean(hits), ErrorCode::kDtypeMismatch, "cast to f32 first");
  EXPECT_ERROR(variance(hits), ErrorCode::kDtypeMismatch, "cast to f32 first");
  EXPECT_EQ(sum(hits).item<int64_t>(), 3);
  const Tensor bytes = full({300}, 1, DType::kU8);
  EXPECT_ERROR(sum(bytes), ErrorCode::kDtypeMismatch, "cast to i64 first");
  EXPECT_ERROR(prod(bytes), ErrorCode::kDtypeMismatch, "cast to i64 first");
  EXPECT_EQ(max(bytes).item<uint8_t>(), 1);
}

TEST(Reductions, NumbersBesideIntegersAreNeverCut) {
  const Tensor x = arange(3);
  EXPECT_ERROR(x >= 0.5, ErrorCode::kDtypeMismatch,
               "0.5 would be truncated to the integer dtype of the tensor, i64");
  EXPECT_ERROR(0.5 * x, ErrorCode::kDtypeMismatch, "cast the tensor");
  EXPECT_ERROR(clip(x, 0.5, 2), ErrorCode::kDtypeMismatch, "cast the tensor");
  EXPECT_EQ((x * 2.0).to_vector(), (std::vector<double>{0, 2, 4}));
}

TEST(Reductions, TheMeanOfEqualNumbersIsThatNumber) {
  for (const int64_t count : {3, 49, 98, 1000}) {
    EXPECT_EQ(mean(full({count}, 7, DType::kF64)).item<double>(), 7) << count;
    EXPECT_EQ(mean(full({count, 2}, 7, DType::kF64), {0}).to_vector(), (std::vector<double>{7, 7})) << count;
  }
}

TEST(Reductions, TheVarianceOfALongAxisHoldsIn16Bits) {
  const Tensor places = arange(100000, DType::kF64);
  const Tensor x = cast(cast(places >= 50000.0, DType::kF64) * 2.0 - 1.0, DType::kF16);
  EXPECT_NEAR(cast(variance(x, {}, false, 1), DType::kF64).item<double>(), 1, 0.01);
}

TEST(Reductions, TheVarianceIn16BitsIsComputedInF32) {
  EXPECT_EQ(cast(variance(from_vector({2}, {256, 258}, DType::kBF16)), DType::kF64).item<double>(), 1);
  std::vector<double> one(1000);
  one[7] = 300;
  EXPECT_NEAR(cast(variance(from_vector({1000}, one, DType::kF16)), DType::kF64).item<double>(), 89.91, 0.1);
}

TEST(Reductions, OverAxesOfAnyArrangementAreTheSame) {
  // Axes of extent one, short last axes, and operands that repeat along some axes.
  struct Case {
    Shape x, y;
    Axes axes;
  };
  const Case cases[] = {{{4, 50, 8, 1}, {4, 1, 8, 1}, {1, 3}},
                        {{4, 50, 8, 1}, {1, 50, 1, 1}, {0, 2, 3}},
                        {{700, 3}, {700, 1}, {1}},
                        {{1, 700, 1, 3}, {1, 1, 1, 3}, {3}},
                        {{700, 16}, {16}, {1}},
                        {{700, 17}, {700, 1}, {1}},
                        {{3, 5, 7, 2, 6}, {5, 1, 2, 1}, {1, 3}},
                        {{2, 3, 4, 5}, {3, 4, 1}, {0, 1, 2, 3}},
                        {{1, 1, 1}, {1}, {1}},
                        {{6, 1, 5}, {5}, {1}},
                        {{40, 1, 300}, {40, 1, 1}, {0}},
                        {{0, 3}, {3}, {1}}};
  for (const Case& c : cases) {
    const Tensor x = random_normal(c.x, 0, 1, DType::kF64), y = random_normal(c.y, 0, 1, DType::kF64);
    const auto function = [axes = c.axes](const Tensor& a, const Tensor& b) {
      const Tensor product = square(a - b) * a;
      return std::array{sum(product, axes), max(product, axes, true), mean(cast(product, DType::kF32), axes),
                        sum(cast(product * 8.0, DType::kI64), axes)};
    };
    const std::vector<double> products = (square(x - y) * x).to_vector();
    const Shape reduced = sum(x, c.axes).shape();
    std::vector<double> sums(static_cast<size_t>(reduced.elems()), 0);
    for (int64_t i = 0; i < c.x.elems(); ++i) {
      const Dims at = unravel(i, c.x);
      Dims to;
      for (int axis = 0; axis < at.rank(); ++axis) {
        if (!c.axes.contains(axis)) to.push_back(at[axis]);
      }
      sums[static_cast<size_t>(ravel(to, reduced))] += products[static_cast<size_t>(i)];
    }
    auto step = capture(function);
    const auto captured = step(x, y);
    const Tensor expected = from_vector(reduced, sums, DType::kF64);
    EXPECT_TRUE(near(captured[0], expected, 1e-12, 1e-12)) << c.x.str();
    const std::vector<Tensor> kept{copy(captured[1]), copy(captured[2]), copy(captured[3])};
    const auto eager = function(x, y);
    for (size_t i = 0; i < kept.size(); ++i)
      EXPECT_TRUE(near(kept[i], eager[i + 1], 1e-6, 1e-6)) << c.x.str() << i;
  }
}

}  // namespace
}  // namespace isochron
