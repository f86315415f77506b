// Matrix products of a library, chosen while a plan is made and put in its stream among the other kernels.
#pragma once

#include <cstdint>

#include "isochron/core/cuda/library_call.h"
#include "isochron/core/tensor/dtype.h"

namespace isochron::cuda {

/// Numbers in 8 bits: 4 of exponent and 3 of fraction, or 5 and 2.
enum class Float8 : uint8_t { kNone, kE4M3, kE5M2 };

/// c = op(a) op(b), `count` times, and where it is asked for d added to it, then the bias, then the larger of
/// that and 0. Matrices are stored by columns, one column `*_lead` elements from the
/// next, one matrix `*_step` elements from the next (0: all products take the same). op(a) has m rows and k
/// columns, op(b) has k and n. A call's tensors are a, b and c, then d, then the bias; for factors in bytes
/// after c two numbers in f32, by which a and b are multiplied.
struct ProductSpec {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t a_lead = 0, b_lead = 0, c_lead = 0;
  int64_t count = 1;
  int64_t a_step = 0, b_step = 0, c_step = 0;
  /// Of a and b, and of c: all kF64; or kF32, kF16, kBF16 with a c of the same or kF32. Sums are in f32,
  /// those of f64 in f64.
  DType factors = DType::kF32, result = DType::kF32;
  /// Factors in f32 are rounded to 10 bits of fraction first, for the device's fast units (relative error up
  /// to 2^-11 a factor).
  bool tf32 = false;
  /// Both factors in bytes, whatever `factors` is, not both in kE5M2, a transposed and b not; m, k and the
  /// leads of a and b are multiples of 16, c is in f32 or bf16.
  Float8 a_bytes = Float8::kNone, b_bytes = Float8::kNone;

  /// d is stored as c is and may be c; the bias is m numbers of c's dtype, one a row, the same for all
  /// products. Not of bytes; the bias and the larger of 0 not in f64.
  bool add_matrix = false, add_bias = false;
  /// What becomes of NaN is for the library.
  bool relu = false;

  bool in_bytes() const { return a_bytes != Float8::kNone; }
};

using ProductLibrary = KernelLibrary<ProductSpec>;

/// Throws kInvalidArgument where a matrix's columns overlap, an extent is below 1 or dtypes don't go
/// together.
void check(const ProductSpec& spec);

/// cuBLASLt of this machine; one for the process. Null where it isn't found, which is told once as an event
/// kNotice.
ProductLibrary* machine_products();

}  // namespace isochron::cuda
