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

/// Rows of a, elements of each sum and columns of b that are packed at once; more rows where sums are
/// shorter. Sums over k are split at multiples of kPackedDepth, so that an element of c has the same bits
/// whichever rows and columns are multiplied together with it.
inline constexpr int64_t kPackedRows = 192, kPackedDepth = 256, kPackedColumns = 512;
/// Columns of a panel, for the vector instructions in use; kPackedColumns is a multiple of them.
int64_t packed_columns();

/// `threads`: 1 or compute_threads().
size_t packed_workspace_floats(int64_t n, int64_t k, int threads);
void packed_matmul(const PackedProduct& product, int threads, float* workspace);

}  // namespace isochron::ops
