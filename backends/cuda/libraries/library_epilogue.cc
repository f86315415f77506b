#include "isochron/backends/cuda/libraries/library_epilogue.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "isochron/ops/matmul/fused_product.h"

namespace isochron::ops {
namespace {

using graph::ElementProgram;

/// Follows the sum through an element program, from the product to the result.
class EpilogueReading {
 public:
  explicit EpilogueReading(const ElementProgram& program) : program_(program) {
    size_t input = kProductFactors;
    for (size_t r = 0; r < program.operands.size(); ++r)
      terms_.push_back(r == 0 || program.operands[r].immediate ? std::nullopt : std::optional(input++));
    terms_.resize(program.operands.size() + program.code.size());
  }

  std::optional<LibraryEpilogue> epilogue() {
    if (program_.outputs.size() != 1) return {};
    for (size_t i = 0; i < program_.code.size(); ++i) {
      if (!follow(program_.code[i], static_cast<int>(program_.operands.size() + i))) return {};
    }
    return program_.outputs[0].reg == sum_ ? std::optional(found_) : std::nullopt;
  }

 private:
  /// Processes the instruction that computes `reg`. Returns false if it can't be part of an epilogue.
  bool follow(const ElementProgram::Instruction& instruction, int reg) {
    const int a = instruction.operands[0];
    const int b = instruction.operands[1];
    const bool of_sum = a == sum_;
    const bool in_f32 = instruction.dtype == DType::kF32 && !stored_;
    switch (instruction.op) {
      case graph::ElementOp::kCast:
        if (!of_sum) {
          terms_[static_cast<size_t>(reg)] = terms_[static_cast<size_t>(a)];
          return in_f32 && terms_[static_cast<size_t>(a)].has_value();
        }
        if (stored_ || (instruction.dtype != DType::kF32 && instruction.dtype != result())) return false;
        stored_ = instruction.dtype != DType::kF32;
        break;
      case graph::ElementOp::kAdd:
        if (!in_f32 || found_.relu || (!of_sum && b != sum_) || !add(of_sum ? b : a)) return false;
        break;
      case graph::ElementOp::kRelu:
        if (!in_f32 || !of_sum || std::exchange(found_.relu, true)) return false;
        break;
      default:
        return false;
    }
    sum_ = reg;
    return true;
  }

  /// At most one term of the result's shape and one term with a number per column can be added, both in the
  /// result's dtype.
  bool add(int reg) {
    const std::optional<size_t> term = terms_[static_cast<size_t>(reg)];
    if (!term) return false;
    const TensorSpec& spec = operand_of(*term);
    const Shape& shape = program_.shape;
    const int64_t columns = shape[shape.rank() - 1];
    const bool vector = spec.shape.rank() > 0 && spec.shape[spec.shape.rank() - 1] == columns &&
                        spec.shape.elems() == columns;
    std::optional<size_t>& place = spec.shape == shape ? found_.matrix : found_.vector;
    if (spec.dtype != result() || (!vector && spec.shape != shape) || place) return false;
    place = term;
    return true;
  }

  const TensorSpec& operand_of(size_t input) const {
    const auto found = std::ranges::find(terms_, std::optional(input));
    return program_.operands[static_cast<size_t>(found - terms_.begin())].spec;
  }
  DType result() const { return program_.register_dtype(program_.outputs[0].reg); }

  const ElementProgram& program_;
  std::vector<std::optional<size_t>> terms_;  // input in each register, possibly cast to f32
  int sum_ = 0;                               // the register that holds the sum so far
  bool stored_ = false;                       // the sum has been converted to the result's dtype
  LibraryEpilogue found_;
};

}  // namespace

std::optional<LibraryEpilogue> library_epilogue(const ElementProgram& program) {
  return EpilogueReading(program).epilogue();
}

}  // namespace isochron::ops
