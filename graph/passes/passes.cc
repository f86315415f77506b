#include "isochron/graph/passes/passes.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/passes/side_effects.h"

namespace isochron::graph {
namespace {

constexpr size_t kFoldLimitBytes = size_t{1} << 20;  // larger results cost more memory than they save time
constexpr size_t kFoldBroadcastLimitBytes = size_t{64} << 10;

bool is_op(const Value* value, std::string_view name) {
  return value->producer && value->producer->op->name == name;
}

bool is_scalar_constant(const Value* value, double wanted) {
  const std::optional<double> number = constant_scalar(value);
  return number && *number == wanted;
}

/// The existing value that `node`'s only output is equal to, or null.
Value* simplified(const Node& node) {
  const TensorSpec& spec = node.outputs[0]->spec;
  const auto same_spec = [&spec](Value* value) { return value->spec == spec ? value : nullptr; };
  const std::string& name = node.op->name;
  Value* const a = node.inputs.empty() ? nullptr : node.inputs[0];
  Value* const b = node.inputs.size() > 1 ? node.inputs[1] : nullptr;
  if (name == "add") {
    if (is_scalar_constant(b, 0)) return same_spec(a);
    if (is_scalar_constant(a, 0)) return same_spec(b);
  } else if (name == "mul") {
    if (is_scalar_constant(b, 1)) return same_spec(a);
    if (is_scalar_constant(a, 1)) return same_spec(b);
  } else if (name == "sub") {
    if (is_scalar_constant(b, 0)) return same_spec(a);
  } else if (name == "div" || name == "pow") {
    if (is_scalar_constant(b, 1)) return same_spec(a);
  } else if (name == "neg") {
    if (is_op(a, "neg")) return a->producer->inputs[0];
  } else if (name == "cast" || name == "reshape" || name == "broadcast_to") {
    return same_spec(a);
  } else if (name == "stop_gradient") {
    return a->producer ? a : nullptr;  // no longer needed: the gradients are in the graph by now
  } else if (node.op->fusion == FusionClass::kReduction) {
    return same_spec(a);  // equal if all reduced axes have extent 1 and are kept
  }
  return nullptr;
}

/// Turns the node into a cheaper one with the same result.
void simplify_in_place(Node& node) {
  const Registry& registry = *node.op->registry;
  if (node.op->name == "pow") {
    if (is_scalar_constant(node.inputs[1], 2) && node.inputs[0]->spec == node.outputs[0]->spec) {
      node.op = &registry.at("square");
      node.inputs.resize(1);
    }
  } else if (node.op->name == "reshape" && is_op(node.inputs[0], "reshape")) {
    node.inputs[0] = node.inputs[0]->producer->inputs[0];
  } else if (node.op->name == "matmul") {
    static constexpr std::string_view kFlags[] = {"transpose_a", "transpose_b"};
    for (size_t i = 0; i < 2; ++i) {
      Value* operand = node.inputs[i];
      if (!is_op(operand, "transpose")) continue;
      Dims swapped;  // the identity with the last two axes exchanged
      const int rank = operand->spec.shape.rank();
      for (int axis = 0; axis < rank; ++axis) swapped.push_back(axis);
      std::swap(swapped[rank - 1], swapped[rank - 2]);
      if (!(operand->producer->attributes.get<Dims>("permutation") == swapped)) continue;
      node.inputs[i] = operand->producer->inputs[0];
      node.attributes.set(kFlags[i], !node.attributes.get<bool>(kFlags[i]));
    }
  }
}

/// Merges equal numbers of the traced function into one constant.
void merge_scalars(const Graph& graph, Rewriter& rewriter) {
  std::map<std::pair<std::string, std::string>, Value*> seen;  // spec, bytes
  for (Value* value : graph.bound()) {
    if (!value->constant() || value->bound.elems() != 1) continue;
    std::string bytes(value->bound.size_bytes(), 0);
    value->bound.read(std::as_writable_bytes(std::span(bytes)).data());
    const auto [found, added] = seen.try_emplace({value->spec.str(), std::move(bytes)}, value);
    if (!added) rewriter.replace(value, found->second);
  }
}

bool same_call(const Node& a, const Node& b) {
  return a.op == b.op && a.inputs == b.inputs && a.attributes == b.attributes;
}

}  // namespace

std::optional<double> constant_scalar(const Value* value) {
  if (!value || !value->constant() || value->bound.elems() != 1) return std::nullopt;
  const double number = value->bound.item<double>();
  if (!is_floating(value->spec.dtype) && std::abs(number) > 0x1p52) return std::nullopt;
  return number;
}

ElementProgram program_of(const Node& node) {
  if (node.attributes.has("program")) return *node.attributes.object<ElementProgram>("program");
  const std::vector<TensorSpec> inputs = node.input_specs();
  if (node.op->fusion == FusionClass::kReduction) {
    return reduction_program(inputs[0], node.op->reduce, node.attributes.get<Dims>("axes"),
                             node.attributes.get<bool>("keep_dims"));
  }
  return elementwise_program(node.op->element, inputs, node.outputs[0]->spec);
}

namespace {

/// `growing`: folds only nodes whose result is larger than their inputs; otherwise only the other nodes.
void fold(Graph& graph, size_t limit_bytes, bool growing) {
  Rewriter rewriter(graph);
  for (const auto& node : graph.nodes()) {
    rewriter.update_inputs(*node);
    if (node->inputs.empty() || node->op->random || has_side_effect(*node)) continue;
    const bool constant =
        std::all_of(node->inputs.begin(), node->inputs.end(), [](const Value* v) { return v->constant(); });
    size_t bytes = 0;
    for (const Value* output : node->outputs) bytes += output->spec.size_bytes();
    size_t input_bytes = 0;
    for (const Value* input : node->inputs) input_bytes += input->spec.size_bytes();
    if (!constant || bytes > limit_bytes || (bytes > input_bytes) != growing) continue;
    std::vector<Tensor> inputs;
    for (const Value* input : node->inputs) inputs.push_back(input->bound);
    std::vector<Tensor> results;
    try {
      results = apply_eager(*node->op, inputs, node->attributes);
    } catch (const Error&) {
      continue;  // the error is reported when the node runs, which may never happen
    }
    for (size_t i = 0; i < results.size(); ++i) {
      results[i].storage()->set_constant();
      rewriter.replace(node->outputs[i], graph.add_bound(results[i]));
    }
  }
  rewriter.finish();
  remove_dead_code(graph);
}

}  // namespace

void fold_constants(Graph& graph) {
  // Leaves broadcasts to fusion, which reads the small operand.
  fold(graph, kFoldLimitBytes, false);
}

void fold_broadcasts(Graph& graph) { fold(graph, kFoldBroadcastLimitBytes, true); }

void simplify_algebra(Graph& graph) {
  Rewriter rewriter(graph);
  for (const auto& node : graph.nodes()) {
    rewriter.update_inputs(*node);
    if (node->outputs.size() != 1) continue;
    simplify_in_place(*node);
    if (Value* same = simplified(*node)) rewriter.replace(node->outputs[0], same);
  }
  rewriter.finish();
  remove_dead_code(graph);
}

void merge_common_subexpressions(Graph& graph) {
  Rewriter rewriter(graph);
  merge_scalars(graph, rewriter);
  std::unordered_multimap<size_t, Node*> seen;
  for (const auto& node : graph.nodes()) {
    rewriter.update_inputs(*node);
    if (node->op->random || has_side_effect(*node)) continue;
    size_t hash = hash_mix(std::hash<const void*>()(node->op), node->attributes.hash());
    for (const Value* input : node->inputs) hash = hash_mix(hash, static_cast<size_t>(input->id));
    const auto [first, last] = seen.equal_range(hash);
    const auto found =
        std::find_if(first, last, [&](const auto& entry) { return same_call(*entry.second, *node); });
    if (found == last) {
      seen.emplace(hash, node.get());
      continue;
    }
    for (size_t i = 0; i < node->outputs.size(); ++i)
      rewriter.replace(node->outputs[i], found->second->outputs[i]);
  }
  rewriter.finish();
  remove_dead_code(graph);
}

void remove_dead_code(Graph& graph) {
  std::unordered_map<const Value*, int> live;
  for (const Value* output : graph.outputs()) live[output] = 1;
  for (const Update& update : graph.updates()) live[update.value] = 1;
  const auto& nodes = graph.nodes();
  std::vector<bool> keep(nodes.size(), false);
  for (size_t i = nodes.size(); i-- > 0;) {
    const Node& node = *nodes[i];
    keep[i] = has_side_effect(node) || std::any_of(node.outputs.begin(), node.outputs.end(),
                                                   [&live](const Value* v) { return live.contains(v); });
    if (!keep[i]) continue;
    for (const Value* input : node.inputs) live[input] = 1;
  }
  graph.retain_nodes(keep);
}

namespace {

/// A pass that needs no options.
template <void (*kPass)(Graph&)>
void plain(Graph& graph, const PassOptions&) {
  kPass(graph);
}

}  // namespace

const std::vector<PassInfo>& passes() {
  static const std::vector<PassInfo> list = {
      {"dead_code", "drop what nothing needs", plain<remove_dead_code>},
      {"fold_constants", "evaluate what only depends on constants", plain<fold_constants>},
      {"simplify", "algebraic simplification", plain<simplify_algebra>},
      {"cse", "merge common subexpressions", plain<merge_common_subexpressions>},
      {"recompute", "compute inner values of checkpointed parts again where they are read later",
       plain<recompute_checkpoints>},
      {"residuals", "let the gradient of a layer norm add the one that comes around it",
       plain<absorb_residuals>, false, "layer_norm_gradient"},
      {"fuse", "fuse elementwise chains with closing reductions",
       [](Graph& graph, const PassOptions& options) {
         fuse_elementwise(graph, options.precision == Precision::kF32);
       },
       false, "fused"},
      {"precision", "store tensors in 16 bits where the policy wants it",
       [](Graph& graph, const PassOptions& options) { cast_to_precision(graph, options.precision); }},
      {"fold_broadcasts",
       "evaluate what only depends on constants and grows, where nothing was fused with it",
       plain<fold_broadcasts>},
      {"inline_broadcasts", "compute small operands where they are broadcast", plain<inline_broadcasts>, true,
       "fused"},
      {"epilogues", "let a matrix product apply the elementwise ops that follow before it stores its sums",
       plain<absorb_epilogues>, true, "fused_product"},
      {"overlap", "start sums over ranks while the backward pass goes on", plain<start_collectives_early>,
       false, "all_reduce_start"},
  };
  return list;
}

void run_passes(Graph& graph, const PassOptions& options) {
  std::vector<std::string_view> names;
  for (const PassInfo& pass : passes()) names.push_back(pass.name);
  for (const std::string& name : options.disabled) {
    const bool known = name == "all" || std::find(names.begin(), names.end(), name) != names.end();
    require(known, ErrorCode::kInvalidArgument, "passes", "no pass '{}'; passes are {}, or all", name,
            fmt::join(names, ", "));
  }
  const auto disabled = [&options](std::string_view name) {
    return std::any_of(options.disabled.begin(), options.disabled.end(),
                       [name](const std::string& d) { return d == name || d == "all"; });
  };
  const Backend& backend = backend_of(options.backend, options.device.kind);
  const auto runs = [&](std::string_view op) {
    return std::ranges::any_of(graph.nodes(), [&](const auto& node) {
      const OpDef* row = node->op->registry->find(op);
      return row != nullptr && backend.runs(*row);
    });
  };
  decompose(graph, backend);
  if (!options.device.is_cpu() && options.on_stage) options.on_stage("decomposed", graph);
  for (const PassInfo& pass : passes()) {
    if (disabled(pass.name) || (pass.on_devices_alone && options.device.is_cpu())) continue;
    if (!pass.makes.empty() && !runs(pass.makes)) continue;
    pass.run(graph, options);
    if (options.on_stage) options.on_stage(pass.name, graph);
  }
  if (options.memory_budget_bytes > 0) recompute_within(graph, options.memory_budget_bytes);
}

}  // namespace isochron::graph
