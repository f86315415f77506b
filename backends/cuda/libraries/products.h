// Matrix products computed by a library. An algorithm is chosen while a plan is made, and enqueued with the
// plan's other kernels.
#pragma once

#include <cstdint>

#include "isochron/core/cuda/library_algorithm.h"
#include "isochron/core/tensor/dtype.h"

namespace isochron::cuda {

/// Numbers in 8 bits: 4 of exponent and 3 of fraction, or 5 and 2.
enum class Float8 : uint8_t { kNone, kE4M3, kE5M2 };

/// c = op(a) op(b), `count` times. On request, d is added, then the bias, and then a relu is applied.
/// Matrices are column-major: columns are `*_lead` elements apart, and matrices are `*_step` elements apart
/// (0: all products use the same matrix). op(a) has m rows and k columns, op(b) has k rows and n columns. A
/// call's tensors are a, b and c, then d, then the bias. For 8-bit operands, c is followed by two f32
/// numbers, by which a and b are multiplied.
struct ProductSpec {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t a_lead = 0, b_lead = 0, c_lead = 0;
  int64_t count = 1;
  int64_t a_step = 0, b_step = 0, c_step = 0;
  /// The dtypes of a and b (`factors`) and of c (`result`): either all kF64; or factors in kF32, kF16 or
  /// kBF16, and a result in the same dtype or kF32. Sums are in f32, or in f64 for f64.
  DType factors = DType::kF32, result = DType::kF32;
  /// Operands in f32 are first rounded to 10 bits of fraction, for the device's tensor cores (relative error
  /// up to 2^-11 per operand).
  bool tf32 = false;
  /// If set, both operands are in 8 bits, regardless of `factors`; at most one of them is kE5M2. a is
  /// transposed and b is not. m, k and the leads of a and b are multiples of 16. c is in f32 or bf16.
  Float8 a_bytes = Float8::kNone, b_bytes = Float8::kNone;

  /// d is stored like c and may be c itself. The bias is m numbers of c's dtype, one per row, the same for
  /// all products. Neither is supported for 8-bit operands. Bias and relu are not supported in f64.
  bool add_matrix = false, add_bias = false;
  /// The treatment of NaN is up to the library.
  bool relu = false;

  bool in_bytes() const { return a_bytes != Float8::kNone; }
};

using ProductLibrary = KernelLibrary<ProductSpec>;

/// Throws kInvalidArgument if a matrix's columns overlap, an extent is below 1 or the combination of dtypes
/// isn't supported.
void check(const ProductSpec& spec);

/// This machine's cuBLASLt, shared by the whole process. Null if it isn't found, which is reported once as an
/// event kNotice.
ProductLibrary* machine_products();

}  // namespace isochron::cuda
