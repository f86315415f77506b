// The vector loops of ops/elementwise/float8.h, compiled per instruction set. The results have the same bits
// on all of them.
#pragma once

#include <cstdint>

#include "isochron/core/tensor/dtype.h"
#include "isochron/ops/elementwise/float8_numbers.h"

namespace isochron::ops {

struct Float8Functions {
  /// to[i] = from[i] rounded to the format at `scale` (element::rounded_to_float8), times `scale`; `from` has
  /// the dtype given to float8_functions.
  void (*round)(const void* from, float scale, bfloat16* to, int64_t count);
  /// The largest magnitude, ignoring infinities and NaN; 0 if there is none.
  float (*largest)(const void* from, int64_t count);
};

/// `dtype`: kF32 or kBF16.
template <typename Format>
Float8Functions float8_functions(DType dtype);
template <>
Float8Functions float8_functions<element::E4M3>(DType dtype);
template <>
Float8Functions float8_functions<element::E5M2>(DType dtype);

}  // namespace isochron::ops
