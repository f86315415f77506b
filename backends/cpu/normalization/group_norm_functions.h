// The vector loops of group normalization (backends/cpu/normalization/group_norm.cc) over rows of one width,
// compiled per instruction set.
#pragma once

#include <cstdint>

#include "isochron/core/tensor/dtype.h"

namespace isochron::ops {

/// Rows of `width` elements, `stride` elements apart, of tensors stored as `E`. The other arrays have `width`
/// elements: a number for each position in a row. T is the type that E is computed in.
template <typename E>
struct GroupNormFunctions {
  using T = ComputeType<E>;
  /// sums += x - base, squares += (x - base)^2 over the rows. `scratch`: 3 `width`. f32 sums cover at most
  /// 128 rows and are relative to the mean of the rows before them, so neither a large mean nor single large
  /// elements change the variance by more than about 1e-5 of its size.
  void (*add_moments)(const E* x, const T* base, int64_t rows, int64_t stride, int64_t width, T* scratch,
                      double* sums, double* squares);
  /// y = (x - center) scale + shift.
  void (*normalize)(const E* x, const T* center, const T* scale, const T* shift, int64_t rows, int64_t stride,
                    int64_t width, E* y);
  /// sums += dy, products += dy (x - center). `scratch`: 2 `width`.
  void (*add_products)(const E* x, const E* dy, const T* center, int64_t rows, int64_t stride, int64_t width,
                       T* scratch, double* sums, double* products);
  /// dx = dy scale - (x - center) dot - mean.
  void (*gradient)(const E* x, const E* dy, const T* center, const T* scale, const T* dot, const T* mean,
                   int64_t rows, int64_t stride, int64_t width, E* dx);
  /// into += from, for n numbers.
  void (*add)(const double* from, int64_t n, double* into);
};

/// E: float, double, float16 or bfloat16.
template <typename E>
GroupNormFunctions<E> group_norm_functions();

}  // namespace isochron::ops
