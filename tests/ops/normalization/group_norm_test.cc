// Normalization over positions beyond what its rows' samples test: PyTorch's numbers, data that is hard on
// moments, sizes that take several slabs, samples and threads.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/process/threads.h"
#include "isochron/data/formats/npy.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/normalization/normalization.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

/// y and the gradients of sum(y * dy) with respect to x, gamma and beta.
struct Outcome {
  Tensor y;
  std::vector<Tensor> gradients;
};

using Norm = std::function<Tensor(const Tensor& x, const Tensor& gamma, const Tensor& beta)>;

Outcome outcome_of(const Norm& norm, const Tensor& x, const Tensor& gamma, const Tensor& beta,
                   const Tensor& dy) {
  GradientTape tape;
  const Tensor sources[] = {x, gamma, beta};
  const Tensor y = norm(x, gamma, beta);
  return {y, tape.gradient({&y, 1}, sources, {&dy, 1})};
}

struct GoldenCase {
  const char* name;
  int64_t groups;  // 0: batch
};

TEST(GroupNorm, AgreesWithPyTorch) {
  const data::NpzFile arrays = data::read_npz(ISOCHRON_SOURCE_DIR "/tests/golden/norms_torch.npz");
  constexpr double kEpsilon = 1e-4;
  for (const GoldenCase& test :
       {GoldenCase{"group_1d", 2}, GoldenCase{"group_2d_odd", 3}, GoldenCase{"group_2d", 8},
        GoldenCase{"group_3d", 3}, GoldenCase{"group_one", 1}, GoldenCase{"group_long", 5},
        GoldenCase{"instance_1d", -1}, GoldenCase{"instance_2d", -1}, GoldenCase{"instance_3d", -1},
        GoldenCase{"batch_1d", 0}, GoldenCase{"batch_2d", 0}}) {
    SCOPED_TRACE(test.name);
    const auto array = [&](const char* key) { return arrays.at(std::string(test.name) + "." + key); };
    const Norm norm = [&](const Tensor& x, const Tensor& gamma, const Tensor& beta) {
      if (test.groups < 0) return instance_norm(x, gamma, beta, kEpsilon);
      return test.groups > 0 ? group_norm(x, test.groups, gamma, beta, kEpsilon)
                             : batch_norm(x, gamma, beta, kEpsilon).y;
    };
    for (const DType dtype : {DType::kF64, DType::kF32}) {
      const auto in = [&](const char* key) { return cast(array(key), dtype); };
      const Outcome got = outcome_of(norm, in("x"), in("gamma"), in("beta"), in("dy"));
      const double rtol = dtype == DType::kF64 ? 1e-11 : 2e-5;
      const double atol = dtype == DType::kF64 ? 1e-12 : 2e-5;
      EXPECT_TRUE(near(got.y, array("y"), rtol, atol));
      EXPECT_TRUE(near(got.gradients[0], array("dx"), rtol, atol));
      EXPECT_TRUE(near(got.gradients[1], array("dgamma"), rtol, 10 * atol));
      EXPECT_TRUE(near(got.gradients[2], array("dbeta"), rtol, 10 * atol));
    }
  }
}

Tensor normal_numbers(const Shape& shape, uint64_t seed, double mean = 0, double deviation = 1) {
  Rng rng(seed);
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = mean + deviation * rng.normal();
  return cast(from_vector(shape, values, DType::kF64), DType::kF32);
}

struct NamedNorm {
  const char* name;
  Norm norm;
};
std::vector<NamedNorm> norms(int64_t groups) {
  return {{"group", [groups](auto& x, auto& g, auto& b) { return group_norm(x, groups, g, b); }},
          {"instance", [](auto& x, auto& g, auto& b) { return instance_norm(x, g, b); }},
          {"batch", [](auto& x, auto& g, auto& b) { return batch_norm(x, g, b).y; }}};
}

/// f32 against the same numbers in f64.
void expect_f64_results(const Tensor& x, int64_t groups, double y_error, double gradient_error) {
  const Shape channels{x.extent(-1)};
  const Tensor gamma = normal_numbers(channels, 2, 1, 0.2), beta = normal_numbers(channels, 3);
  const Tensor dy = normal_numbers(x.shape(), 4);
  const auto wide = [](const Tensor& t) { return cast(t, DType::kF64); };
  for (const NamedNorm& test : norms(groups)) {
    SCOPED_TRACE(std::string(test.name) + " of " + x.spec().str());
    const Outcome got = outcome_of(test.norm, x, gamma, beta, dy);
    const Outcome want = outcome_of(test.norm, wide(x), wide(gamma), wide(beta), wide(dy));
    EXPECT_TRUE(near(got.y, want.y, y_error, y_error));
    const double rows = std::sqrt(static_cast<double>(x.elems() / x.extent(-1)));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(
          near(got.gradients[i], want.gradients[i], gradient_error, (i == 0 ? 1 : rows) * gradient_error))
          << "gradient " << i;
    }
  }
}

TEST(GroupNorm, LosesNothingToALargeMean) {
  // f32 resolves such numbers to 5e-4 of their deviation, including the mean that the gradients use.
  expect_f64_results(normal_numbers({2, 70, 60, 12}, 1, 1e4), 4, 2e-6, 2e-3);
  expect_f64_results(normal_numbers({3, 500, 40}, 1, -1e4), 8, 2e-6, 2e-3);
}

TEST(GroupNorm, LosesNothingToOutliersAndSteps) {
  Tensor first = normal_numbers({2, 64, 64, 8}, 1);
  first.span<float>()[3] = 3e4F;  // what sums begin with
  expect_f64_results(first, 2, 2e-5, 2e-5);
  Tensor steps = normal_numbers({2, 64, 64, 8}, 1, 0, 1e-2);
  const auto numbers = steps.span<float>();
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] += static_cast<float>(i / 10'000);
  expect_f64_results(steps, 2, 2e-5, 2e-5);
}

TEST(GroupNorm, LosesToAnOutlierInFrontInOneBlockAlone) {
  // Sums of squares relative to the first number lose 2e-6 of each block for this one; of eight blocks, it
  // would show.
  constexpr int64_t kPositions = 1020, kChannels = 64;
  Tensor x = full({1, kPositions, kChannels}, 0);
  x.span<float>()[3] = 1999.9F;
  const double root = std::sqrt(kPositions - 1.0);
  for (const NamedNorm& test : norms(kChannels)) {
    const std::vector<double> y = test.norm(x, {}, {}).to_vector();
    EXPECT_NEAR(y[3], root, 3e-4 * root) << test.name;
    for (size_t i = 3 + kChannels; i < y.size(); i += kChannels)
      ASSERT_NEAR(y[i], -1 / root, 3e-4 / root) << test.name << ", " << i;
  }
}

TEST(GroupNorm, TakesAnyShape) {
  // Few and many channels, rows that don't fill vectors, short rows at the end, one position, many samples.
  for (const auto& [shape, groups] : std::vector<std::pair<Shape, int64_t>>{{{5, 9}, 3},
                                                                            {{2, 1, 8}, 4},
                                                                            {{3, 77, 1}, 1},
                                                                            {{2, 131, 3}, 1},
                                                                            {{2, 9, 11, 25}, 5},
                                                                            {{200, 19, 6}, 2},
                                                                            {{37, 7, 7, 20}, 4},
                                                                            {{1, 300, 260}, 13},
                                                                            {{2, 3, 1030}, 2},
                                                                            {{3, 12, 11, 10, 33}, 11}}) {
    expect_f64_results(normal_numbers(shape, 1, 0.5), groups, 3e-5, 2e-4);
  }
}

// Computed by hand, because f64 goes through slabs in the same way.
TEST(GroupNorm, GoesThroughAllPositionsOfSeveralSlabsOnce) {
  constexpr size_t kPositions = 22'001, kChannels = 3;  // two slabs, and a short row at the end
  const Tensor x = normal_numbers({1, kPositions, kChannels}, 1, 0.5), dy = normal_numbers(x.shape(), 4);
  const Tensor gamma = normal_numbers({kChannels}, 2, 1, 0.2), beta = normal_numbers({kChannels}, 3);
  const std::vector<double> xs = x.to_vector(), gs = dy.to_vector();
  const std::vector<double> gammas = gamma.to_vector(), betas = beta.to_vector();
  std::vector<double> y(xs.size()), dx(xs.size()), dgamma(kChannels), dbeta(kChannels);
  for (size_t c = 0; c < kChannels; ++c) {
    const auto each = [&](auto visit) {
      for (size_t i = c; i < xs.size(); i += kChannels) visit(i);
    };
    double mean = 0, variance = 0;
    each([&](size_t i) { mean += xs[i] / kPositions; });
    each([&](size_t i) { variance += (xs[i] - mean) * (xs[i] - mean) / kPositions; });
    const double factor = 1 / std::sqrt(variance + 1e-5);
    each([&](size_t i) {
      y[i] = (xs[i] - mean) * factor;
      dgamma[c] += gs[i] * y[i];
      dbeta[c] += gs[i];
    });
    each([&](size_t i) {
      dx[i] = gammas[c] * factor * (gs[i] - (dbeta[c] + y[i] * dgamma[c]) / kPositions);
      y[i] = gammas[c] * y[i] + betas[c];
    });
  }
  for (const NamedNorm& test : norms(kChannels)) {
    SCOPED_TRACE(test.name);
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      const Outcome got =
          outcome_of(test.norm, cast(x, dtype), cast(gamma, dtype), cast(beta, dtype), cast(dy, dtype));
      EXPECT_TRUE(near(got.y, from_vector(x.shape(), y, DType::kF64), 1e-5, 1e-5));
      EXPECT_TRUE(near(got.gradients[0], from_vector(x.shape(), dx, DType::kF64), 1e-5, 1e-5));
      EXPECT_TRUE(near(got.gradients[1], from_vector({kChannels}, dgamma, DType::kF64), 1e-5, 1e-3));
      EXPECT_TRUE(near(got.gradients[2], from_vector({kChannels}, dbeta, DType::kF64), 1e-5, 1e-3));
    }
  }
}

TEST(GroupNorm, GivesTheSameBitsForAnyNumberOfThreads) {
  const int before = compute_threads();
  for (const auto& [shape, groups] : std::vector<std::pair<Shape, int64_t>>{
           {{1, 128, 96, 10}, 5}, {{3, 60, 50, 24}, 8}, {{7, 90, 100, 3}, 3}, {{33, 20, 21, 16}, 4}}) {
    const Tensor x = normal_numbers(shape, 1, 3), dy = normal_numbers(shape, 4);
    const Tensor gamma = normal_numbers({shape.back()}, 2), beta = normal_numbers({shape.back()}, 3);
    for (const NamedNorm& test : norms(groups)) {
      SCOPED_TRACE(std::string(test.name) + " of " + shape.str());
      set_compute_threads(1);
      const Outcome one = outcome_of(test.norm, x, gamma, beta, dy);
      for (const int threads : {2, 3, 4, 5}) {
        set_compute_threads(threads);
        const Outcome more = outcome_of(test.norm, x, gamma, beta, dy);
        EXPECT_TRUE(near(more.y, one.y, 0)) << threads;
        for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(near(more.gradients[i], one.gradients[i], 0)) << threads;
      }
    }
  }
  set_compute_threads(before);
}

TEST(GroupNorm, KeepsWhatIsNotANumber) {
  Tensor x = normal_numbers({2, 40, 6}, 1);
  x.span<float>()[7] = std::nanf("");
  const std::vector<double> y = instance_norm(x, {}, {}).to_vector();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i < 240 && i % 6 == 1) << i;
}

TEST(GroupNorm, OfEqualNumbersIsBeta) {
  const Tensor beta = from_vector({4}, {1, 2, 3, 4}, DType::kF32);
  const Tensor x = full({2, 30, 4}, 12345.678, DType::kF32);
  for (const NamedNorm& test : norms(2)) {
    const std::vector<double> y = test.norm(x, {}, beta).to_vector();
    for (size_t i = 0; i < y.size(); ++i)
      EXPECT_NEAR(y[i], static_cast<double>(i % 4 + 1), 1e-6) << test.name;
  }
}

TEST(GroupNorm, MomentsOfABatchCarryGradients) {
  const Tensor x = cast(normal_numbers({5, 3, 4}, 1), DType::kF64);
  const Tensor seeds[] = {cast(normal_numbers({4}, 2), DType::kF64),
                          cast(normal_numbers({4}, 3), DType::kF64)};
  const auto gradient_of = [&](const std::function<Moments(const Tensor&)>& moments) {
    GradientTape tape;
    const Moments m = moments(x);
    const Tensor results[] = {m.mean, m.variance};
    return tape.gradient(results, {&x, 1}, seeds)[0];
  };
  EXPECT_TRUE(near(gradient_of([](const Tensor& t) { return batch_norm(t, {}, {}).moments; }),
                   gradient_of([](const Tensor& t) { return channel_moments(t); }), 1e-12, 1e-14));
}

TEST(GroupNorm, RefusesWrongCalls) {
  const Tensor x = ones({2, 3, 4});
  EXPECT_ERROR(group_norm(x, 3, {}, {}), ErrorCode::kInvalidArgument, "3 groups don't divide the 4 channels");
  EXPECT_ERROR(group_norm(x, 2, {}, {}, -1e-5), ErrorCode::kInvalidArgument,
               "epsilon must be >= 0, got -1e-05");
  EXPECT_ERROR(layer_norm(x, {}, {}, std::nan("")), ErrorCode::kInvalidArgument,
               "[layer_norm] epsilon must be >= 0");
  EXPECT_ERROR(rms_norm(x, {}, -1), ErrorCode::kInvalidArgument, "[rms_norm] epsilon must be >= 0, got -1");
  EXPECT_ERROR(group_norm(ones({4}), 2, {}, {}), ErrorCode::kShapeMismatch, "(N, ..., C)");
  EXPECT_ERROR(instance_norm(Tensor(), {}, {}), ErrorCode::kShapeMismatch, "undefined");
  EXPECT_ERROR(batch_norm(x, ones({3}), {}), ErrorCode::kShapeMismatch, "input 1 must be");
  EXPECT_ERROR(batch_norm(ones({0, 4}), {}, {}), ErrorCode::kShapeMismatch, "no elements");
}

TEST(NormsOfNoRows, AreEmptyAndTheirParametersHaveGradientsOfZero) {
  const Tensor gamma = ones({4}), beta = ones({4}), x = zeros({0, 3, 4});
  using OfInput = std::function<Tensor(const Tensor&)>;
  const OfInput norms[] = {[&](const Tensor& in) { return layer_norm(in, gamma, beta); },
                           [&](const Tensor& in) { return group_norm(in, 2, gamma, beta); },
                           [&](const Tensor& in) { return instance_norm(in, gamma, beta); },
                           [&](const Tensor& in) { return rms_norm(in, gamma) + beta; }};
  for (const OfInput& norm : norms) {
    GradientTape tape;
    const Tensor y = norm(x);
    EXPECT_EQ(y.shape(), x.shape());
    for (const Tensor& gradient : tape.gradient(sum(y), {gamma, beta}))
      EXPECT_EQ(gradient.to_vector(), std::vector<double>(4, 0));
  }
  EXPECT_ERROR(layer_norm(zeros({2, 0}), {}, {}), ErrorCode::kShapeMismatch, "no elements");
}

/// A row of normal numbers around `mean`.
Tensor long_row(double mean, uint64_t seed) {
  Rng rng(seed);
  const Tensor row = zeros({1, 1'000'001});
  for (float& number : row.span<float>()) number = static_cast<float>(mean + rng.normal());
  return row;
}

TEST(NormsOfLongRows, AreThoseInF64) {
  const auto results = [](const Tensor& x, const Tensor& dy, bool centered) {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = centered ? layer_norm(x, {}, {}) : rms_norm(x, {});
    return std::vector<Tensor>{y, tape.gradient({&y, 1}, {&x, 1}, {&dy, 1})[0]};
  };
  for (const double mean : {0.0, 1000.0}) {
    const Tensor x = long_row(mean, 3), dy = long_row(1000 - mean, 4);
    const Tensor wide_x = cast(x, DType::kF64), wide_dy = cast(dy, DType::kF64);
    for (const bool centered : {true, false}) {
      const std::vector<Tensor> got = results(x, dy, centered), want = results(wide_x, wide_dy, centered);
      EXPECT_TRUE(near(got[0], want[0], 1e-6, centered ? 1e-4 : 0)) << mean << centered;
      EXPECT_TRUE(near(got[1], want[1], 1e-6, 4e-4)) << mean << centered;
    }
  }
}

}  // namespace
}  // namespace isochron
