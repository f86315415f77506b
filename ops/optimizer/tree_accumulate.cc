#include "isochron/ops/optimizer/tree_accumulate.h"

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"

namespace isochron {
namespace ops {
namespace {

using Doubles = std::vector<std::vector<double>>;

// Inputs [phase, due, gradients..., levels...], outputs [totals..., levels...].
constexpr size_t kFirst = 2;

size_t gradients_of(const Attributes& attributes) {
  return static_cast<size_t>(attributes.get<int64_t>("gradients"));
}

std::vector<TensorSpec> infer(const OpCall& call) {
  require_dtype(call, 0, DType::kI64);
  require_rank(call, 0, 0);
  require_dtype(call, 1, DType::kBool);
  require_rank(call, 1, 0);
  const size_t count = gradients_of(call.attributes), given = call.inputs.size() - kFirst;
  require(count > 0 && given > count && given % count == 0, ErrorCode::kInvalidArgument, call.op.name,
          "{} tensors aren't {} gradients and whole levels of as many", given, count);
  for (size_t i = kFirst; i < call.inputs.size(); ++i) {
    const DType dtype = call.inputs[i].dtype;
    require(dtype == DType::kF32 || dtype == DType::kF64, ErrorCode::kDtypeMismatch, call.op.name,
            "sums f32 or f64, got {}; cast first", dtype_name(dtype));
    const size_t gradient = kFirst + (i - kFirst) % count;
    require_same_shape(call, gradient, i);
    require_dtype(call, i, call.inputs[gradient].dtype);
  }
  return {call.inputs.begin() + kFirst, call.inputs.end()};
}

Doubles reference(const OpCall& call, std::span<const TensorSpec>, const Doubles& inputs) {
  const auto phase = static_cast<int64_t>(inputs[0][0]);
  const bool due = inputs[1][0] != 0;
  Doubles results(inputs.begin() + kFirst, inputs.end());
  const size_t count = gradients_of(call.attributes);
  const size_t levels = results.size() / count - 1;
  const auto set = [&](size_t level) { return ((phase >> level) & 1) != 0; };
  const auto add = [](std::vector<double>& to, const std::vector<double>& other) {
    for (size_t e = 0; e < to.size(); ++e) to[e] += other[e];
  };
  for (size_t i = 0; i < count; ++i) {
    size_t level = 0;
    for (; level < levels && set(level); ++level) add(results[i], results[(1 + level) * count + i]);
    if (!due && level < levels) results[(1 + level) * count + i] = results[i];
    for (; due && level < levels; ++level) {
      if (set(level)) add(results[i], results[(1 + level) * count + i]);
    }
  }
  return results;
}

OpSample sample(double phase, double due, std::vector<Shape> shapes, int levels) {
  OpSample result{{{{}, 0, 0, DType::kI64, {phase}}, {{}, 0, 0, DType::kBool, {due}}},
                  {{"gradients", static_cast<int64_t>(shapes.size())}}};
  for (int list = 0; list <= levels; ++list) {
    for (const Shape& shape : shapes) result.inputs.push_back({shape});
  }
  return result;
}

}  // namespace

void register_tree_accumulate(graph::Registry& registry) {
  OpDef op;
  op.name = "tree_accumulate";
  op.summary = "gradients of a micro-batch, added to sums of 1, 2, 4, ... others, and the total of a group";
  op.min_inputs = 4;
  op.max_inputs = -1;
  op.infer = infer;
  op.may_alias = [](const OpCall&, int output, int input) {
    return input == output + static_cast<int>(kFirst);
  };
  op.flops = [](const OpCall& call) {
    double elems = 0;
    for (size_t i = 0; i < gradients_of(call.attributes); ++i)
      elems += static_cast<double>(call.inputs[kFirst + i].shape.elems());
    return elems;  // on average: half of the calls add nothing, a quarter once, ...
  };
  op.reference = reference;
  // Every phase of groups of four, complete and shortened, and a phase of a group of eight with many blocks.
  for (const double phase : {0, 1, 2, 3}) {
    for (const double due : {0, 1}) {
      if (phase == 3 && due == 0) continue;
      op.samples.push_back(sample(phase, due, {{3, 5}, {7}, {}}, 2));
    }
  }
  op.samples.push_back(sample(5, 1, {{0}, {300, 301}}, 3));
  const TensorSpec phase{DType::kI64, {}}, due{DType::kBool, {}}, a{DType::kF32, {2, 3}};
  op.errors = {
      {{phase, due, a, a, a}, {{"gradients", int64_t{2}}}, ErrorCode::kInvalidArgument},
      {{phase, due, a, {DType::kF32, {3, 2}}}, {{"gradients", int64_t{1}}}, ErrorCode::kShapeMismatch},
      {{phase, due, a, {DType::kF64, {2, 3}}}, {{"gradients", int64_t{1}}}, ErrorCode::kDtypeMismatch},
      {{phase, phase, a, a}, {{"gradients", int64_t{1}}}, ErrorCode::kDtypeMismatch}};
  registry.add(std::move(op));
}

}  // namespace ops

TreeSums tree_accumulate(const Tensor& phase, const Tensor& due, std::span<const Tensor> gradients,
                         std::span<const Tensor> levels) {
  static const graph::OpDef& op = ops::row("tree_accumulate");
  std::vector<Tensor> inputs = {phase, due};
  inputs.insert(inputs.end(), gradients.begin(), gradients.end());
  inputs.insert(inputs.end(), levels.begin(), levels.end());
  std::vector<Tensor> results =
      graph::apply(op, inputs, {{"gradients", static_cast<int64_t>(gradients.size())}});
  const auto first_level = results.begin() + static_cast<std::ptrdiff_t>(gradients.size());
  return {{results.begin(), first_level}, {first_level, results.end()}};
}

}  // namespace isochron
