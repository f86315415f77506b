// Matrix products whose factors are rounded to 8 bits, scaled by the largest magnitudes of steps before
// ("delayed scaling"). A Hopper device multiplies the bytes; elsewhere, and for sizes that its units don't
// take, the same rounded numbers are multiplied in 16 bits, which hold them exactly.
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

/// x kernel, as matmul: x / scale and kernel / scale are rounded to E4M3 (4 bits of exponent, 3 of fraction;
/// to nearest even; at most 448, beyond which they are 448; infinities become NaN), multiplied, summed and
/// scaled back. Histories hold the tensor's own magnitude already, as their newest (float8_history); its
/// scale is the least power of two by which the largest before that fits the format ("delayed scaling"), or
/// the newest where there is none before. Relative error of a factor up to 2^-4, and more below 2^-6 x its
/// scale. Sums run in f32, but where a device multiplies bytes: Hopper's units add with 13 bits of fraction,
/// so that a sum may be off by 2^-12 of the sum of its products' magnitudes. x: f32 (..., M, K), kernel: f32
/// (K, N); under mixed precision x is stored in 16 bits before.
///
/// Gradients pass by the rounding unchanged. They are products of the same kind with the incoming gradient in
/// E5M2 (5 bits, 2; at most 57,344), scaled as `gradient` says. Not differentiable twice.
///
/// Throws kShapeMismatch, and kDtypeMismatch for other dtypes than f32.
/// Sources: Micikevicius et al., "FP8 Formats for Deep Learning" (2022); NVIDIA Transformer Engine's delayed
/// scaling, but for scales that are powers of two.
Tensor matmul_float8(const Tensor& x, const Tensor& kernel, const Tensor& x_history,
                     const Tensor& kernel_history, const Float8Gradient& gradient);

}  // namespace isochron
