#include "isochron/backends/cpu/matmul/packed_matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "isochron/core/base/rng.h"
#include "isochron/core/process/threads.h"

namespace isochron::ops {
namespace {

std::vector<float> random_numbers(int64_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(static_cast<float>(rng.normal()));
  return result;
}

struct PackedCase {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
};

PackedProduct product_of(const PackedCase& shape, const std::vector<float>& a, const std::vector<float>& b,
                         std::vector<float>& c) {
  const auto& [m, n, k, transpose_a, transpose_b] = shape;
  return {m,
          n,
          k,
          a.data(),
          transpose_a ? 1 : k,
          transpose_a ? m : 1,
          b.data(),
          transpose_b ? 1 : n,
          transpose_b ? k : 1,
          c.data(),
          n};
}

TEST(PackedMatmul, OfAnyShapeIsTheProduct) {
  const int64_t width = packed_columns();
  for (const int64_t m : {1, 5, 6, 7, 13, 64, 193}) {
    for (const int64_t n : {int64_t{1}, width - 1, width, width + 1, 9 * width + 3, kPackedColumns + 5}) {
      for (const int64_t k : {1, 3, 256, 257, 600}) {
        if (n > kPackedColumns && (m > 7 || k > 257)) continue;  // slow
        for (const int transposed : {0, 1, 2, 3}) {
          const PackedCase shape{m, n, k, transposed % 2 == 1, transposed > 1};
          const std::vector<float> a = random_numbers(m * k, 1), b = random_numbers(k * n, 2);
          std::vector<float> c(static_cast<size_t>(m * n), NAN);
          const PackedProduct product = product_of(shape, a, b, c);
          std::vector<float> workspace(packed_workspace_floats(n, k, 1));
          packed_matmul(product, 1, workspace.data());
          double most = 0;
          for (int64_t i = 0; i < m; ++i) {
            for (int64_t j = 0; j < n; ++j) {
              double sum = 0;
              for (int64_t p = 0; p < k; ++p)
                sum += static_cast<double>(product.a[i * product.a_row + p * product.a_column]) *
                       static_cast<double>(product.b[p * product.b_row + j * product.b_column]);
              most = std::max(most, std::abs(sum - static_cast<double>(c[static_cast<size_t>(i * n + j)])));
            }
          }
          EXPECT_LT(most, 1e-5 * static_cast<double>(k) + 1e-5)
              << m << " " << n << " " << k << " " << transposed;
        }
      }
    }
  }
}

TEST(PackedMatmul, ElementsHaveTheSameBitsHoweverManyThreadsShareThem) {
  const int before = compute_threads();
  for (const PackedCase& shape : {PackedCase{200, 100, 700, false, true}, {31, 150, 300, true, false}}) {
    const auto& [m, n, k, transpose_a, transpose_b] = shape;
    const std::vector<float> a = random_numbers(m * k, 3), b = random_numbers(k * n, 4);
    std::vector<float> alone(static_cast<size_t>(m * n));
    for (const int threads : {1, 2, 3}) {
      set_compute_threads(threads);
      std::vector<float> workspace(packed_workspace_floats(n, k, threads));
      std::vector<float> c(static_cast<size_t>(m * n), NAN);
      packed_matmul(product_of(shape, a, b, c), threads, workspace.data());
      if (threads == 1) alone = c;
      EXPECT_EQ(c, alone) << threads;
    }
  }
  set_compute_threads(before);
}

}  // namespace
}  // namespace isochron::ops
