#include "isochron/ops/rows/rules.h"

#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::ops {

const std::vector<DType>& any_dtype() {
  static const std::vector<DType> dtypes = {DType::kF64, DType::kF32, DType::kBF16,
                                            DType::kI64, DType::kU8,  DType::kBool};
  return dtypes;
}

std::vector<std::vector<double>> zeros_of(std::span<const TensorSpec> outputs) {
  std::vector<std::vector<double>> result;
  for (const TensorSpec& output : outputs) result.emplace_back(output.shape.elems(), 0.0);
  return result;
}

void require_defined(const Tensor& x, std::string_view where) {
  require(x.defined(), ErrorCode::kInvalidArgument, where, "an input is undefined");
}

void require_same_dtype(const OpCall& call, size_t first) {
  for (size_t i = first + 1; i < call.inputs.size(); ++i) {
    if (call.inputs[i].dtype != call.inputs[first].dtype) {
      fail(ErrorCode::kDtypeMismatch, call.op.name, "inputs {} and {} differ: {} and {}; cast one of them",
           first, i, call.inputs[first].str(), call.inputs[i].str());
    }
  }
}

void require_floating(const OpCall& call, size_t index) {
  if (!is_floating(call.inputs[index].dtype)) {
    fail(ErrorCode::kDtypeMismatch, call.op.name, "input {} must be floating, got {}; cast it", index,
         call.inputs[index].str());
  }
}

void require_dtype(const OpCall& call, size_t index, DType dtype) {
  if (call.inputs[index].dtype != dtype) {
    fail(ErrorCode::kDtypeMismatch, call.op.name, "input {} must be {}, got {}", index, dtype_name(dtype),
         call.inputs[index].str());
  }
}

void require_rank(const OpCall& call, size_t index, int rank) {
  if (call.inputs[index].shape.rank() != rank) {
    fail(ErrorCode::kShapeMismatch, call.op.name, "input {} must have {} axes, got {}", index, rank,
         call.inputs[index].str());
  }
}

void require_min_rank(const OpCall& call, size_t index, int rank) {
  if (call.inputs[index].shape.rank() < rank) {
    fail(ErrorCode::kShapeMismatch, call.op.name, "input {} must have at least {} axes, got {}", index, rank,
         call.inputs[index].str());
  }
}

void require_same_shape(const OpCall& call, size_t a, size_t b) {
  if (!(call.inputs[a].shape == call.inputs[b].shape)) {
    fail(ErrorCode::kShapeMismatch, call.op.name, "inputs {} and {} must have one shape: {} and {}", a, b,
         call.inputs[a].str(), call.inputs[b].str());
  }
}

void require_indices(const OpCall& call, size_t index) {
  const DType dtype = call.inputs[index].dtype;
  require(dtype == DType::kI64 || dtype == DType::kI32, ErrorCode::kDtypeMismatch, call.op.name,
          "indices must be i64 or i32, got {}; cast them", call.inputs[index].str());
}

int checked_axis(const OpCall& call, const Shape& shape) {
  const int64_t axis = call.attributes.get<int64_t>("axis");
  require(axis >= 0 && axis < shape.rank(), ErrorCode::kOutOfRange, call.op.name, "axis {} of {}", axis,
          shape.str());
  return static_cast<int>(axis);
}

std::vector<TensorSpec> infer_same(const OpCall& call) { return {call.inputs[0]}; }

std::vector<Tensor> no_gradient(const GradientCall& call) { return std::vector<Tensor>(call.inputs.size()); }

Tensor sum_to(const Tensor& gradient, const Shape& shape) {
  if (gradient.shape() == shape) return gradient;
  const int lead = gradient.rank() - shape.rank();
  Axes axes;
  for (int i = 0; i < gradient.rank(); ++i) {
    if (i < lead || (shape[i - lead] == 1 && gradient.shape()[i] != 1)) axes.push_back(i);
  }
  const Tensor summed = axes.empty() ? gradient : sum(gradient, axes, true);
  return reshape(summed, shape);
}

Tensor as_rows(const Tensor& x) {
  int64_t rows = 1;
  for (int axis = 0; axis + 1 < x.rank(); ++axis) rows *= x.extent(axis);
  return x.rank() == 2 ? x : reshape(x, {rows, x.extent(-1)});
}

Tensor as_column(const Tensor& x) {
  Dims shape = x.shape();
  shape.push_back(1);
  return reshape(x, shape);
}

}  // namespace isochron::ops
