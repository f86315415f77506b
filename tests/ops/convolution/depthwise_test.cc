// The vector functions of depthwise convolution on every instruction set: whole vectors, tails, and nothing
// written beyond them.
#include "isochron/backends/cpu/convolution/depthwise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/vector_targets.h"

namespace isochron {
namespace {

constexpr int64_t kCount = 7;
constexpr int64_t kMaxChannels = 70;

template <typename T>
std::vector<T> numbers(int64_t count, double seed) {
  std::vector<T> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(std::sin(seed + 0.7 * static_cast<double>(i)));
  }
  return values;
}

template <typename T>
void expect_sums(int64_t n, bool bias) {
  const double tolerance = sizeof(T) == 4 ? 1e-5 : 1e-13;
  const std::vector<T> x = numbers<T>(kCount * n, 1);
  const std::vector<T> w = numbers<T>(kCount * n, 2);
  const std::vector<T> b = numbers<T>(n, 3);
  std::vector<const T*> rows, weights;
  for (int64_t k = 0; k < kCount; ++k) {
    rows.push_back(x.data() + k * n);
    weights.push_back(w.data() + k * n);
  }
  std::vector<T> y(static_cast<size_t>(n + 1), T{9});
  std::vector<T> total(static_cast<size_t>(n + 1), T{9});
  const ops::DepthwiseFunctions<T>& functions = ops::depthwise_functions<T>();
  functions.weighted_sum(rows.data(), weights.data(), kCount, bias ? b.data() : nullptr, y.data(), n);
  functions.add_products(bias ? x.data() : nullptr, n, w.data(), n, kCount, total.data(), n);
  for (int64_t c = 0; c < n; ++c) {
    const size_t i = static_cast<size_t>(c);
    double sum = bias ? b[i] : 0;
    double added = 9;
    for (int64_t k = 0; k < kCount; ++k) {
      sum += static_cast<double>(rows[static_cast<size_t>(k)][c]) * weights[static_cast<size_t>(k)][c];
      added += (bias ? rows[k][c] : 1.0) * weights[k][c];
    }
    ASSERT_NEAR(y[i], sum, tolerance) << n << " channels, " << c;
    ASSERT_NEAR(total[i], added, tolerance) << n << " channels, " << c;
  }
  EXPECT_EQ(y.back(), T{9});
  EXPECT_EQ(total.back(), T{9});
}

TEST(DepthwiseFunctions, SumOnEveryInstructionSet) {
  for_each_target([] {
    for (int64_t n = 1; n <= kMaxChannels; ++n) {
      for (const bool bias : {false, true}) {
        expect_sums<float>(n, bias);
        expect_sums<double>(n, bias);
      }
    }
  });
}

}  // namespace
}  // namespace isochron
