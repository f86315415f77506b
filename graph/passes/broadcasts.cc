// Small operands are computed where they are broadcast. A group of element ops that only much larger groups
// read becomes a part of each of these groups, which recompute it for each element. An example is a factor
// per channel that is computed from a variance. This saves a launch and the wait for its result. On a device
// such a launch costs more than its computation, and the loops are bound by memory.
#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "isochron/graph/passes/bound_program.h"
#include "isochron/graph/passes/passes.h"
#include "isochron/graph/passes/replacement.h"
#include "isochron/graph/passes/side_effects.h"

namespace isochron::graph {
namespace {

constexpr int64_t kTimesLarger = 16;     // the readers of a group have at least this many times its elements
constexpr size_t kMaxComputedAgain = 8;  // instructions that are recomputed for each element
constexpr size_t kMaxInputs = 24;        // of the group that it becomes a part of

std::vector<Value*> inputs_of(const NodeProgram& group) {
  std::vector<Value*> read;
  std::ranges::copy_if(group.values, std::back_inserter(read), [](const Value* v) { return v != nullptr; });
  return read;
}

/// The program `large` with `small`, the program of the node `of`, inlined for the values that it reads from
/// `of`.
NodeProgram inlined(const NodeProgram& small, const Node& of, const NodeProgram& large) {
  BoundProgram made;
  made.program->shape = large.program.shape;
  std::vector<Value*> values;
  const auto output_of = [&](const Value* value) {
    return value == nullptr || value->producer != &of ? -1 : value->index;
  };
  const auto take_operands = [&](const NodeProgram& from) {
    std::vector<uint8_t> now;
    for (size_t r = 0; r < from.values.size(); ++r) {
      if (output_of(from.values[r]) >= 0) {
        now.push_back(0);  // known once the inlined program is added
        continue;
      }
      now.push_back(made.operand(from.program.operands[r], from.values[r]));
      values.push_back(from.values[r]);
    }
    return now;
  };
  const auto take_code = [&made](const NodeProgram& from, std::vector<uint8_t>& now) {
    for (ElementProgram::Instruction instruction : from.program.code) {
      for (int k = 0; k < element_op_arity(instruction.op); ++k)
        instruction.operands[k] = now[instruction.operands[k]];
      now.push_back(made.code(instruction));
    }
  };
  std::vector<uint8_t> of_small = take_operands(small), of_large = take_operands(large);
  take_code(small, of_small);
  for (size_t r = 0; r < large.values.size(); ++r) {
    if (const int o = output_of(large.values[r]); o >= 0)
      of_large[r] = of_small[small.program.outputs[static_cast<size_t>(o)].reg];
  }
  take_code(large, of_large);
  for (ElementProgram::Output output : large.program.outputs) {
    output.reg = of_large[output.reg];
    made.program->outputs.push_back(output);
  }
  NodeProgram result;
  result.program = *made.program;
  result.values = std::move(values);
  return result;
}

bool fits(const NodeProgram& group) {
  return group.program.operands.size() + group.program.code.size() <= kMaxProgramRegisters &&
         inputs_of(group).size() <= kMaxInputs;
}

class Inliner {
 public:
  explicit Inliner(Graph& graph) : graph_(graph), nodes_(graph.nodes()) {
    for (const auto& node : nodes_) {
      for (const Value* input : node->inputs) readers_[input].insert(node.get());
      if (node->op->fusion != FusionClass::kElementwise && node->op->fusion != FusionClass::kReduction &&
          node->op->name != "fused")
        continue;
      groups_[node.get()] = NodeProgram(*node);
    }
    for (const Value* output : graph.outputs()) kept_.insert(output);
    for (const Update& update : graph.updates()) kept_.insert(update.value);
  }

  void run() {
    // In reverse order, so that a node's readers are considered before the node itself.
    for (size_t i = nodes_.size(); i-- > 0;) consider(*nodes_[i]);
    Replacement replacement(graph_);
    const size_t before = nodes_.size();
    for (size_t i = 0; i < before; ++i) {
      const Node& node = *nodes_[i];
      if (gone_.contains(&node) || changed_.contains(&node)) replacement.drop(node);
      if (gone_.contains(&node) || !changed_.contains(&node)) continue;
      const NodeProgram& group = groups_.at(&node);
      Attributes attributes;
      attributes.set("program",
                     std::shared_ptr<const AttributeObject>(std::make_shared<ElementProgram>(group.program)));
      const Node& made = replacement.add(node, "fused", inputs_of(group), std::move(attributes), node.scope);
      for (size_t o = 0; o < node.outputs.size(); ++o)
        replacement.values.replace(node.outputs[o], made.outputs[o]);
    }
    replacement.finish();
  }

 private:
  void consider(const Node& node) {
    const auto found = groups_.find(&node);
    if (found == groups_.end() || !small(node, found->second.program)) return;
    const std::vector<const Node*> readers = readers_of(node);
    std::vector<NodeProgram> merged;
    for (const Node* reader : readers) {
      const auto large = groups_.find(reader);
      if (large == groups_.end() ||
          large->second.program.shape.elems() < kTimesLarger * found->second.program.shape.elems())
        return;
      merged.push_back(inlined(found->second, node, large->second));
      if (!fits(merged.back())) return;
    }
    if (readers.empty()) return;
    for (size_t r = 0; r < readers.size(); ++r) {
      groups_[readers[r]] = std::move(merged[r]);
      changed_.insert(readers[r]);
      for (Value* input : inputs_of(found->second)) readers_[input].insert(readers[r]);
    }
    for (Value* input : inputs_of(found->second)) readers_[input].erase(&node);
    gone_.insert(&node);
  }

  bool small(const Node& node, const ElementProgram& program) const {
    return !has_side_effect(node) && program.code.size() <= kMaxComputedAgain && program.shape.elems() > 0 &&
           std::ranges::none_of(program.outputs, &ElementProgram::Output::reduced) &&
           std::ranges::none_of(node.outputs, [&](const Value* output) { return kept_.contains(output); });
  }

  /// The readers of all outputs of the node.
  std::vector<const Node*> readers_of(const Node& node) const {
    std::vector<const Node*> readers;
    for (const Value* output : node.outputs) {
      const auto found = readers_.find(output);
      if (found == readers_.end()) continue;
      for (const Node* reader : found->second)
        if (std::ranges::find(readers, reader) == readers.end()) readers.push_back(reader);
    }
    return readers;
  }

  Graph& graph_;
  const std::vector<std::unique_ptr<Node>>& nodes_;
  std::unordered_map<const Node*, NodeProgram> groups_;  // of nodes that run a program
  std::unordered_map<const Value*, std::unordered_set<const Node*>> readers_;
  std::unordered_set<const Value*> kept_;  // outputs and updates of the graph
  std::unordered_set<const Node*> changed_, gone_;
};

}  // namespace

void inline_broadcasts(Graph& graph) { Inliner(graph).run(); }

}  // namespace isochron::graph
