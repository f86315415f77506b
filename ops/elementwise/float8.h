// Matrix products with operands rounded to 8 bits, scaled by the amax of earlier steps (delayed scaling). A
// Hopper device multiplies in 8 bits; elsewhere, and for sizes that its tensor cores don't support, the same
// rounded numbers are multiplied in 16 bits, which represent them exactly.
#pragma once

#include "isochron/core/tensor/tensor.h"
#include "isochron/graph/capture/variable.h"

namespace isochron {

/// A tensor's largest magnitudes in the newest steps, the newest last: f32 (kFloat8History), 0 where there
/// was no step yet.
inline constexpr int64_t kFloat8History = 16;

/// `history` with the largest magnitude of x, infinities and NaN apart, behind it and without its oldest.
/// history: f32 (kFloat8History), x: f32 of any shape. Not differentiable.
Tensor float8_history(const Tensor& history, const Tensor& x);

/// What matmul_float8 scales incoming gradients by.
struct Float8Gradient {
  Variable history = {};  // f32 (kFloat8History); none where undefined
  /// Whether each gradient's largest magnitude goes into it: at the end of each replay, or at once when
  /// eager.
  bool grows = false;
};

/// matmul(x, kernel) with both operands rounded to 8 bits: x / scale and kernel / scale are rounded to E4M3
/// (4 bits of exponent, 3 of mantissa; to nearest even; saturated at 448; infinities become NaN), multiplied,
/// summed and scaled back. The scale is delayed: the smallest power of two by which the largest amax of the
/// history, without its newest entry, fits the format; the newest one where the history has no other. The
/// newest entry must be the tensor's own amax (float8_history). Relative error of an operand up to 2^-4, and
/// more below 2^-6 times its scale. Sums are in f32, except on a device that multiplies in 8 bits: Hopper's
/// tensor cores add with a mantissa of 13 bits, so a sum may be off by 2^-12 times the sum of its products'
/// magnitudes. x: f32 (..., M, K), kernel: f32 (K, N); under mixed precision x is first stored in 16 bits.
///
/// The gradient passes through the rounding unchanged (straight-through). Both gradients are products of the
/// same kind with the incoming gradient in E5M2 (5 bits of exponent, 2 of mantissa; at most 57,344), scaled
/// as `gradient` says. Not differentiable twice.
///
/// Throws kShapeMismatch, and kDtypeMismatch for other dtypes than f32.
/// Sources: Micikevicius et al., "FP8 Formats for Deep Learning" (2022); NVIDIA Transformer Engine's delayed
/// scaling, but for scales that are powers of two.
Tensor matmul_float8(const Tensor& x, const Tensor& kernel, const Tensor& x_history,
                     const Tensor& kernel_history, const Float8Gradient& gradient);

}  // namespace isochron
