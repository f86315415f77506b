// Which numbers a dtype holds.
#pragma once

#include "isochron/core/tensor/dtype.h"

namespace isochron::ops {

/// Throws kOutOfRange, as `where`, for what an integer dtype can't hold, fractions cut off, and for a finite
/// number that would be infinite in a floating dtype.
void require_held(double number, DType dtype, const char* where);
/// Throws kDtypeMismatch, as `where`, for a number that would lose its fraction beside a tensor of `dtype`.
void require_uncut(double number, DType dtype, const char* where);

/// Whether a 16-bit float would turn `number` into infinity, into 0 or into a subnormal number, which has
/// fewer digits than others.
bool beyond_half(double number, DType dtype);

/// The largest finite number of a floating dtype. Throws kDtypeMismatch for others.
double largest_finite(DType dtype);

}  // namespace isochron::ops
