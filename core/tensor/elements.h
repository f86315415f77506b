// Writing elements of a dtype that is known at run time only.
#pragma once

#include <cstdint>

#include "isochron/core/tensor/dtype.h"

namespace isochron {

/// dst[i] = value for i < n.
void fill_elements(void* dst, DType dtype, const void* value, int64_t n);
/// Writes `number` as one element of `dtype`: rounded to nearest in floating dtypes, towards 0 in integers.
void store_number(void* dst, DType dtype, double number);

}  // namespace isochron
