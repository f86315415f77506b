// Edge cases of the fused kernel: tiles, periods, broadcasts, aliasing, threads. Fused results are compared
// with running the same ops one by one with the same element functions.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

#include "graph/program/trace.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::graph {
namespace {

Tensor random(const Shape& shape, uint64_t seed, DType dtype = DType::kF32) {
  Rng rng(seed);
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = rng.uniform() * 4 - 2;
  return from_vector(shape, values, dtype);
}

void expect_same_bits(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.spec(), b.spec()) << what;
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.size_bytes()), 0) << what;
}

void expect_close(const Tensor& a, const Tensor& b, double tolerance, const std::string& what) {
  const std::vector<double> va = a.to_vector();
  const std::vector<double> vb = b.to_vector();
  ASSERT_EQ(va.size(), vb.size()) << what;
  for (size_t i = 0; i < va.size(); ++i) {
    ASSERT_NEAR(va[i], vb[i], tolerance * (1 + std::abs(va[i]))) << what << ", element " << i;
  }
}

TEST(FusedKernel, TileBoundaries) {
  for (const int64_t n : {1, 2, 63, 1023, 1024, 1025, 2047, 2048, 2049, 5000}) {
    const auto chain = [](const Tensor& x) { return tanh(x * 1.5 + 0.25) - x; };
    const auto function = [&](const Tensor& x) {
      const Tensor y = chain(x);
      return std::tuple(y, sum(y), max(y), square(y));
    };
    auto step = capture(function);
    const Tensor x = random({n}, 1);
    const auto [y, total, largest, squares] = step(x);
    ASSERT_EQ(op_names(step.graph()), std::vector<std::string>{"fused"});
    const Tensor expected = chain(x);
    expect_same_bits(y, expected, fmt::format("n = {}", n));
    expect_same_bits(squares, square(expected), fmt::format("n = {}", n));
    expect_same_bits(largest, max(expected), fmt::format("max of {}", n));
    expect_close(total, sum(expected), 2e-6 * std::sqrt(static_cast<double>(n)), fmt::format("sum of {}", n));
  }
}

TEST(FusedKernel, PeriodsAndRepeatsThatDoNotDivideTiles) {
  for (const int64_t period : {2, 3, 7, 100, 1000, 1023, 1024, 1025, 3000, 4096, 4097, 5000}) {
    for (const int64_t rows : {1, 2, 5}) {
      const auto chain = [](const Tensor& x, const Tensor& row, const Tensor& column) {
        return (x + row) * column - row;
      };
      const auto function = [&](const Tensor& x, const Tensor& row, const Tensor& column) {
        const Tensor y = chain(x, row, column);
        return std::tuple(y, sum(y, {0}), sum(y, {1}), max(y, {0}), min(y, {1}));
      };
      auto step = capture(function);
      const Tensor x = random({rows, period}, 2);
      const Tensor row = random({period}, 3);
      const Tensor column = random({rows, 1}, 4);
      const std::string what = fmt::format("{} x {}", rows, period);
      const auto [y, down, across, largest, smallest] = step(x, row, column);
      const Tensor expected = chain(x, row, column);
      expect_same_bits(y, expected, what);
      expect_close(down, sum(expected, {0}), 1e-5, "sum over rows, " + what);
      expect_close(across, sum(expected, {1}), 1e-4, "sum over columns, " + what);
      expect_same_bits(largest, max(expected, {0}), what);
      expect_same_bits(smallest, min(expected, {1}), what);
    }
  }
}

TEST(FusedKernel, GeneralBroadcastsAndTwoPeriods) {
  const auto function = [](const Tensor& x, const Tensor& a, const Tensor& b, const Tensor& c) {
    return tanh(x * a + b) - c;
  };
  auto step = capture(function);
  const Tensor x = random({4, 5, 3, 70}, 5);
  const Tensor a = random({5, 1, 70}, 6);    // zero stride in the middle
  const Tensor b = random({4, 1, 3, 1}, 7);  // and at both ends
  const Tensor c = random({3, 70}, 8);
  expect_same_bits(step(x, a, b, c), function(x, a, b, c), "general");
}

TEST(FusedKernel, EveryReducedAxisSet) {
  const Tensor x = random({3, 4, 5, 17}, 9, DType::kF64);
  for (int mask = 1; mask < 16; ++mask) {
    Axes axes;
    for (int axis = 0; axis < 4; ++axis) {
      if (mask >> axis & 1) axes.push_back(axis);
    }
    const auto function = [&](const Tensor& v) {
      const Tensor y = v * 1.25 - 0.5;
      return std::tuple(sum(y, axes), mean(y, axes, true), max(y, axes), min(y, axes, true), prod(y, axes));
    };
    auto step = capture(function);
    const auto got = step(x);
    ASSERT_EQ(op_names(step.graph()), std::vector<std::string>{"fused"});
    const auto expected = function(x);
    const std::string what = "axes " + dims_str(axes);
    expect_close(std::get<0>(got), std::get<0>(expected), 1e-13, "sum " + what);
    expect_close(std::get<1>(got), std::get<1>(expected), 1e-13, "mean " + what);
    expect_same_bits(std::get<2>(got), std::get<2>(expected), "max " + what);
    expect_same_bits(std::get<3>(got), std::get<3>(expected), "min " + what);
    expect_close(std::get<4>(got), std::get<4>(expected), 1e-12, "prod " + what);
  }
}

TEST(FusedKernel, NaNWinsInMaxAndMin) {
  std::vector<double> values(2000, 1.0);
  values[1500] = std::nan("");
  const Tensor x = from_vector({2, 1000}, values);
  auto step = capture([](const Tensor& v) {
    const Tensor y = v * 2.0;
    return std::tuple(max(y), min(y), max(y, {0}), max(y, {1}));
  });
  const auto [all, least, down, across] = step(x);
  EXPECT_TRUE(std::isnan(all.item<double>()));
  EXPECT_TRUE(std::isnan(least.item<double>()));
  EXPECT_TRUE(std::isnan(down.to_vector()[500]));
  EXPECT_EQ(down.to_vector()[499], 2);
  EXPECT_EQ(across.to_vector()[0], 2);
  EXPECT_TRUE(std::isnan(across.to_vector()[1]));
}

TEST(FusedKernel, ReductionsOfNothing) {
  const Tensor none = zeros({0, 3});
  EXPECT_EQ(sum(none).item<double>(), 0);
  EXPECT_EQ(prod(none).item<double>(), 1);
  EXPECT_TRUE(std::isnan(mean(none).item<double>()));
  EXPECT_EQ(max(none, {0}).to_vector(), std::vector<double>(3, -std::numeric_limits<double>::infinity()));
  EXPECT_EQ(sum(none, {1}).elems(), 0);
  EXPECT_EQ(prod(cast(none, DType::kI64)).item<int64_t>(), 1);
}

TEST(FusedKernel, WritesOverAVariableThatItStillReads) {
  // `next` is computed first and lands in the variable's own memory while `difference` still needs the old
  // content.
  for (const int64_t n : {5, 1024, 3000}) {
    const Tensor variable = random({n}, 10);
    const Tensor old = copy(variable);
    auto step = capture([&](const Tensor& x) {
      const Tensor next = variable * 0.5 + x;
      const Tensor difference = next - variable;
      assign(variable, next);
      return std::pair(difference, sum(difference));
    });
    const Tensor x = random({n}, 11);
    const auto [difference, total] = step(x);
    ASSERT_EQ(op_names(step.graph()), std::vector<std::string>{"fused"});
    EXPECT_EQ(step.plan_report().updates_in_place, 1);
    const Tensor next = old * 0.5 + x;
    expect_same_bits(variable.refreshed(), next, "variable");
    expect_same_bits(difference, next - old, "difference");
  }
}

TEST(FusedKernel, VariablesExchangedInOneProgram) {
  const Tensor a = random({2000}, 12);
  const Tensor b = random({2000}, 13);
  const Tensor old_a = copy(a);
  const Tensor old_b = copy(b);
  auto step = capture([&] {
    const Tensor both = a + b;
    const Tensor next_a = both - a;
    const Tensor next_b = both - b;
    assign(a, next_a);
    assign(b, next_b);
    return sum(both);
  });
  step();
  EXPECT_EQ(step.plan_report().updates_in_place, 2);
  expect_same_bits(a.refreshed(), old_a + old_b - old_a, "a");
  expect_same_bits(b.refreshed(), old_a + old_b - old_b, "b");
}

TEST(FusedKernel, ThreadsGiveTheSameElementsAndDeterministicSums) {
  const int before = compute_threads();
  set_compute_threads(2);
  const auto function = [](const Tensor& x, const Tensor& row) {
    const Tensor y = tanh(x * 0.5) + row;
    return std::tuple(y, sum(y), sum(y, {0}), max(y, {1}), sum(y, {1}));
  };
  const Tensor x = random({301, 1007}, 14);
  const Tensor row = random({1007}, 15);
  auto single = capture(function, CaptureOptions{.plan = {.threads = 1}});
  auto several = capture(function, CaptureOptions{.plan = {.threads = 2}});
  const auto a = single(x, row);
  const auto b = several(x, row);
  expect_same_bits(std::get<0>(a), std::get<0>(b), "elements");
  expect_close(std::get<1>(a), std::get<1>(b), 1e-6, "sum");
  expect_close(std::get<2>(a), std::get<2>(b), 1e-5, "sum over rows");
  expect_same_bits(std::get<3>(a), std::get<3>(b), "max");
  expect_close(std::get<4>(a), std::get<4>(b), 1e-5, "sum over columns");
  const Tensor first = copy(std::get<1>(b));
  const Tensor columns = copy(std::get<2>(b));
  for (int i = 0; i < 5; ++i) {
    const auto again = several(x, row);
    expect_same_bits(std::get<1>(again), first, "sum again");
    expect_same_bits(std::get<2>(again), columns, "sum over rows again");
  }
  set_compute_threads(before);
}

}  // namespace
}  // namespace isochron::graph
