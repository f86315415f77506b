// Matrix products whose factors are rounded to 8 bits, scaled by the largest magnitudes of steps before
// ("delayed scaling"). A Hopper device multiplies the bytes; elsewhere, and for sizes that its units don't
// take, the same rounded numbers are multiplied in 16 bits, which hold them exactly.
#pragma once

#include "isochron/core/tensor.h"
#include "isochron/graph/variable.h"

namespace isochron {

/// A tensor's largest magnitudes in the newest steps, the newest last: f32 (kFloat8History), 0 where there
/// was no step yet. Its scale is the least power of two by which the largest of them fits the format, and 1
/// where all are 0.
inline constexpr int64_t kFloat8History = 16;

/// x kernel, as matmul: x / scale and kernel / scale are rounded to E4M3 (4 bits of exponent, 3 of fraction;
/// to nearest even; at most 448, beyond which they are 448; infinities become NaN), multiplied, summed in f32
/// and scaled back. Relative error of a factor up to 2^-4, and more below 2^-6 x its scale. x: f32 (..., M,
/// K), kernel: f32 (K, N); under mixed precision both are stored in 16 bits.
///
/// Gradients pass by the rounding unchanged. They are products of the same kind with the incoming gradient in
/// E5M2 (5 bits, 2; at most 57,344), scaled by `gradient_history`, into which its largest magnitude goes: at
/// the end of each replay, or at once when eager. The other two are the caller's to keep (float8_history).
/// Not differentiable twice.
///
/// Throws kShapeMismatch, and kDtypeMismatch for other dtypes than f32.
/// Sources: Micikevicius et al., "FP8 Formats for Deep Learning" (2022); NVIDIA Transformer Engine's delayed
/// scaling, but for scales that are powers of two.
Tensor matmul_float8(const Tensor& x, const Tensor& kernel, const Tensor& x_history,
                     const Tensor& kernel_history, const Variable& gradient_history);

/// `history` with the largest magnitude of x, infinities and NaN apart, behind it and without its oldest.
/// history: f32 (kFloat8History), x: f32 of any shape. Not differentiable.
Tensor float8_history(const Tensor& history, const Tensor& x);

}  // namespace isochron
