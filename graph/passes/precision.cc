#include "isochron/graph/passes/precision.h"

#include <algorithm>
#include <array>
#include <unordered_set>
#include <utility>

#include "isochron/graph/capture/capture.h"
#include "isochron/graph/ir/element_op.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/passes/passes.h"

namespace isochron {
namespace {

constexpr std::array<std::string_view, 5> kNames = {"f32", "mixed_bf16", "mixed_f16", "mixed_fp8", "tf32"};
thread_local Precision t_traced = Precision::kF32;

}  // namespace

std::string_view precision_name(Precision precision) { return kNames[static_cast<size_t>(precision)]; }

std::vector<std::string> precision_names() { return {kNames.begin(), kNames.end()}; }

Precision parse_precision(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  require(found != kNames.end(), ErrorCode::kInvalidArgument, "precision",
          "no precision '{}'; precisions are {}", name, fmt::join(kNames, ", "));
  return static_cast<Precision>(found - kNames.begin());
}

namespace graph {

PrecisionScope::PrecisionScope(Precision precision) : before_(std::exchange(t_traced, precision)) {}
PrecisionScope::~PrecisionScope() { t_traced = before_; }

Precision traced_precision() {
  const Capture* capture = Capture::current();
  return capture != nullptr && capture->parent() == nullptr ? t_traced : Precision::kF32;
}

namespace {

enum class Role : uint8_t { kFull, kElements, kFollow, kMoves, kLow };

Role role_of(const Node& node) {
  const OpDef& op = *node.op;
  if (op.fusion == FusionClass::kView) return Role::kMoves;
  if (op.fusion != FusionClass::kOpaque || node.attributes.has("program")) return Role::kElements;
  if (op.precision.rule == PrecisionRule::kMoves) return Role::kMoves;
  if (op.precision.rule == PrecisionRule::kFull || node.attributes.has(kFullPrecision)) return Role::kFull;
  const auto wide = [](const Value* value) {
    return !is_floating(value->spec.dtype) || value->spec.dtype == DType::kF32;
  };
  const bool all = std::all_of(node.inputs.begin(), node.inputs.end(), wide) &&
                   std::all_of(node.outputs.begin(), node.outputs.end(), wide);
  if (!all) return Role::kFull;  // tensors that the user has cast keep their dtype
  return op.precision.rule == PrecisionRule::kLow ? Role::kLow : Role::kFollow;
}

/// How strongly the readers of a value call for storing it in 16 bits.
enum class Demand : uint8_t { kNone, kOnTheWay, kDirect };

/// What the pass knows about a value of the traced graph.
struct Fact {
  Demand demand = Demand::kNone;
  bool from_half = false;  // the result of a low op, or computed from one by ops that aren't full
  bool half = false;       // stored in 16 bits
  bool pinned = false;     // a result or the new content of a variable
};

class CastPass {
 public:
  CastPass(Graph& graph, DType half) : graph_(graph), dtype_(half), count_(graph.nodes().size()) {}

  void run() {
    for (const Value* output : graph_.outputs()) facts_[output].pinned = true;
    for (const Update& update : graph_.updates()) facts_[update.value].pinned = true;
    for (const auto& node : graph_.nodes()) {
      roles_.push_back(role_of(*node));
      if (node->op->name == "full_precision") facts_[node->outputs[0]].pinned = true;
    }
    for (size_t i = count_; i-- > 0;) spread_demand(i);
    for (size_t i = 0; i < count_; ++i) choose_storage(i);
    for (size_t i = 0; i < count_; ++i) rewrite(i);
    finish();
  }

 private:
  static bool is_f32(const Value* value) { return value->spec.dtype == DType::kF32; }
  static bool bit(uint32_t mask, size_t index) { return index < 32 && ((mask >> index) & 1U) != 0; }

  const Node& node_at(size_t i) const { return *graph_.nodes()[i]; }

  /// Whether an input or a result of node `i` may be stored in 16 bits.
  bool input_may(size_t i, size_t input) const {
    const Node& node = node_at(i);
    uint32_t (*const mask)(const Attributes&) = node.op->precision.full_inputs;
    return is_f32(node.inputs[input]) && !(mask && bit(mask(node.attributes), input));
  }
  bool output_may(size_t i, size_t output) const {
    const Node& node = node_at(i);
    if (!is_f32(node.outputs[output]) || bit(node.op->precision.full_outputs, output)) return false;
    if (roles_[i] != Role::kElements) return true;
    return node.outputs[output]->spec.shape.elems() > 1 && !is_reduced(node, output);
  }
  static bool is_reduced(const Node& node, size_t output) {
    if (node.op->fusion == FusionClass::kReduction) return true;
    if (!node.attributes.has("program")) return false;
    return node.attributes.object<ElementProgram>("program")->outputs[output].reduced;
  }

  void want(const Value* value, Demand demand) {
    Demand& known = facts_[value].demand;
    known = std::max(known, demand);
  }

  void spread_demand(size_t i) {
    const Node& node = node_at(i);
    const bool pinned =
        roles_[i] == Role::kMoves &&
        std::ranges::any_of(node.outputs, [this](const Value* output) { return facts_[output].pinned; });
    for (const Value* input : node.inputs) {
      if (pinned && is_f32(input)) facts_[input].pinned = true;  // else its elements would already be rounded
    }
    Demand demand = Demand::kNone;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (output_may(i, o)) demand = std::max(demand, facts_[node.outputs[o]].demand);
    }
    if (roles_[i] == Role::kFull) demand = Demand::kNone;
    if (roles_[i] == Role::kLow) demand = Demand::kDirect;
    const bool on_the_way = roles_[i] == Role::kElements || roles_[i] == Role::kFollow;
    if (on_the_way && demand != Demand::kNone) demand = Demand::kOnTheWay;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (input_may(i, k)) want(node.inputs[k], demand);
    }
  }

  void choose_storage(size_t i) {
    const Node& node = node_at(i);
    bool from_half = roles_[i] == Role::kLow;
    bool half_operand = false, wide_operand = false;
    for (const Value* input : node.inputs) {
      if (!is_f32(input)) continue;
      const auto found = facts_.find(input);
      const bool half = found != facts_.end() && found->second.half;
      from_half = from_half || (found != facts_.end() && found->second.from_half);
      half_operand = half_operand || half;
      wide_operand = wide_operand || !half;
    }
    if (roles_[i] == Role::kFull) return;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (!output_may(i, o)) continue;
      Fact& fact = facts_[node.outputs[o]];
      fact.from_half = from_half;
      if (roles_[i] == Role::kMoves) {
        // If any operand is f32, the result is f32 too, unless a product reads it.
        fact.half = !fact.pinned && half_operand && (!wide_operand || fact.demand != Demand::kNone);
      } else if (!fact.pinned) {
        fact.half = fact.demand == Demand::kDirect || (fact.demand == Demand::kOnTheWay && from_half);
      }
    }
  }

  bool any_narrow_output(const Node& node) {
    return std::any_of(node.outputs.begin(), node.outputs.end(),
                       [this](const Value* output) { return facts_[output].half; });
  }

  /// The value that represents `value` in the new graph, in whatever dtype it is stored there.
  Value* stored(Value* value) const {
    const auto found = stored_.find(value);
    return found == stored_.end() ? value : found->second;
  }

  Value* as(Value* value, DType dtype, size_t rank) {
    Value* now = stored(value);
    if (now->spec.dtype == dtype) return now;
    const auto [found, added] = casts_.try_emplace({now, dtype}, nullptr);
    if (added) {
      const OpDef& cast = node_at(0).op->registry->at("cast");
      Value* const inputs[] = {now};
      const std::string scope = rank < count_ ? node_at(rank).scope : "";
      Node* node = graph_.add_node(cast, inputs, {{"dtype", dtype}}, scope);
      ranks_.emplace_back(node, rank);
      found->second = node->outputs[0];
    }
    return found->second;
  }

  void rewrite(size_t i) {
    const Node& node = node_at(i);
    const bool half_operand = std::any_of(node.inputs.begin(), node.inputs.end(), [this](Value* input) {
      return is_f32(input) && is_half(stored(input)->spec.dtype);
    });
    const bool touched = roles_[i] == Role::kLow || half_operand || any_narrow_output(node);
    const bool widened = roles_[i] == Role::kMoves && !any_narrow_output(node);
    if (roles_[i] == Role::kFull || !touched || widened) return keep(i);
    if (roles_[i] == Role::kElements) return rewrite_elements(i);
    std::vector<Value*> inputs;
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      Value* input = node.inputs[k];
      if (!is_f32(input)) {
        inputs.push_back(stored(input));
      } else if (!input_may(i, k)) {
        inputs.push_back(as(input, DType::kF32, i));
      } else {
        inputs.push_back(roles_[i] == Role::kFollow ? stored(input) : as(input, dtype_, i));
      }
    }
    Attributes attributes = node.attributes;
    if (roles_[i] != Role::kMoves) {
      std::vector<DType> results;
      for (const Value* output : node.outputs)
        results.push_back(facts_[output].half ? dtype_ : output->spec.dtype);
      attributes.set(kStorage, std::move(results));
    }
    replace(i, *node.op, inputs, std::move(attributes));
  }

  /// Keeps the node unchanged, on f32 operands.
  void keep(size_t i) {
    Node& node = *graph_.nodes()[i];
    for (Value*& input : node.inputs) input = is_f32(input) ? as(input, DType::kF32, i) : stored(input);
    kept_.insert(&node);
  }

  void replace(size_t i, const OpDef& op, const std::vector<Value*>& inputs, Attributes attributes) {
    const Node& node = node_at(i);
    Node* added = graph_.add_node(op, inputs, std::move(attributes), node.scope);
    added->checkpoint = node.checkpoint;
    added->checkpoint_result = node.checkpoint_result;
    ranks_.emplace_back(added, i);
    for (size_t o = 0; o < node.outputs.size(); ++o) stored_[node.outputs[o]] = added->outputs[o];
  }

  /// Puts casts around the node's program for the values that it reads and writes in 16 bits.
  void rewrite_elements(size_t i) {
    const Node& node = node_at(i);
    const ElementProgram from = program_of(node);
    const auto program = std::make_shared<ElementProgram>();
    program->shape = from.shape;
    program->operands = from.operands;
    const size_t operands = from.operands.size();
    std::vector<uint8_t> registers(operands + from.code.size());
    std::vector<Value*> inputs;
    for (size_t r = 0, k = 0; r < operands; ++r) {
      registers[r] = static_cast<uint8_t>(r);
      if (from.operands[r].immediate) continue;
      inputs.push_back(stored(node.inputs[k++]));
      const DType dtype = inputs.back()->spec.dtype;
      if (dtype == from.operands[r].spec.dtype) continue;
      program->operands[r].spec.dtype = dtype;
      registers[r] = add_cast(*program, static_cast<uint8_t>(r), DType::kF32);
    }
    const size_t shift = program->code.size();
    for (size_t c = 0; c < from.code.size(); ++c) {
      registers[operands + c] = static_cast<uint8_t>(operands + shift + c);
      ElementProgram::Instruction instruction = from.code[c];
      for (int k = 0; k < element_op_arity(instruction.op); ++k)
        instruction.operands[k] = registers[instruction.operands[k]];
      program->code.push_back(instruction);
    }
    std::unordered_map<uint8_t, uint8_t> rounded;  // from registers to their 16-bit copies, which are stored
    for (size_t o = 0; o < from.outputs.size(); ++o) {
      ElementProgram::Output output = from.outputs[o];
      output.reg = registers[output.reg];
      if (facts_[node.outputs[o]].half) {
        const auto [found, added] = rounded.try_emplace(output.reg, uint8_t{0});
        if (added) found->second = add_cast(*program, output.reg, dtype_);
        output.reg = found->second;
      }
      program->outputs.push_back(output);
    }
    // A maximum or minimum must be one of the stored, rounded elements, because its gradient looks for it
    // there.
    for (ElementProgram::Output& output : program->outputs) {
      const bool extreme =
          output.reduced && (output.kind == ReduceKind::kMax || output.kind == ReduceKind::kMin);
      const auto found = rounded.find(output.reg);
      if (extreme && found != rounded.end()) output.reg = add_cast(*program, found->second, DType::kF32);
    }
    Attributes attributes;
    attributes.set("program", std::shared_ptr<const AttributeObject>(program));
    replace(i, node.op->registry->at("fused"), inputs, std::move(attributes));
  }

  static uint8_t add_cast(ElementProgram& program, uint8_t from, DType dtype) {
    program.code.push_back({ElementOp::kCast, dtype, {from, 0, 0}});
    return static_cast<uint8_t>(program.operands.size() + program.code.size() - 1);
  }

  void finish() {
    for (Value*& output : graph_.outputs())
      output = is_f32(output) ? as(output, DType::kF32, count_) : stored(output);
    for (Update& update : graph_.updates())
      update.value = is_f32(update.value) ? as(update.value, DType::kF32, count_) : stored(update.value);
    if (ranks_.empty()) return;
    std::vector<bool> keep(graph_.nodes().size(), true);
    std::unordered_map<const Node*, size_t> rank;
    for (size_t i = 0; i < count_; ++i) {
      keep[i] = kept_.contains(&node_at(i));
      rank[&node_at(i)] = i;
    }
    for (const auto& [node, position] : ranks_) rank[node] = position;
    graph_.retain_nodes(keep);
    sort_nodes(graph_, rank);
  }

  struct HashCast {
    size_t operator()(const std::pair<Value*, DType>& key) const {
      return hash_mix(std::hash<const void*>()(key.first), static_cast<size_t>(key.second));
    }
  };

  Graph& graph_;
  DType dtype_;
  size_t count_;  // the number of nodes before the pass adds its own
  std::vector<Role> roles_;
  std::unordered_map<const Value*, Fact> facts_;
  std::unordered_map<const Value*, Value*> stored_;
  std::unordered_map<std::pair<Value*, DType>, Value*, HashCast> casts_;
  std::unordered_set<const Node*> kept_;
  std::vector<std::pair<Node*, size_t>>
      ranks_;  // for each added node: the traced node that it precedes or replaces
};

}  // namespace

void cast_to_precision(Graph& graph, Precision precision) {
  const bool half = precision != Precision::kF32 && precision != Precision::kTf32;
  if (!half || graph.nodes().empty()) return;
  CastPass(graph, precision == Precision::kMixedF16 ? DType::kF16 : DType::kBF16).run();
}

size_t activation_bytes(const Graph& graph) {
  if (graph.outputs().empty()) return 0;
  std::unordered_map<const Value*, const Value*> roots;  // of views
  const auto root = [&roots](const Value* value) {
    const auto found = roots.find(value);
    return found == roots.end() ? value : found->second;
  };
  std::unordered_set<const Value*> of_batch(graph.inputs().begin(), graph.inputs().end());
  const Value* const loss = graph.outputs()[0];
  bool after = loss->producer == nullptr;
  std::unordered_set<const Value*> made = of_batch;
  std::unordered_set<const Value*> read_later;
  for (const auto& node : graph.nodes()) {
    const bool depends =
        node->inputs.empty() || std::any_of(node->inputs.begin(), node->inputs.end(),
                                            [&](const Value* v) { return of_batch.contains(v); });
    for (const Value* output : node->outputs) {
      if (node->op->fusion == FusionClass::kView) roots[output] = root(node->inputs[0]);
      if (depends) of_batch.insert(output);
      if (depends && !after) made.insert(root(output));
    }
    for (const Value* input : node->inputs) {
      if (after && made.contains(root(input))) read_later.insert(root(input));
    }
    after = after || node.get() == loss->producer;
  }
  size_t bytes = 0;
  for (const Value* value : read_later) bytes += value->spec.size_bytes();
  return bytes;
}

}  // namespace graph
}  // namespace isochron
