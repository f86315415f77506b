// An element program under construction, with the values that it reads. Passes assemble it from parts of
// other programs.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "isochron/graph/ir/element_op.h"
#include "isochron/graph/ir/graph.h"
#include "isochron/graph/passes/passes.h"

namespace isochron::graph {

/// The program of a node of element ops, with one-element constants as numbers, and the values that it reads.
struct NodeProgram {
  ElementProgram program;
  std::vector<Value*> values;  // of its operands; null: a number

  NodeProgram() = default;
  explicit NodeProgram(const Node& node) : program(program_of(node)) {
    size_t input = 0;
    for (ElementProgram::Operand& operand : program.operands) {
      Value* const value = operand.immediate ? nullptr : node.inputs[input++];
      const std::optional<double> number = constant_scalar(value);
      if (number) operand = {value->spec, true, *number};
      values.push_back(number ? nullptr : value);
    }
  }
};

/// A program and the values that its operands read; operands are added before code.
struct BoundProgram {
  std::shared_ptr<ElementProgram> program = std::make_shared<ElementProgram>();
  std::vector<Value*> inputs;

  uint8_t operand(const ElementProgram::Operand& operand, Value* value) {
    program->operands.push_back(operand);
    if (!operand.immediate) inputs.push_back(value);
    return static_cast<uint8_t>(program->operands.size() - 1);
  }
  uint8_t code(ElementProgram::Instruction instruction) {
    program->code.push_back(instruction);
    return static_cast<uint8_t>(program->operands.size() + program->code.size() - 1);
  }
  uint8_t code(ElementOp op, DType dtype, uint8_t a, uint8_t b = 0) { return code({op, dtype, {a, b, 0}}); }
  uint8_t cast(DType dtype, uint8_t reg) {
    return program->register_dtype(reg) == dtype ? reg : code(ElementOp::kCast, dtype, reg);
  }
  int registers() const { return static_cast<int>(program->operands.size() + program->code.size()); }
};

}  // namespace isochron::graph
