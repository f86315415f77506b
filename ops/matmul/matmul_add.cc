#include "isochron/ops/matmul/matmul_add.h"

#include <utility>
#include <vector>

#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"

namespace isochron::ops {
namespace {

std::vector<TensorSpec> infer_matmul_add(const OpCall& call) {
  require_same_dtype(call);
  const OpDef& product = row("matmul");
  std::vector<TensorSpec> result = product.infer({product, call.inputs.first(2), call.attributes});
  matmul_terms(call.op, call.inputs, result[0].shape);
  return result;
}

bool matmul_add_alias(const OpCall& call, int /*output*/, int input) {
  const TensorSpec result = graph::infer_outputs(call.op, call.inputs, call.attributes)[0];
  return input >= 2 && call.inputs[static_cast<size_t>(input)] == result;
}

double matmul_add_flops(const OpCall& call) {
  const OpDef& product = row("matmul");
  return product.flops({product, call.inputs.first(2), call.attributes}) +
         static_cast<double>(call.inputs.size() - 2) *
             static_cast<double>(
                 graph::infer_outputs(call.op, call.inputs, call.attributes)[0].shape.elems());
}

std::vector<std::vector<double>> matmul_add_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                                      const std::vector<std::vector<double>>& inputs) {
  const OpDef& product = row("matmul");
  std::vector<double> result =
      product.reference({product, call.inputs.first(2), call.attributes}, outputs, inputs)[0];
  for (size_t t = 2; t < inputs.size(); ++t) {
    for (size_t i = 0; i < result.size(); ++i) result[i] += inputs[t][i % inputs[t].size()];
  }
  if (call.attributes.get<bool>("relu")) {
    for (double& each : result) each = each < 0 ? 0 : each;
  }
  return {result};
}

}  // namespace

MatmulTerms matmul_terms(const graph::OpDef& op, std::span<const TensorSpec> inputs, const Shape& result) {
  MatmulTerms terms;
  const int64_t columns = result[result.rank() - 1];
  for (size_t i = 2; i < inputs.size(); ++i) {
    const Shape& shape = inputs[i].shape;
    const bool row = shape.rank() > 0 && shape[shape.rank() - 1] == columns && shape.elems() == columns;
    if (shape == result && !terms.matrix) {
      terms.matrix = i;
    } else if (row && !terms.vector) {
      terms.vector = i;
    } else {
      fail(ErrorCode::kShapeMismatch, op.name,
           "input {} is {}; to a product of {} one of that shape and one of ({}) can be added", i,
           shape.str(), result.str(), columns);
    }
  }
  return terms;
}

void register_matmul_add(graph::Registry& registry) {
  OpDef op;
  op.name = "matmul_add";
  op.summary =
      "`matmul`, plus a matrix, plus a number a column, all of it at least 0 with `relu`; made by the pass "
      "`epilogues`";
  op.min_inputs = 2;
  op.max_inputs = 4;
  op.infer = infer_matmul_add;
  op.precision.rule = graph::PrecisionRule::kLow;
  op.may_alias = matmul_add_alias;
  op.flops = matmul_add_flops;
  op.dtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
  op.tolerance = 30;  // as matmul's
  op.reference = matmul_add_reference;
  const auto flags = [](bool ta, bool tb, bool relu) {
    return Attributes{{"transpose_a", ta}, {"transpose_b", tb}, {"relu", relu}};
  };
  op.samples = {{{{{32, 100}}, {{100, 10}}, {{10}}}, flags(false, false, true)},
                {{{{3, 4}}, {{5, 4}}, {{3, 5}}}, flags(false, true, false)},
                {{{{4, 3}}, {{4, 5}}}, flags(true, false, true)},
                {{{{4, 3}}, {{5, 4}}, {{3, 5}}, {{1, 5}}}, flags(true, true, true)},
                {{{{2, 3, 4}}, {{4, 5}}, {{5}}, {{2, 3, 5}}}, flags(false, false, false)},
                {{{{2, 3, 4}}, {{2, 4, 5}}, {{5}}, {{2, 3, 5}}}, flags(false, false, true)},
                {{{{3, 1, 4, 3}}, {{2, 4, 5}}, {{5}}}, flags(true, false, false)},
                {{{{1, 7}}, {{7, 3}}, {{1, 3}}, {{1, 3}}}, flags(false, false, false)},
                {{{{0, 4}}, {{4, 3}}, {{3}}}, flags(false, false, false)},
                {{{{2, 0}}, {{0, 3}}, {{3}}}, flags(false, false, true)}};
  op.errors = {
      {{{DType::kF32, {3, 4}}, {DType::kF32, {4, 5}}, {DType::kF32, {3, 4}}}, flags(false, false, true)},
      {{{DType::kF32, {3, 4}}, {DType::kF32, {4, 5}}, {DType::kF32, {5}}, {DType::kF32, {5}}},
       flags(false, false, false)},
      {{{DType::kF32, {3, 4}}, {DType::kF32, {4, 5}}, {DType::kF64, {5}}},
       flags(false, false, false),
       ErrorCode::kDtypeMismatch}};
  registry.add(std::move(op));
}

}  // namespace isochron::ops
