// Ops over lists of tensors, for operations on all gradients or all weights of a model at once. Each is a
// single kernel, so that a step with many small parameters doesn't need many kernels.
#pragma once

#include <span>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// The sum of the squares of all elements of all tensors, f64 (), added up in f64: for f32 it is finite
/// exactly where every element is (in f64, elements beyond 1e150 count as infinite). The same bits on any
/// number of threads. Tensors: any shapes, one dtype, f32 or f64. Throws kInvalidArgument for none,
/// kDtypeMismatch.
Tensor square_sum(std::span<const Tensor> tensors);

/// alpha a[i] + beta b[i] for every i. alpha, beta: f64 (). If alpha is 0, `a` isn't read, so it may hold
/// anything, even NaN. The results may be written over `a`. Not differentiable. Throws kInvalidArgument
/// unless both lists have the same nonzero length; kShapeMismatch, kDtypeMismatch (f32 or f64).
std::vector<Tensor> blend(const Tensor& alpha, std::span<const Tensor> a, const Tensor& beta,
                          std::span<const Tensor> b);

}  // namespace isochron
