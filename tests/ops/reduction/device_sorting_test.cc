// Sorting on a simulated device against the CPU: what the registry's samples can't say.
#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "isochron/ops/reduction/sorting.h"
#include "isochron/ops/shape/creation.h"
#include "support/simulated/results_on.h"

namespace isochron {
namespace {

using Arguments = std::span<const Tensor>;

/// What both orders of the first `k` give here and on a device, bit for bit.
void expect_the_cpus_order(const Tensor& x, int64_t k, int64_t axis) {
  const auto both = [&](Arguments in) {
    const auto [largest, of_largest] = top_k(in[0], k, axis, true);
    const auto [smallest, of_smallest] = top_k(in[0], k, axis, false);
    return std::vector<Tensor>{largest, of_largest, smallest, of_smallest};
  };
  const auto expected = results_of(both, {x}), results = results_of(both, {x}, 4);
  for (size_t r = 0; r < expected.size(); ++r) {
    ASSERT_EQ(results[r].size(), expected[r].size());
    for (size_t i = 0; i < expected[r].size(); ++i) {
      const double a = results[r][i], b = expected[r][i];
      ASSERT_TRUE(std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b))
          << x.spec().str() << " k " << k << " result " << r << " element " << i << ": " << a << " and " << b;
    }
  }
}

/// With ties, zeros of both signs, infinities and NaN where the dtype has them.
Tensor ties(const Shape& shape, DType dtype) {
  const bool is_float = is_half(dtype) || dtype == DType::kF32 || dtype == DType::kF64;
  std::vector<double> numbers;
  for (int64_t i = 0; i < shape.elems(); ++i) {
    const auto number = static_cast<double>((i * 7919 + i / 5) % 61) - (is_float ? 30 : 0);
    numbers.push_back(dtype == DType::kBool ? static_cast<double>(i % 3 == 0) : number);
    if (!is_float) continue;
    if (i % 97 == 5) numbers.back() = NAN;
    if (i % 97 == 11) numbers.back() = -NAN;
    if (i % 89 == 3) numbers.back() = -0.0;
    if (i % 83 == 7) numbers.back() = i % 2 == 0 ? INFINITY : -INFINITY;
  }
  return from_vector(shape, numbers, dtype);
}

TEST(DeviceSorting, LinesOfATileAreStableInEveryDtype) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64, DType::kI32,
                            DType::kU8, DType::kBool}) {
    expect_the_cpus_order(ties({3, 300, 2}, dtype), 300, 1);
    expect_the_cpus_order(ties({3, 300, 2}, dtype), 7, 1);
  }
}

TEST(DeviceSorting, LongLinesAreMerged) {
  for (const DType dtype : {DType::kF32, DType::kI64}) {
    expect_the_cpus_order(ties({2, 2049}, dtype), 2049, 1);
    expect_the_cpus_order(ties({9000}, dtype), 9000, 0);
    expect_the_cpus_order(ties({9000}, dtype), 5, 0);
    expect_the_cpus_order(ties({7000, 2}, dtype), 3000, 0);
    expect_the_cpus_order(ties({4096}, dtype), 2048, 0);
  }
}

TEST(DeviceSorting, ShortLinesShareBlocks) {
  for (const int64_t count : {1, 2, 3, 31, 64})
    expect_the_cpus_order(ties({700, count}, DType::kF32), count, 1);
  expect_the_cpus_order(ties({0, 4}, DType::kF32), 2, 1);
  expect_the_cpus_order(ties({4, 5}, DType::kF32), 0, 1);
}

TEST(DeviceSorting, TakesExtremeIntegers) {
  using Limits = std::numeric_limits<int64_t>;
  expect_the_cpus_order(from_span<int64_t>({4}, std::vector<int64_t>{0, Limits::min(), Limits::max(), -1}), 4,
                        0);
  expect_the_cpus_order(from_vector({4}, {0, INT32_MIN, INT32_MAX, -1}, DType::kI32), 4, 0);
}

TEST(DeviceSorting, OneResultMayBeUnread) {
  for (const bool values : {true, false}) {
    const auto one = [&](Arguments in) {
      const auto [x, positions] = top_k(in[0], 4);
      return std::vector<Tensor>{values ? x : positions};
    };
    EXPECT_EQ(results_of(one, {ties({3, 50}, DType::kI32)}, 4),
              results_of(one, {ties({3, 50}, DType::kI32)}));
  }
}

}  // namespace
}  // namespace isochron
