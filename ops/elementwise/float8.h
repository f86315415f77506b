// Matrix products with operands rounded to 8 bits, scaled by the amax of earlier steps (delayed scaling). A
// Hopper device multiplies in 8 bits; elsewhere, and for sizes that its tensor cores don't support, the same
// rounded numbers are multiplied in 16 bits, which represent them exactly.
#pragma once

#include "isochron/core/tensor/tensor.h"
#include "isochron/graph/capture/variable.h"

namespace isochron {

/// Length of an amax history, f32 (kFloat8History): the largest magnitudes of a tensor in the latest steps,
/// the newest last. Entries for steps that haven't happened yet are 0.
inline constexpr int64_t kFloat8History = 16;

/// Returns `history` without its first (oldest) entry and with the largest finite magnitude of x appended.
/// history: f32 (kFloat8History), x: f32 of any shape. Not differentiable.
Tensor float8_history(const Tensor& history, const Tensor& x);

/// The amax history by which matmul_float8 scales incoming gradients.
struct Float8Gradient {
  Variable history = {};  // f32 (kFloat8History); may be undefined
  /// Whether the largest magnitude of each gradient is appended to `history`: at the end of each replay, or
  /// at once in eager mode.
  bool grows = false;
};

/// matmul(x, kernel) with both operands rounded to 8 bits: x / scale and kernel / scale are rounded to E4M3
/// (4 bits of exponent, 3 of mantissa; to nearest even; saturated at 448; infinities become NaN), multiplied,
/// summed and scaled back. The scale is delayed: it comes from the largest entry of the history except the
/// newest one, or from the newest one if there is no other. It is the smallest power of two by which that
/// amax must be divided to fit the format. The newest entry must be the tensor's own amax (float8_history).
/// Rounding changes an operand by at most 2^-4 of its value, or more if it is below 2^-6 times its scale.
/// Sums are in f32, except on a device that multiplies in 8 bits: Hopper's tensor cores add with a mantissa
/// of 13 bits, so a sum may be off by 2^-12 times the sum of its products' magnitudes. x: f32 (..., M, K),
/// kernel: f32 (K, N); under mixed precision x is first stored in 16 bits.
///
/// The gradient passes through the rounding unchanged (straight-through). Both gradients are products of the
/// same kind, with the incoming gradient in E5M2 (5 bits of exponent, 2 of mantissa; at most 57,344), scaled
/// as `gradient` says. Not differentiable twice.
///
/// Throws kShapeMismatch, kDtypeMismatch for dtypes other than f32, and kInvalidArgument if `gradient.grows`
/// is set without a history; a second gradient throws kUnsupported. Sources: Micikevicius et al., "FP8
/// Formats for Deep Learning" (2022); NVIDIA Transformer Engine's delayed scaling, but with scales that are
/// powers of two.
Tensor matmul_float8(const Tensor& x, const Tensor& kernel, const Tensor& x_history,
                     const Tensor& kernel_history, const Float8Gradient& gradient);

}  // namespace isochron
