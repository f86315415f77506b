#include "isochron/ops/matmul_add.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "isochron/core/checked.h"
#include "isochron/graph/stored.h"
#include "isochron/ops/cuda/kernels.h"
#include "isochron/ops/registry.h"
#include "isochron/ops/rules.h"

namespace isochron::ops {
namespace {

using graph::ElementOp;
using graph::ElementProgram;
using graph::Kernel;
using graph::KernelArgs;
using graph::KernelRequest;

/// Sums of products of `factors` as they are added up.
DType sums_of(DType factors) { return factors == DType::kF64 ? DType::kF64 : DType::kF32; }

/// From the product, which is its first operand, and the terms to the result.
std::shared_ptr<const ElementProgram> program_of(const KernelRequest& request, const TensorSpec& product) {
  auto program = std::make_shared<ElementProgram>();
  program->shape = product.shape;
  program->operands.push_back({product});
  for (const TensorSpec& term : request.inputs.subspan(2)) program->operands.push_back({term});
  const auto add = [&program](ElementOp op, DType dtype, uint8_t a, uint8_t b = 0) {
    program->code.push_back({op, dtype, {a, b, 0}});
    return static_cast<uint8_t>(program->operands.size() + program->code.size() - 1);
  };
  const auto as = [&](DType dtype, uint8_t reg) {
    return program->register_dtype(reg) == dtype ? reg : add(ElementOp::kCast, dtype, reg);
  };
  uint8_t sum = 0;
  for (size_t i = 1; i < program->operands.size(); ++i)
    sum = add(ElementOp::kAdd, product.dtype, sum, as(product.dtype, static_cast<uint8_t>(i)));
  if (request.attributes.get<bool>("relu")) sum = add(ElementOp::kRelu, product.dtype, sum);
  sum = as(request.outputs[0].dtype, sum);
  if (program->code.empty()) sum = add(ElementOp::kCopy, product.dtype, sum);
  program->outputs.push_back({sum});
  return program;
}

/// The product lies at the beginning of the workspace.
class MatmulAdd final : public Kernel {
 public:
  explicit MatmulAdd(const KernelRequest& request) : operands_(request.inputs.size() - 1) {
    const DType factors = request.inputs[0].dtype;
    const TensorSpec product{sums_of(factors), request.outputs[0].shape};
    Attributes flags;
    for (const char* name : {"transpose_a", "transpose_b"})
      flags.set(name, request.attributes.get<bool>(name));
    if (product.dtype != factors) flags.set(graph::kStored, graph::stored_text({{product.dtype}}));
    product_ = graph::prepare_kernel(
        {row("matmul"), request.inputs.first(2), {&product, 1}, flags, request.threads, {}, request.module});
    std::vector<TensorSpec> operands{product};
    operands.insert(operands.end(), request.inputs.begin() + 2, request.inputs.end());
    Attributes attributes;
    attributes.set("program", std::shared_ptr<const graph::AttributeObject>(program_of(request, product)));
    rest_ = graph::prepare_kernel(
        {row("fused"), operands, request.outputs, attributes, request.threads, {}, request.module});
    product_bytes_ = align_up(product.size_bytes(), cuda::kDeviceAlignment);
  }

  size_t workspace_bytes() const override {
    return checked_add(product_bytes_, std::max(product_->workspace_bytes(), rest_->workspace_bytes()));
  }
  void bind(const KernelArgs& args) override {
    std::copy_n(args.inputs, factors_.size(), factors_.begin());
    operands_[0] = args.workspace;
    std::copy_n(args.inputs + 2, operands_.size() - 1, operands_.begin() + 1);
    product_->bind(product_args(args));
    rest_->bind(rest_args(args));
  }
  void run(const KernelArgs& args) override {
    product_->run(product_args(args));
    rest_->run(rest_args(args));
  }

 private:
  KernelArgs product_args(const KernelArgs& args) const {
    return {factors_.data(), operands_.data(), args.workspace + product_bytes_, args.stream};
  }
  KernelArgs rest_args(const KernelArgs& args) const {
    return {operands_.data(), args.outputs, args.workspace + product_bytes_, args.stream};
  }

  std::unique_ptr<Kernel> product_, rest_;
  std::array<std::byte*, 2> factors_ = {};
  std::vector<std::byte*> operands_;  // the product, the terms
  size_t product_bytes_ = 0;
};

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

std::unique_ptr<Kernel> prepare_matmul_add(const KernelRequest& request) {
  return std::make_unique<MatmulAdd>(request);
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
  op.prepare = op.prepare_stored = prepare_matmul_add;
  op.prepare_cuda = op.prepare_stored_cuda = prepare_matmul_add_cuda;
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
