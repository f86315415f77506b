// The element functions, and the small programs that they form when fused. Every elementwise kernel runs one
// such program: a single op is a program of one instruction. The functions themselves are in
// ops/elementwise/functors-inl.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/tensor/shape.h"
#include "isochron/graph/ir/attributes.h"

namespace isochron::graph {

/// Identifier, name and number of operands of each op. New ops are added at the end.
// clang-format off
#define ISOCHRON_ELEMENT_OPS(X) \
  X(kCopy, "copy", 1) X(kNeg, "neg", 1) X(kAbs, "abs", 1) X(kSign, "sign", 1) \
  X(kSquare, "square", 1) X(kSqrt, "sqrt", 1) X(kRsqrt, "rsqrt", 1) X(kReciprocal, "reciprocal", 1) \
  X(kExp, "exp", 1) X(kExpm1, "expm1", 1) X(kLog, "log", 1) X(kLog1p, "log1p", 1) X(kSin, "sin", 1) \
  X(kCos, "cos", 1) X(kTanh, "tanh", 1) X(kSigmoid, "sigmoid", 1) X(kErf, "erf", 1) \
  X(kRelu, "relu", 1) X(kRelu6, "relu6", 1) X(kSoftplus, "softplus", 1) X(kSilu, "silu", 1) \
  X(kGelu, "gelu", 1) X(kGeluTanh, "gelu_tanh", 1) X(kFloor, "floor", 1) X(kCeil, "ceil", 1) \
  X(kRound, "round", 1) X(kTrunc, "trunc", 1) X(kIsNan, "is_nan", 1) X(kIsFinite, "is_finite", 1) \
  X(kLogicalNot, "logical_not", 1) X(kCast, "cast", 1) X(kAdd, "add", 2) X(kSub, "sub", 2) \
  X(kMul, "mul", 2) X(kDiv, "div", 2) X(kPow, "pow", 2) X(kMod, "fmod", 2) \
  X(kMaximum, "maximum", 2) X(kMinimum, "minimum", 2) X(kAtan2, "atan2", 2) X(kEqual, "equal", 2) \
  X(kNotEqual, "not_equal", 2) X(kLess, "less", 2) X(kLessEqual, "less_equal", 2) \
  X(kGreater, "greater", 2) X(kGreaterEqual, "greater_equal", 2) X(kLogicalAnd, "logical_and", 2) \
  X(kLogicalOr, "logical_or", 2) X(kReluGrad, "relu_grad", 2) X(kGeluGrad, "gelu_grad", 2) \
  X(kWhere, "where", 3) X(kClip, "clip", 3) X(kMulAdd, "mul_add", 3) X(kTan, "tan", 1) \
  X(kAsin, "asin", 1) X(kAcos, "acos", 1) X(kAtan, "atan", 1) X(kSinh, "sinh", 1) X(kCosh, "cosh", 1) \
  X(kAsinh, "asinh", 1) X(kAcosh, "acosh", 1) X(kAtanh, "atanh", 1) X(kLgamma, "lgamma", 1)
// clang-format on

enum class ElementOp : uint8_t {
#define X(id, name, arity) id,
  ISOCHRON_ELEMENT_OPS(X)
#undef X
      kCount
};
inline constexpr int kElementOpCount = static_cast<int>(ElementOp::kCount);
std::string_view element_op_name(ElementOp op);
int element_op_arity(ElementOp op);
/// True for the comparisons and tests, whose result is always bool.
bool element_op_is_predicate(ElementOp op);

enum class ReduceKind : uint8_t { kSum, kMean, kMax, kMin, kProd };
std::string_view reduce_kind_name(ReduceKind kind);

/// A straight-line program over registers, run for every element of `shape`. Registers 0..operands-1 hold the
/// operands (broadcast to `shape`); each instruction adds one register.
struct ElementProgram final : AttributeObject {
  struct Instruction {
    ElementOp op;
    DType dtype;          // of the result; operands have the dtypes of their registers
    uint8_t operands[3];  // registers
  };
  struct Output {
    uint8_t reg;
    bool reduced = false;  // a closing reduction over `axes`
    ReduceKind kind = ReduceKind::kSum;
    Axes axes = {};  // normalized, of `shape`
    bool keep_dims = false;
  };
  /// An operand read from memory (the next node input) or, if `immediate`, a number frozen into the program.
  struct Operand {
    TensorSpec spec;
    bool immediate = false;
    double value = 0;
  };
  Shape shape;
  std::vector<Operand> operands;
  std::vector<Instruction> code;
  std::vector<Output> outputs;

  DType register_dtype(int reg) const;
  TensorSpec output_spec(int output) const;
  std::string str() const override;
};
inline constexpr int kMaxProgramRegisters = 80;

/// One instruction on all of `inputs`, over the shape of `output`.
ElementProgram elementwise_program(ElementOp op, std::span<const TensorSpec> inputs,
                                   const TensorSpec& output);
/// A reduction of `input` alone; `axes` are normalized.
ElementProgram reduction_program(const TensorSpec& input, ReduceKind kind, const Axes& axes, bool keep_dims);

}  // namespace isochron::graph
