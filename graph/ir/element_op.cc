#include "isochron/graph/ir/element_op.h"

namespace isochron::graph {

std::string_view element_op_name(ElementOp op) {
  static constexpr std::string_view kNames[] = {
#define X(id, name, arity) name,
      ISOCHRON_ELEMENT_OPS(X)
#undef X
  };
  return kNames[static_cast<int>(op)];
}

int element_op_arity(ElementOp op) {
  static constexpr int kArity[] = {
#define X(id, name, arity) arity,
      ISOCHRON_ELEMENT_OPS(X)
#undef X
  };
  return kArity[static_cast<int>(op)];
}

bool element_op_is_predicate(ElementOp op) {
  switch (op) {
    case ElementOp::kIsNan:
    case ElementOp::kIsFinite:
    case ElementOp::kLogicalNot:
    case ElementOp::kEqual:
    case ElementOp::kNotEqual:
    case ElementOp::kLess:
    case ElementOp::kLessEqual:
    case ElementOp::kGreater:
    case ElementOp::kGreaterEqual:
    case ElementOp::kLogicalAnd:
    case ElementOp::kLogicalOr:
      return true;
    default:
      return false;
  }
}

std::string_view reduce_kind_name(ReduceKind kind) {
  static constexpr std::string_view kNames[] = {"sum", "mean", "max", "min", "prod"};
  return kNames[static_cast<int>(kind)];
}

DType ElementProgram::register_dtype(int reg) const {
  const int count = static_cast<int>(operands.size());
  return reg < count ? operands[static_cast<size_t>(reg)].spec.dtype
                     : code[static_cast<size_t>(reg - count)].dtype;
}

TensorSpec ElementProgram::output_spec(int output) const {
  const Output& out = outputs[static_cast<size_t>(output)];
  return {register_dtype(out.reg), out.reduced ? reduced_shape(shape, out.axes, out.keep_dims) : shape};
}

ElementProgram elementwise_program(ElementOp op, std::span<const TensorSpec> inputs,
                                   const TensorSpec& output) {
  ElementProgram program;
  program.shape = output.shape;
  ElementProgram::Instruction instruction{op, output.dtype, {0, 0, 0}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    program.operands.push_back({inputs[i]});
    instruction.operands[i] = static_cast<uint8_t>(i);
  }
  program.code.push_back(instruction);
  program.outputs.push_back({static_cast<uint8_t>(inputs.size())});
  return program;
}

ElementProgram reduction_program(const TensorSpec& input, ReduceKind kind, const Axes& axes, bool keep_dims) {
  ElementProgram program;
  program.shape = input.shape;
  program.operands.push_back({input});
  program.outputs.push_back({0, true, kind, axes, keep_dims});
  return program;
}

std::string ElementProgram::str() const {
  std::string text = "{";
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].immediate) text += fmt::format("r{}={:g}; ", i, operands[i].value);
  }
  int reg = static_cast<int>(operands.size());
  for (const Instruction& instruction : code) {
    text += fmt::format("r{}={}(", reg++, element_op_name(instruction.op));
    for (int i = 0; i < element_op_arity(instruction.op); ++i) {
      text += fmt::format("{}r{}", i ? "," : "", instruction.operands[i]);
    }
    text += "); ";
  }
  text += "->";
  for (const Output& out : outputs) {
    text += out.reduced ? fmt::format(" {}{}(r{})", reduce_kind_name(out.kind), dims_str(out.axes), out.reg)
                        : fmt::format(" r{}", out.reg);
  }
  return text + "}";
}

}  // namespace isochron::graph
