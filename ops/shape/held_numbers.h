// Checks whether a dtype can represent a number.
#pragma once

#include "isochron/core/tensor/dtype.h"

namespace isochron::ops {

/// Throws kOutOfRange, naming `where`, if an integer dtype can't represent the truncated number, or if a
/// finite number would be infinite in a floating dtype.
void require_held(double number, DType dtype, const char* where);
/// Throws kDtypeMismatch, naming `where`, if `dtype` is an integer dtype and the number has a fraction.
void require_uncut(double number, DType dtype, const char* where);

/// Whether `dtype` is a 16-bit float and `number` lies outside the range of its normal numbers (0 and
/// infinity are inside).
bool out_of_half_range(double number, DType dtype);

/// The largest finite number of a floating dtype. Throws kDtypeMismatch for others.
double largest_finite(DType dtype);

}  // namespace isochron::ops
