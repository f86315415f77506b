#include "isochron/ops/shape/tensor_lists.h"

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"

namespace isochron {
namespace ops {
namespace {

using Doubles = std::vector<std::vector<double>>;

void require_wide_float(const OpCall& call, size_t index) {
  const DType dtype = call.inputs[index].dtype;
  require(dtype == DType::kF32 || dtype == DType::kF64, ErrorCode::kDtypeMismatch, call.op.name,
          "takes f32 or f64, got {}; cast first", dtype_name(dtype));
}

double elems_of(const OpCall& call) {
  double elems = 0;
  for (const TensorSpec& input : call.inputs) elems += static_cast<double>(input.shape.elems());
  return elems;
}

std::vector<TensorSpec> infer_square_sum(const OpCall& call) {
  require_wide_float(call, 0);
  require_same_dtype(call);
  return {{DType::kF64, {}}};
}

std::vector<Tensor> square_sum_gradient(const GradientCall& call) {
  std::vector<Tensor> results;
  for (const Tensor& input : call.inputs)
    results.push_back(input * cast(call.output_gradients[0] * 2.0, input.dtype()));
  return results;
}

Doubles square_sum_reference(const OpCall&, std::span<const TensorSpec>, const Doubles& inputs) {
  double total = 0;
  for (const std::vector<double>& input : inputs) {
    for (const double value : input) total += value * value;
  }
  return {{total}};
}

std::vector<TensorSpec> infer_blend(const OpCall& call) {
  require(call.inputs.size() % 2 == 0, ErrorCode::kInvalidArgument, call.op.name,
          "takes two numbers and two lists of the same length, got {} tensors", call.inputs.size() - 2);
  const size_t count = call.inputs.size() / 2 - 1;
  for (const size_t i : {0, 1}) {
    require_dtype(call, i, DType::kF64);
    require_rank(call, i, 0);
  }
  require_wide_float(call, 2);
  require_same_dtype(call, 2);
  for (size_t i = 0; i < count; ++i) require_same_shape(call, 2 + i, 2 + count + i);
  return {call.inputs.begin() + 2, call.inputs.begin() + 2 + static_cast<int64_t>(count)};
}

bool blend_alias(const OpCall&, int output, int input) { return input == output + 2; }

Doubles blend_reference(const OpCall&, std::span<const TensorSpec> outputs, const Doubles& inputs) {
  Doubles results(inputs.begin() + 2, inputs.begin() + 2 + static_cast<int64_t>(outputs.size()));
  for (size_t i = 0; i < results.size(); ++i) {
    for (size_t e = 0; e < results[i].size(); ++e) {
      const double kept = inputs[0][0] == 0 ? 0 : inputs[0][0] * results[i][e];
      results[i][e] = kept + inputs[1][0] * inputs[2 + results.size() + i][e];
    }
  }
  return results;
}

OpDef square_sum_row() {
  OpDef op;
  op.name = "square_sum";
  op.summary = "the sum of the squares of all elements of all inputs, in f64";
  op.max_inputs = -1;
  op.infer = infer_square_sum;
  op.gradient = square_sum_gradient;
  op.flops = [](const OpCall& call) { return 2 * elems_of(call); };
  op.reference = square_sum_reference;
  op.samples = {{{{{3, 5}}, {{7}}, {{}}}}, {{{{0}}}}, {{{{300, 301}}, {{2, 33}}}}};
  op.errors = {{{{DType::kF32, {2}}, {DType::kF64, {2}}}, {}, ErrorCode::kDtypeMismatch},
               {{{DType::kI32, {2}}}, {}, ErrorCode::kDtypeMismatch}};
  return op;
}

OpDef blend_row() {
  OpDef op;
  op.name = "blend";
  op.summary = "alpha a + beta b for two lists of tensors; a isn't read where alpha is 0";
  op.min_inputs = 4;
  op.max_inputs = -1;
  op.infer = infer_blend;
  op.may_alias = blend_alias;
  op.flops = [](const OpCall& call) { return 1.5 * elems_of(call); };
  op.reference = blend_reference;
  const auto sample = [](double alpha, double beta, std::vector<Shape> shapes) {
    OpSample result{{{{}, 0, 0, DType::kF64, {alpha}}, {{}, 0, 0, DType::kF64, {beta}}}};
    for (int list = 0; list < 2; ++list) {
      for (const Shape& shape : shapes) result.inputs.push_back({shape});
    }
    return result;
  };
  op.samples = {sample(0.75, 0.25, {{3, 5}, {7}, {}}), sample(1, 32, {{0}, {300, 300}}),
                sample(0, 3, {{2, 33}})};
  const TensorSpec number{DType::kF64, {}};
  const TensorSpec a{DType::kF32, {2, 3}};
  op.errors = {{{number, number, a, a, a}, {}, ErrorCode::kInvalidArgument},
               {{number, number, a, {DType::kF32, {3, 2}}}, {}, ErrorCode::kShapeMismatch},
               {{number, number, a, {DType::kF64, {2, 3}}}, {}, ErrorCode::kDtypeMismatch},
               {{number, {DType::kF32, {}}, a, a}, {}, ErrorCode::kDtypeMismatch},
               {{number, number, {DType::kF16, {2}}, {DType::kF16, {2}}}, {}, ErrorCode::kDtypeMismatch}};
  return op;
}

}  // namespace

void register_tensor_lists(graph::Registry& registry) {
  registry.add(square_sum_row());
  registry.add(blend_row());
}

}  // namespace ops

Tensor square_sum(std::span<const Tensor> tensors) {
  static const graph::OpDef& op = ops::row("square_sum");
  return graph::apply(op, tensors)[0];
}

std::vector<Tensor> blend(const Tensor& alpha, std::span<const Tensor> a, const Tensor& beta,
                          std::span<const Tensor> b) {
  static const graph::OpDef& op = ops::row("blend");
  require(a.size() == b.size(), ErrorCode::kInvalidArgument, op.name, "lists of {} and {} tensors", a.size(),
          b.size());
  std::vector<Tensor> inputs = {alpha, beta};
  inputs.insert(inputs.end(), a.begin(), a.end());
  inputs.insert(inputs.end(), b.begin(), b.end());
  return graph::apply(op, inputs);
}

}  // namespace isochron
