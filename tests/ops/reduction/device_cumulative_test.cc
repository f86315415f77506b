// Cumulative ops on a simulated device against the CPU: what the registry's samples can't say.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/cumulative.h"
#include "isochron/ops/shape/creation.h"
#include "support/simulated/results_on.h"

namespace isochron {
namespace {

using Arguments = std::span<const Tensor>;
using Numbers = std::vector<double>;

/// Compares the results of `function` here with those on devices with few and with many multiprocessors; many
/// multiprocessors share an axis.
template <typename F>
void expect_the_cpus_results(const F& function, const std::vector<Tensor>& arguments, double tolerance) {
  const auto expected = results_of(function, arguments);
  for (const int multiprocessors : {1, 132}) {
    const auto results = results_of(function, arguments, multiprocessors);
    for (size_t r = 0; r < expected.size(); ++r) {
      ASSERT_EQ(results[r].size(), expected[r].size());
      for (size_t i = 0; i < expected[r].size(); ++i) {
        const double a = results[r][i], b = expected[r][i];
        ASSERT_TRUE(std::isnan(b) ? std::isnan(a)
                                  : a == b || std::abs(a - b) <= tolerance * (1 + std::abs(b)))
            << arguments[0].spec().str() << " on " << multiprocessors << ", result " << r << " element " << i
            << ": " << a << " and " << b;
      }
    }
  }
}

std::vector<Tensor> all_of(const Tensor& x, int64_t axis) {
  const auto [largest, of_largest] = cumulative_max(x, axis);
  const auto [smallest, of_smallest] = cumulative_min(x, axis, true);
  return {cumulative_sum(x, axis),
          cumulative_sum(x, axis, {.exclusive = true, .reverse = true}),
          log_cumulative_sum_exp(x, axis),
          log_cumulative_sum_exp(x, axis, {.reverse = true}),
          linear_recurrence(x, x, axis),
          linear_recurrence(x, x, axis, true),
          cumulative_product(x + 1.0, axis, {.exclusive = true}),
          cumulative_product(x + 1.0, axis, {.reverse = true}),
          largest,
          of_largest,
          smallest,
          of_smallest};
}

TEST(DeviceCumulative, AxesMayBeLongAndInTheMiddle) {
  struct Case {
    Shape shape;
    int64_t axis;
    DType dtype;
  };
  for (const Case& of :
       {Case{{10'000}, 0, DType::kF32}, Case{{3, 2500}, 1, DType::kF64}, Case{{5000, 3}, 0, DType::kF32},
        Case{{2, 700, 45}, 1, DType::kF64}, Case{{2, 1, 5}, 1, DType::kF32}}) {
    const auto all = [&](Arguments in) { return all_of(in[0], of.axis); };
    expect_the_cpus_results(all, {waves(of.shape, 0.37, of.dtype)}, of.dtype == DType::kF64 ? 1e-10 : 1e-5);
  }
}

TEST(DeviceCumulative, AccumulatesHalvesInF64) {
  const auto all = [](Arguments in) { return all_of(in[0], 0); };
  for (const DType dtype : {DType::kF16, DType::kBF16})
    expect_the_cpus_results(all, {waves({2500, 2}, 0.37, dtype)}, dtype == DType::kF16 ? 2e-3 : 1e-2);
  const auto sums = [](Arguments in) { return std::vector<Tensor>{cumulative_sum(in[0], 0)}; };
  EXPECT_EQ(results_of(sums, {full({2560}, 1, DType::kBF16)}, 132)[0].back(), 2560);
}

TEST(DeviceCumulative, IntegersWrapAround) {
  const auto sums = [](Arguments in) {
    const auto [largest, positions] = cumulative_max(in[0], 0, true);
    return std::vector<Tensor>{cumulative_sum(in[0], 0), cumulative_product(in[0], 0, {.reverse = true}),
                               largest, positions};
  };
  Numbers numbers;
  for (int i = 0; i < 5000; ++i) numbers.push_back(1 + 2 * (i * 7 % 13));
  for (const DType dtype : {DType::kI64, DType::kI32, DType::kU8})
    expect_the_cpus_results(sums, {from_vector({5000}, numbers, dtype)}, 0);
}

TEST(DeviceCumulative, TiesAndNanAreTheCpus) {
  Numbers numbers;
  for (int i = 0; i < 5000; ++i) numbers.push_back(i % 5);
  numbers[3000] = numbers[4200] = NAN;
  const auto extremes = [](Arguments in) {
    const auto [largest, first] = cumulative_max(in[0], 0);
    const auto [smallest, second] = cumulative_min(in[0], 0, true);
    return std::vector<Tensor>{largest, first, smallest, second};
  };
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16})
    expect_the_cpus_results(extremes, {from_vector({5000}, numbers, dtype)}, 0);
}

TEST(DeviceCumulative, WhatOverflowsInAPartMakesNoNan) {
  // Sequentially, 0 stays 0 and infinity stays infinite, whatever finite nonzero numbers follow.
  const auto products = [](Arguments in) {
    return std::vector<Tensor>{cumulative_product(in[0], 0), linear_recurrence(in[0], in[1], 0),
                               cumulative_product(in[0], 0, {.reverse = true})};
  };
  for (const double begin : Numbers{0, 1, INFINITY, NAN}) {
    for (const double factor : {1e200, -1e-200}) {
      Numbers factors(6000, factor), terms(6000, 0);
      factors[0] = begin;
      expect_the_cpus_results(
          products, {from_vector({6000}, factors, DType::kF64), from_vector({6000}, terms, DType::kF64)},
          1e-12);
      terms[1] = INFINITY;
      expect_the_cpus_results(
          products, {from_vector({6000}, factors, DType::kF64), from_vector({6000}, terms, DType::kF64)},
          1e-12);
    }
  }
  // Nor what is out of range only where a part begins with it.
  Numbers waves_of_powers(6000, 0.5), begun(6000, 0);
  std::fill_n(waves_of_powers.begin() + 1000, 2000, 2);
  std::fill_n(waves_of_powers.begin() + 4000, 1000, 2);
  begun[0] = 1;
  expect_the_cpus_results(products, {from_vector({6000}, waves_of_powers), from_vector({6000}, begun)}, 1e-6);
  Numbers tiny_then_huge(200, 1);
  std::fill_n(tiny_then_huge.begin(), 8, 1e-38);
  std::fill_n(tiny_then_huge.begin() + 8, 16, 1e38);
  tiny_then_huge[24] = 0;
  expect_the_cpus_results(products, {from_vector({200}, tiny_then_huge), from_vector({200}, Numbers(200, 0))},
                          0);
  Numbers factors(6000, 2), terms(6000, 0);
  terms[5990] = 1;
  factors[10] = 0;
  expect_the_cpus_results(products, {from_vector({6000}, factors), from_vector({6000}, terms)}, 1e-6);
}

TEST(DeviceCumulative, NothingAndInfinityAreTheCpusInLogarithms) {
  Numbers numbers(5000, -INFINITY);
  numbers[2500] = 1000;
  numbers[2501] = 1000;
  numbers[4900] = INFINITY;
  const auto sums = [](Arguments in) {
    return std::vector<Tensor>{log_cumulative_sum_exp(in[0], 0),
                               log_cumulative_sum_exp(in[0], 0, {.reverse = true})};
  };
  expect_the_cpus_results(sums, {from_vector({5000}, numbers, DType::kF64)}, 1e-12);
  numbers[4800] = NAN;
  expect_the_cpus_results(sums, {from_vector({5000}, numbers, DType::kF64)}, 1e-12);
}

TEST(DeviceCumulative, ResultsAreTheSameAgain) {
  const auto all = [](Arguments in) { return all_of(in[0], 0); };
  const std::vector<Tensor> x = {waves({9000}, 0.37)};
  EXPECT_EQ(results_of(all, x, 132), results_of(all, x, 132));
}

}  // namespace
}  // namespace isochron
