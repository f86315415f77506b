// Ops on lists of tensors, for example all gradients or all weights of a model. Each op is a single kernel,
// so that a step with many small parameters doesn't need many kernels.
#pragma once

#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// The sum of the squares of all elements of all tensors, f64 (), accumulated in f64. For f32 tensors it is
/// finite if and only if all elements are finite. For f64 tensors, elements beyond 1e150 may make it
/// infinite. It has the same bits for any number of threads. Tensors: any shapes, all f32 or all f64. Throws
/// kInvalidArgument for an empty list, kDtypeMismatch.
Tensor square_sum(std::span<const Tensor> tensors);

/// alpha a[i] + beta b[i] for every i. alpha, beta: f64 (). If alpha is 0, `a` isn't read, so it may hold
/// anything, even NaN. The results may be written over `a`. Not differentiable. Throws kInvalidArgument
/// unless both lists have the same nonzero length; kShapeMismatch, kDtypeMismatch (f32 or f64).
std::vector<Tensor> blend(const Tensor& alpha, std::span<const Tensor> a, const Tensor& beta,
                          std::span<const Tensor> b);

}  // namespace isochron
