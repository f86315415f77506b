// Normalization of channels, groups of channels and rows to mean 0 and variance 1. Variances are biased
// (divided by n) throughout. f32 and f64; 16-bit floats are computed in f32.
#pragma once

#include "isochron/core/tensor/tensor.h"

namespace isochron {

struct Moments {
  Tensor mean;
  Tensor variance;
};
/// Mean and variance of each channel over all other axes. x: (..., C) with at least one row; results (C), f32
/// if x has 16 bits. Computed in one pass. Each block of x is summed relative to the mean of the blocks
/// before it, and blocks are combined in f64, so a large mean doesn't make the variance inaccurate. Throws
/// kShapeMismatch, kDtypeMismatch.
Moments channel_moments(const Tensor& x);

/// (x - mean) gamma / sqrt(variance + epsilon) + beta for each channel. x: (..., C), the others (C). Throws
/// kShapeMismatch.
Tensor normalize_channels(const Tensor& x, const Moments& moments, const Tensor& gamma, const Tensor& beta,
                          double epsilon);

/// Normalizes each row of the last axis to mean 0 and variance 1 (Ba, Kiros, Hinton: "Layer Normalization",
/// 2016), times gamma, plus beta; both (D), and either may be undefined. x: (..., D) with any number of rows,
/// including none. Throws kShapeMismatch, kDtypeMismatch.
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon = 1e-5);
/// x / sqrt(mean x^2 + epsilon) gamma for each row (Zhang and Sennrich: "Root Mean Square Layer
/// Normalization", NeurIPS 2019).
Tensor rms_norm(const Tensor& x, const Tensor& gamma, double epsilon = 1e-5);

/// The result of batch normalization: y, and the moments (C) that the channels were normalized by.
struct NormalizedBatch {
  Tensor y;
  Moments moments;
};
/// Normalizes each channel to mean 0 and variance 1 over all other axes (Ioffe and Szegedy: "Batch
/// Normalization", ICML 2015), times gamma, plus beta. gamma and beta: (C), and either may be undefined. x:
/// (..., C). The moments are those of channel_moments; gradients flow through them. Throws kShapeMismatch,
/// kDtypeMismatch.
NormalizedBatch batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon = 1e-5);

/// Splits the channels of each sample into `groups` equal parts, and normalizes each part to mean 0 and
/// variance 1 over all positions (Wu and He: "Group Normalization", ECCV 2018), times gamma, plus beta. gamma
/// and beta: (C), and either may be undefined. x: (N, ..., C); N may be 0. Blocks of at most 128 rows are
/// summed relative to the mean of the blocks before them, and combined in f64, so a large mean doesn't make y
/// inaccurate. Results and gradients have the same bits for any number of threads. Throws kShapeMismatch,
/// kDtypeMismatch, kInvalidArgument unless groups divides C.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& gamma, const Tensor& beta,
                  double epsilon = 1e-5);
/// The same for each channel separately (Ulyanov, Vedaldi, Lempitsky: "Instance Normalization", 2016).
Tensor instance_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double epsilon = 1e-5);

}  // namespace isochron
