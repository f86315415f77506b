// Small pieces that registry rows share: dtype checks, common shape rules, samples.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "isochron/graph/ir/op.h"

namespace isochron::ops {

using graph::Attributes;
using graph::ErrorSample;
using graph::GradientCall;
using graph::InputSample;
using graph::OpCall;
using graph::OpDef;
using graph::OpSample;

/// All dtypes, for ops that only move elements.
const std::vector<DType>& any_dtype();

/// Throws kInvalidArgument for a tensor that is undefined.
void require_defined(const Tensor& x, std::string_view where);
/// Throws kDtypeMismatch unless all inputs from `first` on have one dtype.
void require_same_dtype(const OpCall& call, size_t first = 0);
/// Throws kDtypeMismatch unless input `index` is floating.
void require_floating(const OpCall& call, size_t index = 0);
/// Throws kDtypeMismatch unless input `index` has `dtype`.
void require_dtype(const OpCall& call, size_t index, DType dtype);
/// Throws kShapeMismatch unless input `index` has at least/exactly `rank` axes.
void require_rank(const OpCall& call, size_t index, int rank);
void require_min_rank(const OpCall& call, size_t index, int rank);
/// Throws kShapeMismatch unless inputs a and b have equal shapes.
void require_same_shape(const OpCall& call, size_t a, size_t b);

/// Throws kDtypeMismatch unless input `index` is i64 or i32.
void require_indices(const OpCall& call, size_t index);
/// The call's attribute `axis`. Throws kOutOfRange unless `shape` has this axis.
int checked_axis(const OpCall& call, const Shape& shape);

/// The spec of input 0: for ops that keep shape and dtype.
std::vector<TensorSpec> infer_same(const OpCall& call);

/// Returns no gradient for any input, for ops whose gradient is zero everywhere (rounding, comparisons).
std::vector<Tensor> no_gradient(const GradientCall& call);

/// Zero-filled outputs for a reference implementation.
std::vector<std::vector<double>> zeros_of(std::span<const TensorSpec> outputs);

/// (..., K) as (rows, K).
Tensor as_rows(const Tensor& x);
/// (...) as (..., 1).
Tensor as_column(const Tensor& x);
/// `gradient` summed over the axes along which `shape` was broadcast.
Tensor sum_to(const Tensor& gradient, const Shape& shape);

}  // namespace isochron::ops
