#include "isochron/ops/control/update_if.h"

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/rows/subgraph.h"

namespace isochron {
namespace ops {
namespace {

using graph::Graph;
using graph::SubGraph;

// Inputs [predicate, state..., captured...]; sub-graph inputs [state..., captured...]; outputs [state...].

void require_same_state(std::string_view where, std::span<const TensorSpec> state,
                        std::span<const TensorSpec> results) {
  require(state.size() == results.size(), ErrorCode::kShapeMismatch, where,
          "the update gives {} tensors for a state of {}", results.size(), state.size());
  for (size_t i = 0; i < state.size(); ++i) {
    require(state[i] == results[i], ErrorCode::kShapeMismatch, where,
            "state {} is {} before the update and {} after it; a state keeps its shape and dtype", i,
            state[i].str(), results[i].str());
  }
}

std::vector<TensorSpec> infer_update_if(const OpCall& call) {
  require(call.inputs[0].dtype == DType::kBool && call.inputs[0].shape.elems() == 1,
          ErrorCode::kDtypeMismatch, call.op.name, "the predicate must be one bool, got {}",
          call.inputs[0].str());
  const Graph& update = *call.attributes.object<SubGraph>("update")->graph;
  const auto count = static_cast<size_t>(call.attributes.get<int64_t>("states"));
  const std::span<const TensorSpec> state = call.inputs.subspan(1, count);
  std::vector<TensorSpec> results;
  for (const graph::Value* output : update.outputs()) results.push_back(output->spec);
  require_same_state(call.op.name, state, results);
  return results;
}

bool update_if_alias(const OpCall&, int output, int input) { return input == output + 1; }

double update_if_flops(const OpCall& call) {
  return flops_of(*call.attributes.object<SubGraph>("update")->graph);
}

}  // namespace

void register_update_if(graph::Registry& registry) {
  OpDef op;
  op.name = "update_if";
  op.summary = "a sub-graph that changes a state in place, run only where a predicate holds";
  op.min_inputs = 2;
  op.max_inputs = -1;
  op.infer = infer_update_if;
  op.may_alias = update_if_alias;
  op.flops = update_if_flops;
  registry.add(std::move(op));
}

}  // namespace ops

namespace {

std::vector<Tensor> updated_now(const Tensor& predicate, std::span<const Tensor> state,
                                const LoopFunction& update, std::string_view where) {
  std::vector<Tensor> unchanged(state.begin(), state.end());
  require(predicate.dtype() == DType::kBool && predicate.elems() == 1, ErrorCode::kDtypeMismatch, where,
          "the predicate must be one bool, got {}", predicate.spec().str());
  if (!predicate.item<bool>()) return unchanged;
  std::vector<Tensor> results = update(state);
  std::vector<TensorSpec> before, after;
  for (const Tensor& tensor : state) before.push_back(tensor.spec());
  for (const Tensor& tensor : results) after.push_back(tensor.defined() ? tensor.spec() : TensorSpec{});
  ops::require_same_state(where, before, after);
  return results;
}

}  // namespace

std::vector<Tensor> update_if(const Tensor& predicate, std::span<const Tensor> state,
                              const LoopFunction& update) {
  static const graph::OpDef& op = ops::row("update_if");
  require(!state.empty(), ErrorCode::kInvalidArgument, op.name, "the state is empty");
  require(predicate.defined(), ErrorCode::kInvalidArgument, op.name, "the predicate is undefined");
  for (const Tensor& tensor : state) {
    require(tensor.defined(), ErrorCode::kInvalidArgument, op.name, "a state tensor is undefined");
  }
  graph::Capture* capture = graph::Capture::current();
  if (!capture) return updated_now(predicate, state, update, op.name);
  auto graph = std::make_unique<graph::Graph>();
  std::vector<graph::Value*> outer;
  {
    graph::Capture inner(*graph);
    std::vector<Tensor> arguments;
    for (const Tensor& tensor : state)
      arguments.push_back(graph::Graph::tensor_of(graph->add_input(tensor.spec())));
    ops::set_outputs(inner, update(arguments), op.name);
    outer = ops::outer_values(inner);
  }
  std::vector<Tensor> inputs{predicate};
  inputs.insert(inputs.end(), state.begin(), state.end());
  for (graph::Value* value : outer) inputs.push_back(graph::Graph::tensor_of(value));
  graph::Attributes attributes;
  attributes.set("states", static_cast<int64_t>(state.size()));
  attributes.set("update", ops::as_attribute(std::move(graph)));
  return capture->record(op, inputs, std::move(attributes));
}

}  // namespace isochron
