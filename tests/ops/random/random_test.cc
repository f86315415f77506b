#include "isochron/ops/random/random.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "isochron/autograd/autograd.h"
#include "isochron/backends/cpu/random/random.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "ops/rows/op_checks.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using random::Generator;
using testing::Each;
using testing::IsEmpty;
using testing::Not;
using Values = std::vector<double>;

class RandomOp : public testing::TestWithParam<const char*> {};

TEST_P(RandomOp, KeepsWhatItsRowPromises) {
  const graph::OpDef& op = ops::row(GetParam());
  EXPECT_THAT(check_reference(op), IsEmpty());
  EXPECT_THAT(check_repeatable(op), IsEmpty());
  EXPECT_THAT(check_captured(op), IsEmpty());
  EXPECT_THAT(check_errors(op), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Random, RandomOp, testing::Values("random_uniform", "random_normal", "bernoulli"),
                         [](const auto& row) { return row.param; });

TEST(Random, WordsAreThoseOfPhilox) {
  const ops::DrawKey key{0x0123456789abcdefull, 5, 6, 7};
  std::vector<uint32_t> words(4 * 301);
  ops::philox_blocks(key, 0xffffff80u, 301, words.data());  // the block number wraps within
  for (uint32_t i = 0; i < 301; ++i) {
    const PhiloxBlock block = philox4x32({0xffffff80u + i, 5, 6, 7}, {0x89abcdefu, 0x01234567u});
    for (size_t j = 0; j < 4; ++j) ASSERT_EQ(words[4 * i + j], block[j]) << i << " " << j;
  }
}

struct Moments {
  double mean = 0, variance = 0, skewness = 0, kurtosis = 0;
};

Moments moments_of(const Values& values) {
  Moments m;
  const double n = static_cast<double>(values.size());
  for (const double v : values) m.mean += v / n;
  for (const double v : values) {
    const double d = v - m.mean;
    m.variance += d * d / n;
    m.skewness += d * d * d / n;
    m.kurtosis += d * d * d * d / n;
  }
  m.skewness /= std::pow(m.variance, 1.5);
  m.kurtosis /= m.variance * m.variance;
  return m;
}

/// Kolmogorov's statistic times sqrt(n): above 1.95 with probability 0.001 if `cdf` is right.
double kolmogorov(Values values, double (*cdf)(double)) {
  std::sort(values.begin(), values.end());
  const double n = static_cast<double>(values.size());
  double distance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = cdf(values[i]);
    distance = std::max({distance, std::abs(expected - static_cast<double>(i) / n),
                         std::abs(expected - static_cast<double>(i + 1) / n)});
  }
  return distance * std::sqrt(n);
}

constexpr int64_t kDraws = 200000;

TEST(Random, TheRangeOfUniformNumbersIsANumberOfTheirDtype) {
  EXPECT_ERROR(random_uniform({4}, -3e38, 3e38), ErrorCode::kInvalidArgument, "finite in f32");
  EXPECT_ERROR(random_uniform({4}, 0, 1e300), ErrorCode::kInvalidArgument, "finite in f32");
  EXPECT_NO_THROW(random_uniform({4}, -3e38, 3e38, DType::kF64));
}

TEST(Random, UniformNumbersAreUniform) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Generator generator(11);
    const Values values = random_uniform({kDraws}, 0, 1, dtype, generator).to_vector();
    EXPECT_THAT(values, Each(testing::AllOf(testing::Ge(0.0), testing::Lt(1.0))));
    EXPECT_LT(kolmogorov(values, [](double x) { return x; }), 1.95);
    EXPECT_NEAR(moments_of(values).mean, 0.5, 4 * std::sqrt(1 / 12.0 / kDraws));
  }
}

TEST(Random, NormalNumbersAreNormal) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Generator generator(12);
    const Values values = random_normal({kDraws}, 0, 1, dtype, generator).to_vector();
    EXPECT_LT(kolmogorov(values, [](double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }), 1.95);
    const Moments m = moments_of(values);
    EXPECT_NEAR(m.mean, 0, 4 / std::sqrt(kDraws));
    EXPECT_NEAR(m.variance, 1, 4 * std::sqrt(2.0 / kDraws));
    EXPECT_NEAR(m.skewness, 0, 4 * std::sqrt(6.0 / kDraws));
    EXPECT_NEAR(m.kurtosis, 3, 4 * std::sqrt(24.0 / kDraws));
  }
}

TEST(Random, NeighborsAreUncorrelated) {
  Generator generator(13);
  const Values values = random_normal({kDraws}, 0, 1, DType::kF32, generator).to_vector();
  for (const size_t lag : {1, 2, 3, 4, 1024}) {
    double product = 0;
    for (size_t i = lag; i < values.size(); ++i) product += values[i] * values[i - lag];
    EXPECT_NEAR(product / kDraws, 0, 4 / std::sqrt(kDraws)) << lag;
  }
}

TEST(Random, UniformNeverReachesItsBound) {
  Generator generator(14);
  const Values values = random_uniform({1 << 20}, 1e8, 1e8 + 8, DType::kF32, generator).to_vector();
  EXPECT_THAT(values, Each(testing::AnyOf(1e8)));  // the next f32 above 1e8 is the bound itself
}

TEST(Random, BernoulliHasItsProbability) {
  Generator generator(15);
  const Values values = bernoulli({kDraws}, 0.3, generator).to_vector();
  EXPECT_NEAR(moments_of(values).mean, 0.3, 4 * std::sqrt(0.21 / kDraws));
  EXPECT_THAT(bernoulli({1000}, 0.0, generator).to_vector(), Each(0.0));
  EXPECT_THAT(bernoulli({1000}, 1.0, generator).to_vector(), Each(1.0));
}

TEST(Random, AnyThreadCountDrawsTheSameNumbers) {
  const int threads = compute_threads();
  std::vector<Values> results;
  for (const int count : {1, 3}) {
    set_compute_threads(count);
    Generator generator(16);
    results.push_back(random_uniform({300, 1001}, -1, 1, DType::kF32, generator).to_vector());
    results.push_back(random_normal({300, 1001}, 0, 1, DType::kF64, generator).to_vector());
  }
  set_compute_threads(threads);
  EXPECT_EQ(results[0], results[2]);
  EXPECT_EQ(results[1], results[3]);
}

Values draw(Generator& generator) { return random_uniform({16}, 0, 1, DType::kF64, generator).to_vector(); }

TEST(Random, EqualSeedsGiveEqualStreams) {
  Generator a(5), b(5), c(6);
  const Values first = draw(a);
  EXPECT_EQ(first, draw(b));
  EXPECT_NE(first, draw(c));
  EXPECT_NE(first, draw(a));
  a.set_seed(5);
  EXPECT_EQ(first, draw(a));
}

TEST(Random, ASavedStateContinuesTheStream) {
  Generator generator(7);
  draw(generator);
  const Tensor saved = generator.state();
  const Values next = draw(generator);
  Generator other(99);
  other.set_state(saved);
  EXPECT_EQ(draw(other), next);
  EXPECT_ERROR(other.set_state(zeros({3}, DType::kI64)), ErrorCode::kShapeMismatch, "i64(2)");
}

TEST(Random, ReplaysDrawNewNumbersAndSeedsRepeatThem) {
  Generator generator(8);
  auto step = capture([&](const Tensor& x) {
    const Tensor a = random_uniform({16}, 0, 1, DType::kF64, generator);
    const Tensor b = random_uniform({16}, 0, 1, DType::kF64, generator);
    return std::vector<Tensor>{x + a, x + b};
  });
  const Tensor x = zeros({16}, DType::kF64);
  std::set<Values> drawn;
  std::vector<Values> first_run;
  for (int i = 0; i < 10; ++i) {
    for (const Tensor& result : step(x)) {
      first_run.push_back(result.to_vector());
      EXPECT_TRUE(drawn.insert(first_run.back()).second) << i;
    }
  }
  EXPECT_EQ(generator.state().to_vector(), (Values{8, 10}));
  EXPECT_TRUE(drawn.insert(draw(generator)).second) << "an eager draw repeats a captured one";
  generator.set_seed(8);
  std::vector<Values> second_run;
  for (int i = 0; i < 10; ++i) {
    for (const Tensor& result : step(x)) second_run.push_back(result.to_vector());
  }
  EXPECT_EQ(first_run, second_run);
}

TEST(Random, EveryIterationOfALoopDrawsAnew) {
  Generator generator(9);
  auto step = capture([&](const Tensor& x) {
    const std::vector<Tensor> state{scalar(0, DType::kI64), x};
    return while_loop([](std::span<const Tensor> s) { return s[0] < 3.0; },
                      [&](std::span<const Tensor> s) {
                        const Tensor u = random_uniform({}, 0, 1, DType::kF64, generator);
                        return std::vector<Tensor>{s[0] + 1.0, s[1] * 1000.0 + floor(u * 1000.0)};
                      },
                      state)[1];
  });
  std::set<int64_t> seen;
  for (int call = 0; call < 3; ++call) {
    int64_t digits = static_cast<int64_t>(step(zeros({}, DType::kF64)).item<double>());
    for (int i = 0; i < 3; ++i, digits /= 1000) EXPECT_TRUE(seen.insert(digits % 1000).second);
  }
  EXPECT_EQ(generator.state().to_vector()[1], 3);
}

TEST(Dropout, KeepsTheMeanAndMasksTheGradientAlike) {
  Generator generator(10);
  const Tensor x = full({kDraws}, 3.0, DType::kF64);
  GradientTape tape;
  const Tensor y = dropout(x, 0.25, true, generator);
  const Values gradient = tape.gradient(y, x).to_vector();
  const Values values = y.to_vector();
  double mean = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(values[i] == 0 || values[i] == 4.0) << values[i];
    EXPECT_EQ(gradient[i], values[i] == 0 ? 0 : 1 / 0.75);
    mean += values[i] / kDraws;
  }
  EXPECT_NEAR(mean, 3, 4 * 3 * std::sqrt(0.25 / 0.75 / kDraws));
}

TEST(Dropout, CapturedForwardAndBackwardShareTheMaskOfEachStep) {
  Generator generator(10);
  auto step = capture([&](const Tensor& x) {
    const Tensor y = dropout(x, 0.5, true, generator);
    const Tensor sources[] = {x};
    return std::vector<Tensor>{y, gradients(sum(y), sources)[0]};
  });
  const Tensor x = ones({1000});
  Values last;
  for (int i = 0; i < 3; ++i) {
    const auto results = step(x);
    const Values y = results[0].to_vector();
    EXPECT_EQ(y, results[1].to_vector());
    EXPECT_NE(y, last);
    last = y;
  }
}

TEST(Dropout, Scales16BitFloatsInF32) {
  Generator generator(1);
  const Tensor x = full({1000}, 255, DType::kBF16);
  for (const double y : dropout(x, 0.1, true, generator).to_vector())
    EXPECT_TRUE(y == 0 || y == 284) << y << "; 255 / 0.9 lies between 282 and 284, and 1 / 0.9 isn't in bf16";
}

TEST(Dropout, IsTheIdentityOutsideTraining) {
  Generator generator(1);
  const Tensor x = ones({8});
  EXPECT_EQ(dropout(x, 0.5, false, generator).impl(), x.impl());
  EXPECT_EQ(dropout(x, 0.0, true, generator).impl(), x.impl());
  EXPECT_ERROR(dropout(x, 1.0, true, generator), ErrorCode::kInvalidArgument, "[0, 1)");
}

}  // namespace
}  // namespace isochron
