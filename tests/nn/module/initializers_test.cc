#include "isochron/nn/module/initializers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "isochron/nn/layers/layers.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

struct Moments {
  double mean = 0;
  double stddev = 0;
  double largest = 0;
};

Moments moments(const Initializer& initializer, const Shape& shape) {
  Rng rng(7);
  const std::vector<double> values = initializer(shape, rng);
  Moments m;
  for (const double v : values) {
    m.mean += v / static_cast<double>(values.size());
    m.largest = std::max(m.largest, std::abs(v));
  }
  for (const double v : values) {
    m.stddev += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  }
  m.stddev = std::sqrt(m.stddev);
  return m;
}

TEST(Initializers, HaveTheVarianceOfTheirDefinition) {
  const Shape dense{400, 200};
  const Shape convolution{3, 3, 40, 200};  // fan in 360, fan out 1800
  const auto expect = [](const Initializer& initializer, const Shape& shape, double variance,
                         double largest_in_deviations) {
    const Moments m = moments(initializer, shape);
    const double stddev = std::sqrt(variance);
    EXPECT_NEAR(m.mean, 0, 0.02 * stddev);
    EXPECT_NEAR(m.stddev, stddev, 0.02 * stddev);
    EXPECT_LE(m.largest, largest_in_deviations * stddev * 1.0001);
    EXPECT_GE(m.largest, 0.98 * largest_in_deviations * stddev);
  };
  const double root3 = std::sqrt(3.0);               // uniform over +-root3 deviations
  const double truncated = 2 / 0.87962566103423978;  // cut at two deviations of the untruncated normal
  expect(init::glorot_uniform(), dense, 2.0 / 600, root3);
  expect(init::glorot_normal(), dense, 2.0 / 600, truncated);
  expect(init::he_uniform(), dense, 2.0 / 400, root3);
  expect(init::he_normal(), convolution, 2.0 / 360, truncated);
  expect(init::lecun_uniform(), dense, 1.0 / 400, root3);
  expect(init::lecun_normal(), convolution, 1.0 / 360, truncated);
  expect(init::glorot_uniform(), convolution, 2.0 / 2160, root3);
  expect(init::glorot_uniform(), {50000}, 1.0 / 50000, root3);
  expect(init::uniform(), dense, 0.01 / 12, root3);
  expect(init::xavier_uniform(3), dense, 9 * 2.0 / 600, root3);
  expect(init::kaiming_uniform(), convolution, 2.0 / 360, root3);
  expect(init::kaiming_uniform(2, init::Fan::kOut), convolution, 2.0 / 5 / 1800, root3);
  expect(init::pytorch_weight(), convolution, 1.0 / 360 / 3, root3);
  expect(init::pytorch_bias(30), {50000}, 1.0 / 30 / 3, root3);
  expect(init::variance_scaling(), dense, 1.0 / 400, truncated);
  expect(init::variance_scaling(0.5, init::Fan::kAverage, init::Distribution::kUniform), dense, 0.5 / 300,
         root3);
}

TEST(Initializers, NormalsOfPyTorchAreNotTruncated) {
  const double xavier = std::sqrt(4 * 2.0 / 600);
  const double kaiming = std::sqrt(2.0 / 200);
  const Moments a = moments(init::xavier_normal(2), {400, 200});
  const Moments b = moments(init::kaiming_normal(0, init::Fan::kOut), {400, 200});
  EXPECT_NEAR(a.stddev, xavier, 0.02 * xavier);
  EXPECT_NEAR(b.stddev, kaiming, 0.02 * kaiming);
  EXPECT_GT(a.largest, 3.5 * xavier);
  EXPECT_GT(b.largest, 3.5 * kaiming);
}

TEST(Initializers, TruncatedBetweenHasTheMomentsOfItsDefinition) {
  // Mean of a standard normal within [a, b]: (phi(a) - phi(b)) / (Phi(b) - Phi(a)).
  const auto expect = [](double mean, double stddev, double low, double high) {
    const auto density = [](double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); };
    const auto below = [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; };
    const double a = (low - mean) / stddev;
    const double b = (high - mean) / stddev;
    const double expected = mean + stddev * (density(a) - density(b)) / (below(b) - below(a));
    Rng rng(5);
    const auto values = init::truncated_normal_between(mean, stddev, low, high)({100000}, rng);
    double sum = 0;
    for (const double v : values) {
      ASSERT_GE(v, low);
      ASSERT_LE(v, high);
      sum += v;
    }
    EXPECT_NEAR(sum / 100000, expected, 0.02 * std::min(stddev, high - low)) << low << ' ' << high;
  };
  expect(0, 1, -2, 2);
  expect(3, 0.5, 2, 3);
  expect(0, 1, 2, 3.5);
  expect(0, 1, 2, 9);
  expect(1, 2, 0.9, 0.95);
  EXPECT_ERROR(init::truncated_normal_between(0, 1, 3, 4), ErrorCode::kInvalidArgument,
               "two standard deviations");
  EXPECT_ERROR(init::truncated_normal_between(0, 1, 1, 1), ErrorCode::kInvalidArgument, "low < high");
}

TEST(Initializers, IdentityAndDiracHandOn) {
  Rng rng;
  EXPECT_EQ(init::identity(2)({2, 3}, rng), (std::vector<double>{2, 0, 0, 0, 2, 0}));
  EXPECT_ERROR(init::identity()({2, 2, 2}, rng), ErrorCode::kInvalidArgument, "two axes");
  EXPECT_ERROR(init::dirac()({2, 2}, rng), ErrorCode::kInvalidArgument, "convolution kernel");
  EXPECT_ERROR(init::dirac(2)({3, 3, 2, 3}, rng), ErrorCode::kInvalidArgument, "divisible by 2");

  const Tensor x = from_vector({1, 3, 3, 4}, init::normal()({36}, rng), DType::kF64);
  for (const int64_t groups : {1, 2}) {
    const Shape shape{3, 3, 4 / groups, 4};
    const Tensor kernel = from_vector(shape, init::dirac(groups)(shape, rng), DType::kF64);
    const Tensor y = conv2d(x, kernel, {.padding = Padding::same(), .groups = groups});
    EXPECT_EQ(y.to_vector(), x.to_vector()) << groups;
  }
}

TEST(Initializers, SparseHasItsShareOfZerosForEachInput) {
  Rng rng(1);
  const std::vector<double> w = init::sparse(0.25, 2)({50, 10}, rng);
  std::vector<int> zeros_of_column(10);
  for (size_t row = 0; row < 50; ++row) {
    int zeros = 0;
    for (size_t column = 0; column < 10; ++column) {
      const bool zero = w[row * 10 + column] == 0;
      zeros += zero;
      zeros_of_column[column] += zero;
    }
    EXPECT_EQ(zeros, 3) << "a quarter of 10, rounded up";
  }
  for (const int count : zeros_of_column) EXPECT_NEAR(count, 15, 14);
  EXPECT_ERROR(init::sparse(2), ErrorCode::kInvalidArgument, "[0, 1]");
}

TEST(Initializers, NormalHasMeanAndDeviation) {
  const Moments m = moments(init::normal(3, 0.5), {300, 300});
  EXPECT_NEAR(m.mean, 3, 0.01);
  EXPECT_NEAR(m.stddev, 0.5, 0.01);
  EXPECT_GT(m.largest, 3 + 3.5 * 0.5);
  EXPECT_LE(moments(init::truncated_normal(0, 0.5), {300, 300}).largest, 1);
}

TEST(Initializers, OrthogonalRowsOrColumns) {
  for (const Shape& shape : {Shape{7, 4}, Shape{4, 7}, Shape{3, 2, 5}, Shape{60, 60}}) {
    Rng rng(3);
    const std::vector<double> w = init::orthogonal(2)(shape, rng);
    const int64_t columns = shape.back();
    const int64_t rows = shape.elems() / columns;
    const bool by_row = rows <= columns;
    const int64_t count = std::min(rows, columns);
    const auto at = [&](int64_t vector, int64_t e) {
      return w[static_cast<size_t>(by_row ? vector * columns + e : e * columns + vector)];
    };
    for (int64_t a = 0; a < count; ++a) {
      for (int64_t b = 0; b < count; ++b) {
        double product = 0;
        for (int64_t e = 0; e < std::max(rows, columns); ++e) product += at(a, e) * at(b, e);
        EXPECT_NEAR(product, a == b ? 4 : 0, 1e-13) << shape.str();
      }
    }
  }
  Rng rng;
  EXPECT_ERROR(init::orthogonal()({5}, rng), ErrorCode::kInvalidArgument, "two axes");
}

TEST(Initializers, DrawInPiecesWhatTheyDrawAtOnce) {
  const Initializer counts([](const Shape& shape, Rng&) {
    std::vector<double> values(static_cast<size_t>(shape.elems()));
    std::iota(values.begin(), values.end(), 0.0);
    return values;
  });
  for (const Initializer& initializer :
       {init::constant(3), init::normal(), init::truncated_normal(), init::uniform(), init::glorot_uniform(),
        init::he_normal(), init::kaiming_normal(), init::orthogonal(), init::sparse(0.5), counts,
        init::truncated_normal_between(0, 1, -1, 2)}) {
    const Shape shape{6, 9};
    Rng rng(3), again(3);
    const std::vector<double> want = initializer(shape, rng);
    const Initializer::Draw draw = initializer.begin(shape, again);
    std::vector<double> got(want.size());
    size_t begin = 0;
    for (const size_t count : {size_t{1}, size_t{20}, size_t{0}, size_t{33}}) {
      draw(std::span(got).subspan(begin, count));
      begin += count;
    }
    EXPECT_EQ(got, want);
  }
}

TEST(Initializers, OfTheWrongNumberOfElementsAreRefused) {
  Dense layer(3, Activation::kNone,
              {.kernel_initializer = [](const Shape&, Rng&) { return std::vector<double>(7); }});
  EXPECT_ERROR(layer(ones({1, 2})), ErrorCode::kShapeMismatch, "has 6 elements, got 7 values");
}

TEST(Initializers, EqualSeedsGiveEqualModels) {
  const auto kernel_of = [](uint64_t seed) {
    set_initializer_seed(seed);
    Dense first(3);
    Dense second(3);
    first(ones({1, 4}));
    second(ones({1, 4}));
    EXPECT_NE(first.kernel().tensor().to_vector(), second.kernel().tensor().to_vector());
    return first.kernel().tensor().to_vector();
  };
  EXPECT_EQ(kernel_of(1), kernel_of(1));
  EXPECT_NE(kernel_of(1), kernel_of(2));
  set_initializer_seed(0);
}

TEST(Initializers, FillWithConstants) {
  Rng rng;
  EXPECT_EQ(init::zeros()({2}, rng), (std::vector<double>{0, 0}));
  EXPECT_EQ(init::ones()({2}, rng), (std::vector<double>{1, 1}));
  EXPECT_EQ(init::constant(-3)({2}, rng), (std::vector<double>{-3, -3}));
}

}  // namespace
}  // namespace isochron::nn
