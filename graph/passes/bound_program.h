// An element program under construction, with the values that it reads: what passes make of parts of others.
#pragma once

#include <memory>
#include <vector>

#include "isochron/graph/ir/element_op.h"
#include "isochron/graph/ir/graph.h"
#include "isochron/graph/passes/passes.h"

namespace isochron::graph {

/// The value of each operand of the program that a node runs; null: a number.
inline std::vector<Value*> operand_values(const Node& node, const ElementProgram& program) {
  std::vector<Value*> values;
  size_t input = 0;
  for (const ElementProgram::Operand& operand : program.operands)
    values.push_back(operand.immediate ? nullptr : node.inputs[input++]);
  return values;
}

/// A program and what its operands are read from; operands are added before code.
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
