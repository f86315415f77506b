// The graph: a list of nodes in topological order, each value assigned once (SSA). Capture makes it, passes
// change it, the planner and the printers read it. The sub-graphs of loops and conditionals are separate
// graphs.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "isochron/core/tensor/graph_listing.h"
#include "isochron/graph/ir/op.h"

namespace isochron::graph {

class Graph;
struct Node;

/// One value of a graph: an input, a tensor bound by reference from outside, or the result of a node.
class Value final : public ValueBase {
 public:
  enum class Kind : uint8_t { kInput, kBound, kResult };
  Kind kind = Kind::kResult;
  Graph* graph = nullptr;    // null once the graph is gone
  Node* producer = nullptr;  // kResult
  int index = 0;             // position among the producer's outputs or the graph's inputs
  int id = 0;                // for printing, unique in the graph
  TensorSpec spec;
  Tensor bound;  // kBound: the outside tensor

  /// Whether the value is bound to a tensor whose content never changes, so that it may be folded.
  bool constant() const { return kind == Kind::kBound && bound.storage()->constant(); }
};

struct Node {
  const OpDef* op = nullptr;
  Attributes attributes;
  std::vector<Value*> inputs;
  std::vector<Value*> outputs;
  std::string scope;  // "dense/": the name scopes that were open when the node was recorded
  int id = 0;
  int checkpoint = 0;              // the part (CheckpointScope) in which it was recorded; 0: none
  bool checkpoint_result = false;  // the part's results are kept

  std::string name() const { return fmt::format("{}{}_{}", scope, op->name, id); }
  std::vector<TensorSpec> input_specs() const;
  std::vector<TensorSpec> output_specs() const;
};

/// At the end of a run the content of `target` becomes `value`.
struct Update {
  Value* target;  // a kBound value
  Value* value;
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph();

  Value* add_input(const TensorSpec& spec);
  /// A value bound by reference to `tensor`, which must be contiguous. Not deduplicated: see Capture::lift.
  Value* add_bound(const Tensor& tensor);
  /// Appends a node and infers its shapes. Throws like the op's rule.
  Node* add_node(const OpDef& op, std::span<Value* const> inputs, Attributes attributes,
                 std::string scope = "");

  const std::vector<Value*>& inputs() const { return inputs_; }
  const std::vector<Value*>& bound() const { return bound_; }
  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  std::vector<Value*>& outputs() { return outputs_; }
  const std::vector<Value*>& outputs() const { return outputs_; }
  std::vector<Update>& updates() { return updates_; }
  const std::vector<Update>& updates() const { return updates_; }
  size_t node_count() const { return nodes_.size(); }

  /// Keeps the nodes for which `keep[i]` holds, in order.
  void retain_nodes(const std::vector<bool>& keep);
  /// Reorders the nodes by `order` (a permutation of positions that must be topological).
  void reorder_nodes(std::span<const size_t> order);
  /// How often each value is read (node inputs, graph outputs, updates).
  std::unordered_map<const Value*, int> use_counts() const;
  std::unique_ptr<Graph> clone() const;
  /// Internal check of passes: throws kInvalidArgument if a node reads a value that no earlier node produces.
  void check() const;
  /// A view tensor that represents `value`, for use by op functions.
  static Tensor tensor_of(Value* value) { return Tensor::of_value(Ref<ValueBase>(value), value->spec); }

 private:
  Value* new_value(Value::Kind kind, const TensorSpec& spec);
  std::vector<Ref<Value>> values_;
  std::vector<Value*> inputs_;
  std::vector<Value*> bound_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Value*> outputs_;
  std::vector<Update> updates_;
  int next_value_ = 0;
  int next_node_ = 0;
};

/// A graph as an attribute of `cond` and `while_loop`.
struct SubGraph final : AttributeObject {
  explicit SubGraph(std::unique_ptr<Graph> g) : graph(std::move(g)) {}
  std::unique_ptr<Graph> graph;
  std::string str() const override { return fmt::format("graph of {} nodes", graph->node_count()); }
};

/// One line per node: `%7 = matmul(%1, %2) {transpose_a=true} : f32(32, 10)  # dense`.
std::string to_text(const Graph& graph);
/// Graphviz, for `dot -Tsvg`: fused kernels and the bodies of loops and conditionals are clusters
/// (graph/ir/dot.cc).
std::string to_dot(const Graph& graph);

/// Names of bound tensors, by the address of their first byte.
using BoundNames = std::unordered_map<const std::byte*, std::string>;
/// The graph as a list, with its bound values first and its updates and outputs last (graph/ir/listing.cc).
/// The bodies of loops and conditionals are listed in the scope of their node, "scan_3/body/".
GraphListing list_nodes(const Graph& graph, const BoundNames& names = {});

}  // namespace isochron::graph
