#include "isochron/graph/ir/graph.h"

#include <unordered_set>

#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/sealed.h"

namespace isochron::graph {
namespace {

std::vector<TensorSpec> specs_of(const std::vector<Value*>& values) {
  std::vector<TensorSpec> specs;
  specs.reserve(values.size());
  for (const Value* value : values) specs.push_back(value->spec);
  return specs;
}

}  // namespace

std::vector<TensorSpec> Node::input_specs() const { return specs_of(inputs); }
std::vector<TensorSpec> Node::output_specs() const { return specs_of(outputs); }

Graph::~Graph() {
  for (Ref<Value>& value : values_) {
    value->graph = nullptr;
    value->producer = nullptr;
  }
  count(Counter::kGraphNodes, -static_cast<int64_t>(nodes_.size()));
}

Value* Graph::new_value(Value::Kind kind, const TensorSpec& spec) {
  auto value = make_ref<Value>();
  value->kind = kind;
  value->graph = this;
  value->id = next_value_++;
  value->spec = spec;
  values_.push_back(value);
  return value.get();
}

Value* Graph::add_input(const TensorSpec& spec) {
  Value* value = new_value(Value::Kind::kInput, spec);
  value->index = static_cast<int>(inputs_.size());
  inputs_.push_back(value);
  return value;
}

Value* Graph::add_bound(const Tensor& tensor) {
  require(tensor.contiguous(), ErrorCode::kUnsupported, "capture",
          "{} is not contiguous and can't be bound by reference; pass it as an argument or bind its "
          "contiguous() copy",
          tensor.spec().str());
  Value* value = new_value(Value::Kind::kBound, tensor.spec());
  value->bound = tensor;
  bound_.push_back(value);
  return value;
}

Node* Graph::add_node(const OpDef& op, std::span<Value* const> inputs, Attributes attributes,
                      std::string scope) {
  auto node = std::make_unique<Node>();
  node->op = &op;
  node->attributes = std::move(attributes);
  node->inputs.assign(inputs.begin(), inputs.end());
  node->scope = std::move(scope);
  const std::vector<TensorSpec> specs = infer_outputs(op, node->input_specs(), node->attributes);
  node->id = next_node_++;
  for (size_t i = 0; i < specs.size(); ++i) {
    Value* value = new_value(Value::Kind::kResult, specs[i]);
    value->producer = node.get();
    value->index = static_cast<int>(i);
    node->outputs.push_back(value);
  }
  nodes_.push_back(std::move(node));
  count(Counter::kGraphNodes, 1);
  note_made(Made::kNode);
  count(Counter::kNodesMade, 1);
  return nodes_.back().get();
}

void Graph::retain_nodes(const std::vector<bool>& keep) {
  std::vector<std::unique_ptr<Node>> kept;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (keep[i]) kept.push_back(std::move(nodes_[i]));
  }
  count(Counter::kGraphNodes, static_cast<int64_t>(kept.size()) - static_cast<int64_t>(nodes_.size()));
  nodes_ = std::move(kept);
}

void Graph::reorder_nodes(std::span<const size_t> order) {
  std::vector<std::unique_ptr<Node>> sorted;
  sorted.reserve(nodes_.size());
  for (size_t position : order) sorted.push_back(std::move(nodes_[position]));
  nodes_ = std::move(sorted);
}

std::unordered_map<const Value*, int> Graph::use_counts() const {
  std::unordered_map<const Value*, int> uses;
  for (const auto& node : nodes_) {
    for (const Value* input : node->inputs) ++uses[input];
  }
  for (const Value* output : outputs_) ++uses[output];
  for (const Update& update : updates_) ++uses[update.value];
  return uses;
}

std::unique_ptr<Graph> Graph::clone() const {
  auto copy = std::make_unique<Graph>();
  std::unordered_map<const Value*, Value*> to;
  for (const Value* input : inputs_) to[input] = copy->add_input(input->spec);
  for (const Value* value : bound_) to[value] = copy->add_bound(value->bound);
  for (const auto& node : nodes_) {
    std::vector<Value*> inputs;
    for (const Value* input : node->inputs) inputs.push_back(to.at(input));
    Node* added = copy->add_node(*node->op, inputs, node->attributes, node->scope);
    added->checkpoint = node->checkpoint;
    added->checkpoint_result = node->checkpoint_result;
    for (size_t i = 0; i < node->outputs.size(); ++i) to[node->outputs[i]] = added->outputs[i];
  }
  for (const Value* output : outputs_) copy->outputs_.push_back(to.at(output));
  for (const Update& update : updates_) copy->updates_.push_back({to.at(update.target), to.at(update.value)});
  return copy;
}

void Graph::check() const {
  std::unordered_set<const Value*> known(inputs_.begin(), inputs_.end());
  known.insert(bound_.begin(), bound_.end());
  const auto check_known = [&known](const Value* value, const std::string& reader) {
    require(known.contains(value), ErrorCode::kInvalidArgument, "graph", "{} reads %{} before it is produced",
            reader, value->id);
  };
  for (const auto& node : nodes_) {
    for (const Value* input : node->inputs) check_known(input, node->name());
    known.insert(node->outputs.begin(), node->outputs.end());
  }
  for (const Value* output : outputs_) check_known(output, "an output");
  for (const Update& update : updates_) check_known(update.value, "an update");
}

}  // namespace isochron::graph
