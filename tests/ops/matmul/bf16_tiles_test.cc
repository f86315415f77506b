// Products in tile registers, against sums in doubles. Skipped where the processor has none.
#include "isochron/backends/cpu/common/bf16_tiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "isochron/core/base/checked.h"

namespace isochron::ops {
namespace {

struct Sizes {
  int64_t rows, columns, outer, inner, spare;  // `spare`: elements between rows beyond those that are read
  bool one_init_row;
};

std::vector<bfloat16> numbers(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<bfloat16> result;
  for (int64_t i = 0; i < count; ++i) result.emplace_back(uniform(generator));
  return result;
}

void expect_product(const Sizes& s) {
  const int64_t whole = align_up(s.rows, kTileRows);
  const int64_t a_row = s.inner + s.spare, a_outer = whole * a_row;
  const int64_t b_row = 2 * (s.columns + s.spare), c_row = s.columns + s.spare;
  std::vector<bfloat16> a = numbers(s.outer * a_outer, 1);
  for (int64_t o = 0; o < s.outer; ++o) {  // the rows after the last may hold anything
    for (int64_t i = s.rows * a_row; i < a_outer; ++i) {
      a[static_cast<size_t>(o * a_outer + i)] = bfloat16(std::nanf(""));
    }
  }
  const std::vector<bfloat16> b = numbers(s.outer * s.inner / 2 * b_row, 2);
  std::vector<float> init(static_cast<size_t>(whole * c_row), 0.5F), c(init.size(), 7.0F);
  for (int64_t i = 0; i < c_row; ++i) init[static_cast<size_t>(i)] = static_cast<float>(i);
  const int64_t init_row = s.one_init_row ? 0 : c_row;

  const TileRegisters registers;
  const Left<bfloat16> left{a.data(), a_row, 2, a_outer, s.inner / 2, s.outer, true};
  multiply_tiles({s.rows, s.columns, left, b.data(), b_row, init.data(), init_row, c.data(), c_row});

  for (int64_t r = 0; r < s.rows; ++r) {
    for (int64_t column = 0; column < s.columns; ++column) {
      double want = init[static_cast<size_t>(r * init_row + column)];
      for (int64_t k = 0; k < s.outer * s.inner; ++k) {
        const int64_t at_a = k / s.inner * a_outer + r * a_row + k % s.inner;
        const int64_t at_b = k / 2 * b_row + 2 * column + k % 2;
        want += static_cast<double>(static_cast<float>(a[static_cast<size_t>(at_a)])) *
                static_cast<double>(static_cast<float>(b[static_cast<size_t>(at_b)]));
      }
      ASSERT_NEAR(c[static_cast<size_t>(r * c_row + column)], want, 1e-5 * (1 + std::abs(want)))
          << s.rows << " x " << s.columns << ", element " << r << ", " << column;
    }
    for (int64_t column = s.columns; column < c_row; ++column) {
      ASSERT_EQ(c[static_cast<size_t>(r * c_row + column)], 7.0F) << "written between rows";
    }
  }
}

TEST(Bf16Tiles, MultiplyBlocksOfAnyHeight) {
  if (!multiplies_tiles()) GTEST_SKIP() << "this processor, or the process, has no tile registers for bf16";
  for (const int64_t rows : {1, 2, 15, 16, 17, 31, 32, 33, 48, 50, 64}) {
    for (const int64_t columns : {16, 32, 48, 64}) {
      expect_product({rows, columns, 1, 32, 0, false});
      expect_product({rows, columns, 3, 64, 16, true});
    }
  }
}

}  // namespace
}  // namespace isochron::ops
