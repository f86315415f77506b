// Which numbers a dtype holds.
#pragma once

#include "isochron/core/tensor/dtype.h"

namespace isochron::ops {

/// Throws kOutOfRange, as `where`, for what an integer dtype can't hold, fractions cut off.
void require_held(double number, DType dtype, const char* where);
/// Throws kDtypeMismatch, as `where`, for a number that would lose its fraction beside a tensor of `dtype`.
void require_uncut(double number, DType dtype, const char* where);

/// The largest finite number of a floating dtype. Throws kDtypeMismatch for others.
double largest_finite(DType dtype);

}  // namespace isochron::ops
