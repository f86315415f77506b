#include "isochron/ops/control/debug.h"

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"

namespace isochron {
namespace ops {
namespace {

std::vector<TensorSpec> infer_check_numerics(const OpCall& call) {
  require_floating(call);
  return infer_same(call);
}

std::vector<Tensor> pass_on(const GradientCall& call) { return {call.output_gradients[0]}; }

OpDef observing(std::string name, std::string summary) {
  OpDef op;
  op.name = std::move(name);
  op.summary = std::move(summary);
  op.gradient = pass_on;
  op.may_alias = [](const OpCall&, int, int) { return true; };
  op.side_effect = true;
  op.samples = {{{{{2, 2}}}, {{"label", std::string("x")}}}, {{{{0}}}, {{"label", std::string("nothing")}}}};
  op.reference = [](const OpCall&, std::span<const TensorSpec>,
                    const std::vector<std::vector<double>>& inputs) {
    return std::vector<std::vector<double>>{inputs[0]};
  };
  return op;
}

Tensor apply_labelled(const OpDef& op, const Tensor& x, const std::string& label) {
  return graph::apply_one(op, {x}, {{"label", label}});
}

}  // namespace

void register_debug(graph::Registry& registry) {
  OpDef print_op = observing("print", "x, written to standard error under a label each time it is computed");
  print_op.infer = infer_same;
  print_op.dtypes = {DType::kF64, DType::kI32};
  registry.add(std::move(print_op));

  OpDef check = observing("check_numerics", "x, or an error where it holds NaN or infinity");
  check.infer = infer_check_numerics;
  check.dtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
  check.errors = {{{{DType::kI32, {2}}}, {{"label", std::string("x")}}, ErrorCode::kDtypeMismatch}};
  registry.add(std::move(check));
}

}  // namespace ops

Tensor print(const Tensor& x, const std::string& label) {
  static const graph::OpDef& op = ops::row("print");
  return ops::apply_labelled(op, x, label);
}

Tensor check_numerics(const Tensor& x, const std::string& label) {
  static const graph::OpDef& op = ops::row("check_numerics");
  return ops::apply_labelled(op, x, label);
}

}  // namespace isochron
