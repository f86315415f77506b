// Functions that are composed of other ops, beside PyTorch's (tests/golden/make_functions_torch.py) and at
// their limits.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/rng.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/attention/attention.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/linalg/linalg.h"
#include "isochron/ops/reduction/distances.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/grid_sample.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "ops/golden_functions.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron {
namespace {

using Values = std::vector<double>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Composed : public GoldenFunctions {
 protected:
  void check(const std::string& name, const std::function<Tensor(const Tensor&)>& function) {
    const Tensor x = arrays_.at("x"), dy = arrays_.at(name + ".dy");
    GradientTape tape;
    const Tensor y = function(x);
    expect_equal(y, name + ".y");
    expect_equal(tape.gradient({&y, 1}, {&x, 1}, {&dy, 1})[0], name + ".dx");
  }
};

TEST_F(Composed, FunctionsAndGradientsAreThoseOfPyTorch) {
  check("standard_deviation", [](const Tensor& x) { return standard_deviation(x, {0, 2}, false, 1); });
  check("standard_deviation_biased", [](const Tensor& x) { return standard_deviation(x, {2}, true); });
  check("norm", [](const Tensor& x) { return norm(x); });
  check("norm_1", [](const Tensor& x) { return norm(x, 1, {1}); });
  check("norm_2", [](const Tensor& x) { return norm(x, 2, {-1}, true); });
  check("norm_3.5", [](const Tensor& x) { return norm(x, 3.5, {0, 1}); });
  check("norm_inf", [](const Tensor& x) { return norm(x, kInfinity, {2}); });
  check("roll", [](const Tensor& x) { return roll(x, {1, -7, 5}, {0, -1, 1}); });
  check("tile", [](const Tensor& x) { return tile(x, {2, 3}); });
  check("tile_longer", [](const Tensor& x) { return tile(x, {2, 1, 3, 1}); });
  check("masked_fill", [](const Tensor& x) {
    return masked_fill(x, squeeze(narrow(stop_gradient(x), 0, 0, 1), {0}) > 0.0, -2.5);
  });
}

TEST_F(Composed, FunctionsOfSeveralTensorsAreThoseOfPyTorch) {
  const auto attend = [](In in) { return attention(in[0], in[1], in[2], {.mask = in[3]}); };
  check_several("attention_bias", attend);
  check_several("attention_bias_of_samples", attend);
  const Tensor seen = cast(arrays_.at("seen"), DType::kBool);
  check_several("attention_bool_mask", [&](In in) { return attention(in[0], in[1], in[2], {.mask = seen}); });
  check_several("attention_causal_bias",
                [](In in) { return attention(in[0], in[1], in[2], {.causal = true, .mask = in[3]}); });
  check_several("normalize", [](In in) { return normalize(in[0], 2, 1); });
  check_several("normalize_1", [](In in) { return normalize(in[0], 1, 0, 2.5); });
  check_several("cosine_similarity", [](In in) { return cosine_similarity(in[0], in[1]); });
  check_several("cosine_similarity_first", [](In in) { return cosine_similarity(in[0], in[1], 0, 0.1); });
  check_several("pairwise_distances", [](In in) { return pairwise_distances(in[0], in[1]); });
  check_several("pairwise_distances_1", [](In in) { return pairwise_distances(in[0], in[1], 1); });
  check_several("scatter", [](In in) {
    return scatter(in[0], from_vector({3}, {4, 0, 2}, DType::kI64), in[1]);
  });
  check_several("scatter_columns", [](In in) {
    return scatter(in[0], from_vector({3}, {1, 3, 0}, DType::kI32), in[1], 1);
  });
}

TEST_F(Composed, FunctionsThatMoveElementsAreThoseOfPyTorch) {
  check_several("select", [](In in) { return select(in[0], -2, 1); });
  check_several("unstack", [](In in) { return unstack(in[0], 1)[2] * select(unstack(in[0])[1], 0); });
  check_several("repeat_interleave", [](In in) { return repeat_interleave(in[0], 3, 1); });
  check_several("diff", [](In in) { return diff(in[0], 0); });
  check_several("swap_axes", [](In in) { return swap_axes(in[0], -1, 0); });
  check_several("flatten", [](In in) { return flatten(in[0], 1, -2); });
  check_several("meshgrid", [](In in) { return stack(meshgrid({in[0], in[1]})); });
  check_several("pixel_shuffle", [](In in) { return pixel_shuffle(in[0], 2); });
  check_several("pixel_unshuffle", [](In in) { return pixel_unshuffle(in[0], 2); });
  check_several("diagonal_matrix", [](In in) { return diagonal_matrix(in[0]); });
  check_several("trace", [](In in) { return trace(in[0]); });
  check_several("outer", [](In in) { return outer(in[0], in[1]); });
}

TEST_F(Composed, GridsAreSampledAsByPyTorch) {
  for (const bool nearest : {false, true}) {
    for (const bool border : {false, true}) {
      for (const bool corners : {false, true}) {
        const std::string name = fmt::format("grid_sample_{}_{}_{}", nearest ? "nearest" : "bilinear",
                                             border ? "border" : "zeros", corners ? "corners" : "areas");
        check_several(name, [&](In in) {
          return grid_sample(in[0], in[1], {.nearest = nearest, .border = border, .align_corners = corners});
        });
      }
    }
  }
  check_several("affine_grid", [](In in) { return affine_grid(in[0], 4, 5); });
  check_several("affine_grid_corners", [](In in) { return affine_grid(in[0], 4, 5, true); });
}

TEST_F(Composed, CountsAreThoseOfPyTorch) {
  const Tensor x = arrays_.at("x");
  expect_equal(any(x, {2}), "any.y");
  expect_equal(all(x, {2}, true), "all.y");
  expect_equal(count_nonzero(x, {0, 1}), "count_nonzero.y");
  EXPECT_EQ(any(x).dtype(), DType::kBool);
  EXPECT_EQ(count_nonzero(x).dtype(), DType::kI64);
  expect_equal(linspace(-1.5, 2.25, 8, DType::kF64), "linspace");
}

TEST_F(Composed, FunctionsAreCaptured) {
  const Tensor x = arrays_.at("x");
  auto step = capture([](const Tensor& in) {
    const Tensor y = roll(tile(in, {2, 1, 1}), {3}, {2});
    return concatenate({reshape(standard_deviation(y, {0}), {20}), reshape(norm(y, 2, {1}), {30}),
                        reshape(cast(count_nonzero(y, {2}), DType::kF64), {24})});
  });
  const Values replayed = step(x).to_vector();
  EXPECT_EQ(step(x).to_vector(), replayed);
  EXPECT_EQ(replayed.back(), 4);
}

TEST(ComposedLimits, VarianceHoldsBesideALargeMean) {
  Rng rng(4);
  std::vector<double> values(64);
  for (double& value : values) value = static_cast<float>(1e5 + 0.01 * rng.normal());  // in steps of 0.0078
  double mean = 0, exact = 0;
  for (const double value : values) mean += value / 64;
  for (const double value : values) exact += (value - mean) * (value - mean) / 64;
  EXPECT_NEAR(variance(from_vector({64}, values)).item<float>(), exact, 1e-5 * exact);
}

TEST(Composed16Bits, SumsAreThoseOfF32) {
  const Tensor x = full({100000}, 2, DType::kF16);
  EXPECT_NEAR(cast(norm(x), DType::kF64).item<double>(), std::sqrt(400000.0), 0.5) << "its square is beyond";
  EXPECT_EQ(norm(x, 1).to_vector()[0], kInfinity);
  EXPECT_NEAR(cast(standard_deviation(linspace(0, 1, 1000, DType::kBF16)), DType::kF64).item<double>(),
              0.2889, 2e-3);
}

TEST(ComposedLimits, NothingToReduce) {
  const Tensor none = zeros({0, 3});
  EXPECT_EQ(any(none).item<bool>(), false);
  EXPECT_EQ(all(none, {0}).to_vector(), (Values{1, 1, 1}));
  EXPECT_EQ(count_nonzero(none).item<int64_t>(), 0);
  for (const double p : {1.0, 2.0, 3.0, kInfinity}) EXPECT_EQ(norm(none, p).item<float>(), 0) << p;
  EXPECT_EQ(roll(none, {4}, {0}).shape(), Shape({0, 3}));
  EXPECT_EQ(tile(ones({2}), {0}).shape(), Shape({0}));
  EXPECT_EQ(linspace(1, 2, 0).elems(), 0);
  EXPECT_EQ(linspace(1, 2, 1).to_vector(), Values{1});
  EXPECT_EQ(linspace(5, 1, 3, DType::kI32).to_vector(), (Values{5, 3, 1}));
  EXPECT_EQ(tile(scalar(3), {2}).to_vector(), (Values{3, 3}));
  EXPECT_EQ(tile(from_vector({2}, {1, 2}), {}).to_vector(), (Values{1, 2}));
}

TEST(ComposedLimits, ShapesOfWhatMovesElements) {
  const Tensor x = zeros({2, 3, 4});
  EXPECT_EQ(unstack(x, 1).size(), 3U);
  EXPECT_TRUE(unstack(zeros({0, 3})).empty());
  EXPECT_EQ(repeat_interleave(x, 0, 2).shape(), Shape({2, 3, 0}));
  EXPECT_EQ(diff(x, 0).shape(), Shape({1, 3, 4}));
  EXPECT_EQ(flatten(x).shape(), Shape({24}));
  EXPECT_EQ(flatten(scalar(1)).shape(), Shape({1}));
  EXPECT_EQ(flatten(x, 1, 1).shape(), x.shape());
  EXPECT_EQ(diagonal_matrix(zeros({2, 0})).shape(), Shape({2, 0, 0}));
  EXPECT_EQ(diagonal_matrix(from_vector({2}, {INFINITY, 1})).to_vector(), (Values{INFINITY, 0, 0, 1}));
  EXPECT_EQ(meshgrid({arange(2), arange(3)})[1].to_vector(), (Values{0, 1, 2, 0, 1, 2}));
  EXPECT_ERROR(select(x, 3, 1), ErrorCode::kOutOfRange, "select");
  EXPECT_ERROR(select(x, 0, 3), ErrorCode::kOutOfRange, "select");
  EXPECT_ERROR(repeat_interleave(x, -1), ErrorCode::kInvalidArgument, "the count must be >= 0, got -1");
  EXPECT_ERROR(diff(zeros({0})), ErrorCode::kShapeMismatch, "axis -1 of f32(0) is empty");
  EXPECT_ERROR(flatten(x, 2, 1), ErrorCode::kInvalidArgument, "axis 2 comes after axis 1");
  EXPECT_ERROR(meshgrid({}), ErrorCode::kInvalidArgument, "expected 1 to 8 vectors, got 0");
  EXPECT_ERROR(meshgrid({x}), ErrorCode::kShapeMismatch, "expected vectors, got f32(2, 3, 4)");
  EXPECT_ERROR(pixel_shuffle(zeros({1, 2, 2, 6}), 2), ErrorCode::kShapeMismatch, "no multiple of 4");
  EXPECT_ERROR(pixel_unshuffle(zeros({1, 2, 3, 1}), 2), ErrorCode::kShapeMismatch, "must be multiples of 2");
  EXPECT_ERROR(pixel_shuffle(x, 2), ErrorCode::kShapeMismatch, "expected (N, H, W, C)");
  EXPECT_ERROR(outer(x, x), ErrorCode::kShapeMismatch, "expected vectors");
  EXPECT_ERROR(trace(x), ErrorCode::kShapeMismatch, "needs square matrices");
}

TEST(ComposedLimits, GridsOfOnePixelAndOutside) {
  const Tensor image = full({1, 1, 1, 1}, 3);
  const Tensor grid = from_vector({1, 1, 3, 2}, {0, 0, 5, 0, 0, -1.5});
  for (const bool corners : {false, true}) {
    EXPECT_EQ(grid_sample(image, grid, {.border = true, .align_corners = corners}).to_vector(),
              (Values{3, 3, 3}));
  }
  EXPECT_EQ(grid_sample(image, grid).to_vector(), (Values{3, 0, 0.75}));
  EXPECT_EQ(affine_grid(from_vector({1, 2, 3}, {1, 0, 0, 0, 1, 0}), 1, 1, true).to_vector(), (Values{0, 0}));
  const Tensor nowhere = full({1, 1, 1, 2}, std::nan(""));
  EXPECT_EQ(grid_sample(image, nowhere).item<float>(), 0);
  EXPECT_TRUE(std::isnan(grid_sample(image, nowhere, {.border = true}).item<float>()));
  EXPECT_ERROR(grid_sample(image, zeros({2, 1, 1, 2})), ErrorCode::kShapeMismatch, "(N, P, Q, 2)");
  EXPECT_ERROR(grid_sample(image, zeros({1, 1, 1, 2}, DType::kF64)), ErrorCode::kDtypeMismatch,
               "one floating dtype");
  EXPECT_ERROR(grid_sample(zeros({1, 0, 1, 1}), zeros({1, 1, 1, 2})), ErrorCode::kShapeMismatch, "is empty");
  EXPECT_ERROR(affine_grid(zeros({1, 3, 3}), 2, 2), ErrorCode::kShapeMismatch, "(N, 2, 3)");
  EXPECT_ERROR(affine_grid(zeros({1, 2, 3}), 0, 2), ErrorCode::kInvalidArgument, "must be > 0, got 0 and 2");
}

TEST(Distances, OfRowsThatAreZeroOrEqual) {
  const Tensor zero = zeros({2, 3});
  const Tensor row = from_vector({2, 3}, {1, 2, 2, 0, 0, 0});
  GradientTape tape;
  const Tensor unit = normalize(zero), cosine = cosine_similarity(row, zero),
               far = pairwise_distances(row, row);
  const Tensor all = sum(unit) + sum(cosine) + sum(far);
  EXPECT_EQ(all.item<float>(), 6);
  EXPECT_EQ(far.to_vector(), (Values{0, 3, 3, 0}));
  for (const Tensor& gradient : tape.gradient(all, {zero, row})) {
    for (const double g : gradient.to_vector()) EXPECT_TRUE(std::isfinite(g));
  }
  EXPECT_EQ(normalize(full({3}, 0, DType::kF16)).to_vector(), (Values{0, 0, 0})) << "epsilon is 0 in f16";
  EXPECT_ERROR(normalize(row, 0.5), ErrorCode::kInvalidArgument, "p must be >= 1");
  EXPECT_ERROR(normalize(row, 2, 2), ErrorCode::kOutOfRange, "axis 2");
  EXPECT_ERROR(normalize(row, 2, 1, 0), ErrorCode::kInvalidArgument, "epsilon must be > 0, got 0");
  EXPECT_ERROR(cosine_similarity(row, cast(row, DType::kF64)), ErrorCode::kDtypeMismatch, "differ; cast one");
  EXPECT_ERROR(pairwise_distances(row, zeros({2, 4})), ErrorCode::kShapeMismatch,
               "expected rows of one length, (..., N, D) and (..., M, D), got f32(2, 3) and f32(2, 4)");
}

TEST(NumbersAmongTensors, StandForTensorsOfTheOthersDtype) {
  const Tensor x = from_vector({3}, {1, -2, 0}, DType::kI32);
  EXPECT_EQ(equal(x, 0).to_vector(), (Values{0, 0, 1}));
  EXPECT_EQ(not_equal(x, -2).to_vector(), (Values{1, 0, 1}));
  EXPECT_EQ(greater(x, 0).to_vector(), (Values{1, 0, 0}));
  EXPECT_EQ(greater_equal(x, 0).to_vector(), (Values{1, 0, 1}));
  EXPECT_EQ(less(x, 0).to_vector(), (Values{0, 1, 0}));
  EXPECT_EQ(less_equal(x, 0).to_vector(), (Values{0, 1, 1}));
  EXPECT_EQ(where(x > 0.0, x, 7).to_vector(), (Values{1, 7, 7}));
  EXPECT_EQ(where(x > 0.0, 7, x).to_vector(), (Values{7, -2, 0}));
  EXPECT_EQ(where(x > 0.0, x, 7).dtype(), DType::kI32);
  EXPECT_ERROR(where(x > 0.0, x, 0.5), ErrorCode::kDtypeMismatch, "0.5");
}

TEST(CompoundAssignment, MakesTheHandleReferToANewTensor) {
  Tensor x = from_vector({2}, {1, 2});
  const Tensor before = x;
  x += x;
  x *= 3.0;
  x -= from_vector({1}, {2});
  x /= 2.0;
  EXPECT_EQ(x.to_vector(), (Values{2, 5}));
  EXPECT_EQ(before.to_vector(), (Values{1, 2}));
  auto step = capture([](const Tensor& in) {
    Tensor y = in;
    for (int i = 0; i < 3; ++i) y += in;
    return y;
  });
  EXPECT_EQ(step(before).to_vector(), (Values{4, 8}));
}

TEST(ComposedLimits, NaNIsNotZeroAndStays) {
  const Tensor x = from_vector({3}, {0, std::nan(""), 1});
  EXPECT_EQ(any(narrow(x, 0, 0, 2)).item<bool>(), true);
  EXPECT_EQ(all(narrow(x, 0, 1, 2)).item<bool>(), true);
  EXPECT_EQ(count_nonzero(x).item<int64_t>(), 2);
  for (const double p : {1.0, 2.0, 3.0, kInfinity}) EXPECT_TRUE(std::isnan(norm(x, p).item<float>())) << p;
  EXPECT_TRUE(std::isnan(standard_deviation(x).item<float>()));
}

TEST(ComposedLimits, NormsNeitherOverflowNorVanish) {
  for (const double p : {1.5, 2.0, 200.0}) {
    EXPECT_NEAR(norm(full({2}, 1e30), p).item<float>(), 1e30 * std::pow(2, 1 / p), 1e25) << p;
    EXPECT_NEAR(norm(full({2}, 1e-30), p).item<float>(), 1e-30 * std::pow(2, 1 / p), 1e-35) << p;
  }
  EXPECT_EQ(norm(from_vector({3}, {1, -3, 2}), 1e39).item<float>(), 3);
  EXPECT_EQ(norm(from_vector({2}, {kInfinity, 1}), 3).item<float>(), kInfinity);
  GradientTape tape;
  const Tensor x = from_vector({2}, {3e30, -4e30});
  const Values dx = tape.gradient(norm(x), x).to_vector();
  EXPECT_NEAR(dx[0], 0.6, 1e-6);
  EXPECT_NEAR(dx[1], -0.8, 1e-6);
}

TEST(ComposedLimits, OfBoolsAndIntegers) {
  const Tensor flags = from_vector({2, 2}, {1, 0, 1, 1}, DType::kBool);
  EXPECT_EQ(any(flags, {0}).to_vector(), (Values{1, 1}));
  EXPECT_EQ(all(flags, {0}).to_vector(), (Values{1, 0}));
  EXPECT_EQ(count_nonzero(flags).item<int64_t>(), 3);
  EXPECT_EQ(all(from_vector({2}, {-1, 256}, DType::kI64)).item<bool>(), true);
  EXPECT_EQ(roll(flags, {1}, {1}).to_vector(), (Values{0, 1, 1, 1}));
  EXPECT_EQ(masked_fill(from_vector({2}, {7, 8}, DType::kI32), reshape(narrow(flags, 0, 0, 1), {2}), -1)
                .to_vector(),
            (Values{-1, 8}));
}

TEST(ComposedLimits, UndefinedTensorsAreErrors) {
  const Tensor none;
  EXPECT_ERROR(variance(none), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(standard_deviation(none), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(zeros_like(none), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(ones_like(none), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(constant(none), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(masked_fill(ones({2}), none, 1), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(elu(none), ErrorCode::kInvalidArgument, "undefined");
}

TEST(ComposedLimits, ExtentsBeyond64BitsAreErrors) {
  constexpr int64_t kLarge = int64_t{1} << 32;
  EXPECT_ERROR(reshape(ones({2}), {kLarge, kLarge, -1}), ErrorCode::kOverflow, "does not fit 64 bits");
  EXPECT_ERROR(tile(ones({2}), {kLarge, kLarge}), ErrorCode::kOverflow, "does not fit 64 bits");
}

TEST(ComposedLimits, MistakesAreErrors) {
  const Tensor x = ones({2, 3});
  EXPECT_ERROR(norm(x, 0.5), ErrorCode::kInvalidArgument, "p must be >= 1, got 0.5");
  EXPECT_ERROR(norm(arange(3)), ErrorCode::kDtypeMismatch, "takes floating dtypes, got i64(3)");
  EXPECT_ERROR(norm(Tensor()), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(any(Tensor()), ErrorCode::kInvalidArgument, "undefined");
  EXPECT_ERROR(any(x, {2}), ErrorCode::kOutOfRange, "");
  EXPECT_ERROR(standard_deviation(arange(3)), ErrorCode::kDtypeMismatch, "cast to f32 first");
  EXPECT_ERROR(standard_deviation(ones({1}), {}, false, 1), ErrorCode::kInvalidArgument,
               "need more elements");
  EXPECT_ERROR(variance(x, {}, false, -1), ErrorCode::kInvalidArgument, "correction must be >= 0, got -1");
  EXPECT_ERROR(split(zeros({0}), int64_t{1} << 31), ErrorCode::kShapeMismatch, "does not divide");
  EXPECT_ERROR(concatenate({Tensor(), x}), ErrorCode::kInvalidArgument, "the first tensor is undefined");
  EXPECT_THROW(eye(int64_t{1} << 31), Error);
  EXPECT_EQ(tril(zeros({INT64_MAX, 0})).elems(), 0);
  EXPECT_ERROR(CapturedFunction(CapturedFunction::TraceFunction(), {}), ErrorCode::kInvalidArgument,
               "the function is empty");
  EXPECT_ERROR(linspace(0, 1, -1), ErrorCode::kInvalidArgument, "count must be >= 0, got -1");
  EXPECT_ERROR(linspace(0, kInfinity, 3), ErrorCode::kInvalidArgument, "both ends must be finite");
  EXPECT_ERROR(linspace(0, 300, 3, DType::kU8), ErrorCode::kOutOfRange, "out of the range of u8");
  EXPECT_ERROR(roll(x, {1, 2}, {0}), ErrorCode::kInvalidArgument, "need one shift an axis");
  EXPECT_ERROR(roll(x, {1}, {2}), ErrorCode::kOutOfRange, "");
  EXPECT_ERROR(tile(x, {2, -1}), ErrorCode::kInvalidArgument, "must be >= 0");
  EXPECT_ERROR(masked_fill(x, ones({4, 2, 3}) > 0.0, 1), ErrorCode::kShapeMismatch, "does not broadcast to");
  EXPECT_ERROR(masked_fill(x, x, 1), ErrorCode::kDtypeMismatch, "");
  EXPECT_ERROR(masked_fill(arange(3), arange(3) > 0.0, 0.5), ErrorCode::kDtypeMismatch, "0.5");
}

}  // namespace
}  // namespace isochron
