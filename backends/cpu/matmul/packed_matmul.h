// The packed matrix multiply of packed_matmul.cc. Threads share the longer side of the result.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isochron::ops {

/// c (m x n) = a b. Element (i, p) of a is at a[i * a_row + p * a_column], b's (p, j) at b[p * b_row + j *
/// b_column]; rows of c are contiguous, c_row apart.
struct PackedProduct {
  int64_t m, n, k;  // k > 0
  const float* a;
  int64_t a_row, a_column;
  const float* b;
  int64_t b_row, b_column;
  float* c;
  int64_t c_row;
};

/// The largest block that is packed at once: rows of a (more if k is below kPackedDepth), elements of each
/// sum, columns of b. Sums over k are always split at multiples of kPackedDepth, so the bits of an element of
/// c don't depend on which other rows and columns the same thread computes.
inline constexpr int64_t kPackedRows = 192, kPackedDepth = 256, kPackedColumns = 512;
/// The number of columns of a panel, which depends on the vector instructions in use.
int64_t packed_columns();

/// `threads`: 1 or compute_threads().
size_t packed_workspace_floats(int64_t n, int64_t k, int threads);
void packed_matmul(const PackedProduct& product, int threads, float* workspace);

}  // namespace isochron::ops
