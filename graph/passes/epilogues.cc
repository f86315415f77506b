// Epilogues: element ops on the result of a product run before it is stored. A product (`matmul`,
// `convolution`, `convolution_input_gradient`) and the group of element ops that reads it first become one
// `fused_product`. This saves a launch, and the product isn't written and read in between; it is stored only
// if other nodes read it too. A convolution's bias becomes a part of the group. Reductions at the end of a
// group become a separate node, which reads the stored values.
#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <unordered_set>
#include <utility>

#include "isochron/graph/ir/element_op.h"
#include "isochron/graph/ir/half_storage.h"
#include "isochron/graph/passes/bound_program.h"
#include "isochron/graph/passes/passes.h"
#include "isochron/graph/passes/replacement.h"

namespace isochron::graph {
namespace {

constexpr std::array<std::string_view, 3> kProducts = {"matmul", "convolution", "convolution_input_gradient"};
constexpr size_t kFactors = 2;

bool is_product(const Node& node) { return std::ranges::find(kProducts, node.op->name) != kProducts.end(); }

/// The group of element ops that a node runs. Parts of it become separate programs.
class ElementGroup {
 public:
  explicit ElementGroup(const Node& node) : ElementGroup(NodeProgram(node)) {}

  const ElementProgram& whole() const { return whole_; }
  /// The outputs that are reduced (or aren't reduced).
  std::vector<size_t> outputs(bool reduced) const {
    std::vector<size_t> found;
    for (size_t o = 0; o < whole_.outputs.size(); ++o)
      if (whole_.outputs[o].reduced == reduced) found.push_back(o);
    return found;
  }

  /// The program that computes `outputs` from a product, its first operand; `bias` is added to the product
  /// unless null. `value` is what the group read instead. With `store`, the product (with bias) is also an
  /// output, after the others.
  BoundProgram on_product(const Value* value, Value* bias, const std::vector<size_t>& outputs,
                          bool store) const {
    BoundProgram made;
    made.program->shape = whole_.shape;
    const TensorSpec& product = value->spec;
    made.program->operands.push_back({product});
    constexpr uint8_t kFirst = 0;
    const uint8_t added = bias == nullptr ? kFirst : made.operand({bias->spec}, bias);
    std::vector<bool> needed = needed_for(outputs, {});
    std::vector<uint8_t> now(needed.size());
    for (size_t r = 0; r < values_.size(); ++r) {
      if (needed[r] && values_[r] != value) now[r] = made.operand(whole_.operands[r], values_[r]);
    }
    uint8_t sum = kFirst;
    if (bias != nullptr) {
      const DType wide = is_half(product.dtype) ? DType::kF32 : product.dtype;
      const uint8_t wide_sum = made.cast(wide, kFirst), wide_bias = made.cast(wide, added);
      sum = made.cast(product.dtype, made.code(ElementOp::kAdd, wide, wide_sum, wide_bias));
    }
    for (size_t r = 0; r < values_.size(); ++r)
      if (values_[r] == value) now[r] = sum;
    finish(made, std::move(needed), std::move(now), outputs);
    if (store) made.program->outputs.push_back({sum});
    return made;
  }

  /// The program that computes the outputs `of` from the `stored` registers, which are already values of the
  /// graph. nullopt if it would also need `value` itself, which isn't stored.
  std::optional<BoundProgram> on_stored(const Value* value, const std::vector<std::pair<int, Value*>>& stored,
                                        const std::vector<size_t>& of) const {
    BoundProgram made;
    made.program->shape = whole_.shape;
    std::vector<bool> given(registers());
    for (const auto& [reg, unused] : stored) given[static_cast<size_t>(reg)] = true;
    std::vector<bool> needed = needed_for(of, given);
    std::vector<uint8_t> now(needed.size());
    std::unordered_map<const Value*, uint8_t> operands;
    for (const auto& [reg, from] : stored) {
      if (needed[static_cast<size_t>(reg)] && !operands.contains(from))
        operands[from] = made.operand({from->spec}, from);
    }
    for (size_t r = 0; r < values_.size(); ++r) {
      if (!needed[r] || given[r]) continue;
      if (values_[r] == value) return std::nullopt;
      now[r] = made.operand(whole_.operands[r], values_[r]);
    }
    for (const auto& [reg, from] : stored) {
      const auto r = static_cast<size_t>(reg);
      if (needed[r]) now[r] = made.cast(whole_.register_dtype(reg), operands.at(from));
    }
    for (size_t r = 0; r < needed.size(); ++r) needed[r] = needed[r] && !given[r];
    finish(made, std::move(needed), std::move(now), of);
    return made;
  }

  /// The register that the output stores rounded to 16 bits; -1 if the output isn't such a rounding. A
  /// reduction may read the rounded value instead of the register: sums of gradients are then sums of the
  /// same rounded values that later products read.
  int rounded_from(size_t output) const {
    const int reg = whole_.outputs[output].reg, code = reg - static_cast<int>(whole_.operands.size());
    if (code < 0 || !is_half(whole_.register_dtype(reg))) return -1;
    const ElementProgram::Instruction& last = whole_.code[static_cast<size_t>(code)];
    return last.op == ElementOp::kCast ? last.operands[0] : -1;
  }
  /// The registers that hold `value`.
  std::vector<int> registers_of(const Value* value) const {
    std::vector<int> found;
    for (size_t r = 0; r < values_.size(); ++r)
      if (values_[r] == value) found.push_back(static_cast<int>(r));
    return found;
  }

 private:
  explicit ElementGroup(NodeProgram node)
      : whole_(std::move(node.program)), values_(std::move(node.values)) {}

  size_t registers() const { return whole_.operands.size() + whole_.code.size(); }

  /// The registers that these outputs are computed from; the search stops at registers that are `given`.
  std::vector<bool> needed_for(const std::vector<size_t>& outputs, const std::vector<bool>& given) const {
    std::vector<bool> needed(registers());
    for (const size_t o : outputs) needed[whole_.outputs[o].reg] = true;
    for (size_t c = whole_.code.size(); c-- > 0;) {
      const size_t reg = whole_.operands.size() + c;
      if (!needed[reg] || (!given.empty() && given[reg])) continue;
      const ElementProgram::Instruction& instruction = whole_.code[c];
      for (int k = 0; k < element_op_arity(instruction.op); ++k) needed[instruction.operands[k]] = true;
    }
    return needed;
  }

  /// Adds the instructions that are needed, and the outputs. `now` maps registers of the whole program to
  /// registers of `made`.
  void finish(BoundProgram& made, std::vector<bool> needed, std::vector<uint8_t> now,
              const std::vector<size_t>& outputs) const {
    for (size_t c = 0; c < whole_.code.size(); ++c) {
      const size_t reg = whole_.operands.size() + c;
      if (!needed[reg]) continue;
      ElementProgram::Instruction instruction = whole_.code[c];
      for (int k = 0; k < element_op_arity(instruction.op); ++k)
        instruction.operands[k] = now[instruction.operands[k]];
      now[reg] = made.code(instruction);
    }
    for (const size_t o : outputs) {
      ElementProgram::Output output = whole_.outputs[o];
      output.reg = now[output.reg];
      made.program->outputs.push_back(output);
    }
  }

  const ElementProgram whole_;
  const std::vector<Value*> values_;  // of its operands
};

class Absorption {
 public:
  explicit Absorption(Graph& graph) : graph_(graph), uses_(graph.use_counts()), replacement_(graph) {}

  void run() {
    const size_t before = graph_.nodes().size();
    for (size_t i = 0; i < before; ++i) {
      Node& reader = *graph_.nodes()[i];
      const std::vector<Value*> products = products_for(reader);
      for (Value* input : reader.inputs) read_.insert(input);
      replacement_.values.update_inputs(reader);
      for (Value* product : products) {
        if (absorb(reader, product)) break;
      }
    }
    replacement_.finish();
  }

 private:
  /// The products that the node could absorb, the latest first: if the node adds two products, it absorbs the
  /// later one and reads the earlier one's result.
  std::vector<Value*> products_for(const Node& reader) const {
    std::vector<Value*> found;
    if (reader.op->fusion != FusionClass::kElementwise && reader.op->name != "fused") return found;
    for (Value* input : reader.inputs) {
      // Only the first reader may absorb a product, because all other readers can then follow the fused node.
      if (input->producer == nullptr || !is_product(*input->producer) || read_.contains(input)) continue;
      if (std::ranges::find(found, input) == found.end()) found.push_back(input);
    }
    std::ranges::sort(found, std::greater(),
                      [&](const Value* value) { return replacement_.rank(*value->producer); });
    return found;
  }

  /// False if `reader` can't absorb the product.
  bool absorb(const Node& reader, Value* product) {
    const Node& producer = *product->producer;
    const ElementGroup group(reader);
    const std::vector<size_t> plain = group.outputs(false), reduced = group.outputs(true);
    if (product->spec.shape != group.whole().shape || product->spec.shape.elems() == 0 || plain.empty())
      return false;
    const bool store = uses_.at(product) > std::ranges::count(reader.inputs, product);
    Value* const bias = producer.inputs.size() > kFactors ? producer.inputs[kFactors] : nullptr;
    const BoundProgram epilogue = group.on_product(product, bias, plain, store);
    std::optional<BoundProgram> rest;
    if (!reduced.empty()) {
      std::vector<std::pair<int, Value*>> stored;
      for (const size_t o : plain) stored.emplace_back(group.whole().outputs[o].reg, reader.outputs[o]);
      for (const size_t o : plain) {
        const int wide = group.rounded_from(o);
        const auto holds = [wide](const auto& each) { return each.first == wide; };
        if (wide >= 0 && std::ranges::none_of(stored, holds)) stored.emplace_back(wide, reader.outputs[o]);
      }
      for (const int reg : store ? group.registers_of(product) : std::vector<int>())
        stored.emplace_back(reg, product);
      rest = group.on_stored(product, stored, reduced);
      if (!rest) return false;
    }
    if (epilogue.registers() > kMaxProgramRegisters) return false;

    Attributes attributes = producer.attributes;
    attributes.erase(kStorage);
    attributes.set("product", producer.op->name);
    attributes.set("program", std::shared_ptr<const AttributeObject>(epilogue.program));
    std::vector<Value*> inputs(producer.inputs.begin(), producer.inputs.begin() + kFactors);
    inputs.insert(inputs.end(), epilogue.inputs.begin(), epilogue.inputs.end());
    const Node& made =
        replacement_.add(reader, "fused_product", inputs, std::move(attributes), producer.scope);
    for (size_t o = 0; o < plain.size(); ++o)
      replacement_.values.replace(reader.outputs[plain[o]], made.outputs[o]);
    if (store) replacement_.values.replace(product, made.outputs.back());
    if (rest) {
      for (Value*& input : rest->inputs) input = replacement_.values.resolve(input);
      attributes = {};
      attributes.set("program", std::shared_ptr<const AttributeObject>(rest->program));
      const Node& sums = replacement_.add(reader, "fused", rest->inputs, std::move(attributes), reader.scope);
      for (size_t o = 0; o < reduced.size(); ++o)
        replacement_.values.replace(reader.outputs[reduced[o]], sums.outputs[o]);
    }
    replacement_.drop(producer);
    replacement_.drop(reader);
    return true;
  }

  Graph& graph_;
  const std::unordered_map<const Value*, int> uses_;
  Replacement replacement_;
  std::unordered_set<const Value*> read_;  // values that earlier nodes read
};

}  // namespace

void absorb_epilogues(Graph& graph) { Absorption(graph).run(); }

}  // namespace isochron::graph
