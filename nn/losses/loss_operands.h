// What the sources of the losses share: checks of operands, and arithmetic in f32 for 16-bit operands.
#pragma once

#include <string_view>

#include "isochron/core/tensor/tensor.h"
#include "isochron/nn/losses/losses.h"

namespace isochron::nn {

/// Throws kInvalidArgument for undefined operands, and kShapeMismatch unless both have the same shape, (N,
/// ...).
void require_one_shape(const Tensor& prediction, const Tensor& target, std::string_view loss);
/// Throws kDtypeMismatch unless both are of one floating dtype.
void require_floating(const Tensor& prediction, const Tensor& target, std::string_view loss);
/// Both checks above; require_vectors, for losses of whole vectors, also requires the shape (N, ..., C).
void require_numbers(const Tensor& prediction, const Tensor& target, std::string_view loss);
void require_vectors(const Tensor& prediction, const Tensor& target, std::string_view loss);
/// Throws kDtypeMismatch unless labels are integers, kShapeMismatch unless there is one for each row of
/// predictions (N, ..., C).
void require_labels(const Tensor& prediction, const Tensor& labels, std::string_view loss);
/// Throws unless the class weights are undefined, or (C) and of the predictions' dtype.
void require_class_weights(const Tensor& weights, const Tensor& prediction, std::string_view loss);
/// Returns `factor` unchanged. Throws kShapeMismatch unless it broadcasts to the predictions' shape.
Tensor require_broadcast(const Tensor& factor, const Tensor& prediction, std::string_view name,
                         std::string_view loss);

/// The targets, moved towards 1 / classes by label smoothing; `smoothing` must lie in [0, 1].
Tensor smoothed(const Tensor& targets, double smoothing, int64_t classes, std::string_view loss);

inline constexpr double kKerasEpsilon = 1e-7;

/// Converts x to f32 if it has 16 bits, which hold neither small differences nor large quotients.
Tensor widened(const Tensor& x);
/// How losses with options of their own are reduced.
template <typename Options>
LossOptions reduction_of(const Options& options) {
  return {options.reduction, options.sample_weights, options.per_sample};
}
/// Reduces losses of widened operands and rounds the result to `dtype`, the dtype of the predictions.
Tensor reduce_widened(const Tensor& losses, DType dtype, LossOptions options);

/// The cosine of the angle between widened vectors (..., C). A vector's length counts as at least 1e-6.
Tensor cosine_of_angle(const Tensor& a, const Tensor& b);

}  // namespace isochron::nn
