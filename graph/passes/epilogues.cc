// Epilogues: what a library's product can do to its sums before it stores them. A product whose result one
// elementwise node alone reads, and does no more with than add a matrix or a number a column and take the
// larger of that and 0, becomes one `matmul_add` with it: one launch fewer, and the result is not written and
// read in between. What is added must be stored as the result is (the library's bias is); sums are in f32.
#include <algorithm>
#include <utility>

#include "isochron/graph/ir/element_op.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/passes/passes.h"

namespace isochron::graph {
namespace {

struct Epilogue {
  std::vector<Value*> terms;
  bool relu = false;
};

/// Follows the sum through a program, from the product to the result.
class Reading {
 public:
  Reading(const Node& reader, const Value* product)
      : program_(program_of(reader)), result_(reader.outputs[0]->spec) {
    size_t input = 0;
    for (size_t r = 0; r < program_.operands.size(); ++r) {
      Value* const value = program_.operands[r].immediate ? nullptr : reader.inputs[input++];
      if (value == product) sum_ = static_cast<int>(r);
      operands_.push_back(value == product ? nullptr : value);
    }
    operands_.resize(program_.operands.size() + program_.code.size());
  }

  std::optional<Epilogue> epilogue() {
    const bool same_shape =
        sum_ >= 0 && program_.operands[static_cast<size_t>(sum_)].spec.shape == result_.shape;
    if (!same_shape || program_.outputs.size() != 1 || program_.outputs[0].reduced) return std::nullopt;
    for (size_t i = 0; i < program_.code.size(); ++i) {
      if (!follow(program_.code[i], static_cast<int>(program_.operands.size() + i))) return std::nullopt;
    }
    const bool any = found_.relu || !found_.terms.empty();
    return any && program_.outputs[0].reg == sum_ ? std::optional(found_) : std::nullopt;
  }

 private:
  /// False where the instruction that makes `reg` is not of an epilogue.
  bool follow(const ElementProgram::Instruction& instruction, int reg) {
    const int a = instruction.operands[0];
    const int b = instruction.operands[1];
    const bool of_sum = a == sum_;
    const bool in_f32 = instruction.dtype == DType::kF32 && !stored_;
    switch (instruction.op) {
      case ElementOp::kCast:
        if (!of_sum) {
          operands_[static_cast<size_t>(reg)] = operands_[static_cast<size_t>(a)];
          return in_f32 && operands_[static_cast<size_t>(a)] != nullptr;
        }
        if (stored_ || (instruction.dtype != DType::kF32 && instruction.dtype != result_.dtype)) return false;
        stored_ = instruction.dtype != DType::kF32;
        break;
      case ElementOp::kAdd:
        if (!in_f32 || found_.relu || (!of_sum && b != sum_) || !add(of_sum ? b : a)) return false;
        break;
      case ElementOp::kRelu:
        if (!in_f32 || !of_sum || std::exchange(found_.relu, true)) return false;
        break;
      default:
        return false;
    }
    sum_ = reg;
    return true;
  }

  /// One of the result's shape and one number a column can be added, no others.
  bool add(int reg) {
    Value* const term = operands_[static_cast<size_t>(reg)];
    if (term == nullptr || term->spec.dtype != result_.dtype) return false;
    const Shape& shape = term->spec.shape;
    const int64_t columns = result_.shape[result_.shape.rank() - 1];
    const bool vector = shape.rank() > 0 && shape[shape.rank() - 1] == columns && shape.elems() == columns;
    bool& taken = shape == result_.shape ? has_matrix_ : has_vector_;
    if ((!vector && shape != result_.shape) || std::exchange(taken, true)) return false;
    found_.terms.push_back(term);
    return true;
  }

  const ElementProgram program_;
  const TensorSpec result_;
  std::vector<Value*> operands_;  // in each register, as it is or cast to f32; null: neither
  int sum_ = -1;                  // the register that holds it by now
  bool stored_ = false;           // it is in the result's dtype by now
  bool has_matrix_ = false, has_vector_ = false;
  Epilogue found_;
};

/// The products of f32 or of 16 bits, whose sums are in f32.
bool is_product(const Node& node) {
  const DType factors = node.inputs[0]->spec.dtype;
  const DType result = node.outputs[0]->spec.dtype;
  return node.op->name == "matmul" && (is_half(factors) || factors == DType::kF32) &&
         (result == DType::kF32 || result == factors);
}

Node* add_node(Graph& graph, const Node& product, const Node& reader, const Epilogue& epilogue) {
  std::vector<Value*> inputs = product.inputs;
  inputs.insert(inputs.end(), epilogue.terms.begin(), epilogue.terms.end());
  Attributes attributes;
  for (const char* name : {"transpose_a", "transpose_b"})
    attributes.set(name, product.attributes.get<bool>(name));
  attributes.set("relu", epilogue.relu);
  const DType result = reader.outputs[0]->spec.dtype;
  if (is_half(product.inputs[0]->spec.dtype)) attributes.set(kStorage, std::vector<DType>{result});
  Node* node =
      graph.add_node(product.op->registry->at("matmul_add"), inputs, std::move(attributes), product.scope);
  node->checkpoint = reader.checkpoint;
  node->checkpoint_result = reader.checkpoint_result;
  return node;
}

}  // namespace

void absorb_epilogues(Graph& graph) {
  const auto& nodes = graph.nodes();
  const size_t before = nodes.size();
  const std::unordered_map<const Value*, int> uses = graph.use_counts();
  std::unordered_map<const Node*, size_t> rank;
  for (size_t i = 0; i < before; ++i) rank[nodes[i].get()] = i;
  std::vector<bool> keep(before, true);
  Rewriter rewriter(graph);
  for (size_t i = 0; i < before; ++i) {
    Node& reader = *nodes[i];
    rewriter.update_inputs(reader);
    if (reader.op->fusion != FusionClass::kElementwise && !reader.attributes.has("program")) continue;
    // Of two products that are added up the later one takes the other's result.
    std::pair<size_t, Epilogue> best;
    bool found = false;
    for (const Value* input : reader.inputs) {
      if (input->producer == nullptr || !is_product(*input->producer) || uses.at(input) != 1) continue;
      std::optional<Epilogue> epilogue = Reading(reader, input).epilogue();
      if (!epilogue || (found && rank.at(input->producer) < best.first)) continue;
      best = {rank.at(input->producer), std::move(*epilogue)};
      found = true;
    }
    if (!found) continue;
    Node* const node = add_node(graph, *nodes[best.first], reader, best.second);
    rank[node] = i;
    keep[best.first] = keep[i] = false;
    rewriter.replace(reader.outputs[0], node->outputs[0]);
  }
  if (nodes.size() == before) return;
  keep.resize(nodes.size(), true);
  graph.retain_nodes(keep);
  rewriter.finish();
  sort_nodes(graph, rank);
}

}  // namespace isochron::graph
