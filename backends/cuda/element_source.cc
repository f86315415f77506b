#include "isochron/backends/cuda/element_source.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "isochron/backends/cuda/kernel_text.h"
#include "isochron/backends/cuda/texts.h"
#include "isochron/core/base/error.h"

namespace isochron::ops {
namespace {

using graph::ElementOp;
using graph::ElementProgram;
using graph::ReduceKind;

constexpr int64_t kBlock = 256;
constexpr int64_t kBlocksEach = 8;  // of a multiprocessor, in a loop over elements
constexpr int64_t kWarp = 32;       // neighbouring addresses are read at once
constexpr int64_t kFoldsEach = 16;  // elements that a thread folds before more blocks are worth it
constexpr int64_t kMostSplits = 64;

std::string functions_of(DType dtype) {
  if (is_floating(dtype)) return fmt::format("Floats<{}>", computed_type(dtype));
  return dtype == DType::kBool ? "Truth" : fmt::format("Whole<{}>", storage_type(dtype));
}

/// Whether the CPU's kernels have it too.
bool is_defined(ElementOp op, DType dtype) {
  const bool predicate = op == ElementOp::kIsNan || op == ElementOp::kIsFinite;
  const bool comparison = op >= ElementOp::kEqual && op <= ElementOp::kGreaterEqual;
  const bool logical =
      op == ElementOp::kLogicalNot || op == ElementOp::kLogicalAnd || op == ElementOp::kLogicalOr;
  if (op == ElementOp::kCast || op == ElementOp::kWhere || op == ElementOp::kCopy || comparison) return true;
  if (is_floating(dtype)) return !logical;
  if (dtype == DType::kBool) return logical || op == ElementOp::kMinimum || op == ElementOp::kMaximum;
  if (predicate || logical) return false;
  switch (op) {
    case ElementOp::kFloor:
    case ElementOp::kCeil:
    case ElementOp::kRound:
    case ElementOp::kTrunc:
    case ElementOp::kNeg:
    case ElementOp::kAbs:
    case ElementOp::kSign:
    case ElementOp::kSquare:
    case ElementOp::kRelu:
    case ElementOp::kRelu6:
    case ElementOp::kAdd:
    case ElementOp::kSub:
    case ElementOp::kMul:
    case ElementOp::kDiv:
    case ElementOp::kMod:
    case ElementOp::kPow:
    case ElementOp::kMaximum:
    case ElementOp::kMinimum:
    case ElementOp::kClip:
    case ElementOp::kMulAdd:
      return true;
    default:
      return false;
  }
}

class Writer {
 public:
  Writer(const ElementProgram& program, std::string name, int multiprocessors)
      : program_(program),
        name_(std::move(name)),
        multiprocessors_(std::max(1, multiprocessors)),
        index_type_(program.shape.elems() < (int64_t{1} << 31) ? "unsigned" : "unsigned long long") {
    for (const ElementProgram::Instruction& instruction : program.code) {
      const DType dtype =
          program.register_dtype(instruction.operands[instruction.op == ElementOp::kWhere ? 1 : 0]);
      require(is_defined(instruction.op, dtype), ErrorCode::kUnsupported,
              graph::element_op_name(instruction.op), "is not defined on {}", dtype_name(dtype));
    }
  }

  ElementSource write() {
    std::vector<size_t> plain;
    for (size_t o = 0; o < program_.outputs.size(); ++o) {
      if (!program_.outputs[o].reduced) plain.push_back(o);
    }
    for (size_t o = 0; o < program_.outputs.size(); ++o) {
      if (program_.outputs[o].reduced) write_reduction(o);
    }
    if (!plain.empty()) write_loop(plain);  // last, for it may overwrite what all read
    return std::move(source_);
  }

 private:
  std::string parameters() const {
    std::string text;
    for (size_t r = 0; r < program_.operands.size(); ++r) {
      if (!program_.operands[r].immediate)
        text += fmt::format("const {}* in{}, ", storage_type(program_.operands[r].spec.dtype), r);
    }
    for (size_t o = 0; o < program_.outputs.size(); ++o)
      text += fmt::format("{}* out{}, ", storage_type(program_.register_dtype(program_.outputs[o].reg)), o);
    return text + "void* workspace";
  }

  /// Registers `of` and what they are computed from, for element `i`.
  std::string compute(std::span<const int> of) const {
    const size_t operands = program_.operands.size();
    std::vector<bool> needed(operands + program_.code.size());
    for (const int reg : of) needed[static_cast<size_t>(reg)] = true;
    for (size_t c = program_.code.size(); c-- > 0;) {
      if (!needed[operands + c]) continue;
      const ElementProgram::Instruction& instruction = program_.code[c];
      for (int k = 0; k < graph::element_op_arity(instruction.op); ++k)
        needed[instruction.operands[k]] = true;
    }
    std::string text;
    for (size_t r = 0; r < operands; ++r) {
      if (needed[r]) text += fmt::format("    const {} r{} = {};\n", computed_of(r), r, operand_text(r));
    }
    for (size_t c = 0; c < program_.code.size(); ++c) {
      if (needed[operands + c])
        text +=
            fmt::format("    const {} r{} = {};\n", computed_of(operands + c), operands + c, result_text(c));
    }
    return text;
  }

  std::string_view computed_of(size_t reg) const {
    return computed_type(program_.register_dtype(static_cast<int>(reg)));
  }

  std::string operand_text(size_t r) const {
    const ElementProgram::Operand& operand = program_.operands[r];
    if (operand.immediate) return number_text(operand.value, operand.spec.dtype);
    const Strides strides =
        broadcast_strides(operand.spec.shape, contiguous_strides(operand.spec.shape), program_.shape);
    return fmt::format("widen(in{}[{}])", r, offset_text("i", joined_axes(program_.shape, strides)));
  }

  std::string result_text(size_t c) const {
    const ElementProgram::Instruction& instruction = program_.code[c];
    const auto reg = [&](int k) { return fmt::format("r{}", instruction.operands[k]); };
    std::string text;
    if (instruction.op == ElementOp::kCast) {
      text = fmt::format("Cast<{}>::of({})", computed_type(instruction.dtype), reg(0));
    } else if (instruction.op == ElementOp::kWhere) {
      text = fmt::format("{} ? {} : {}", reg(0), reg(1), reg(2));
    } else {
      text = fmt::format("{}::{}(", functions_of(program_.register_dtype(instruction.operands[0])),
                         graph::element_op_name(instruction.op));
      for (int k = 0; k < graph::element_op_arity(instruction.op); ++k) text += (k > 0 ? ", " : "") + reg(k);
      text += ")";
    }
    return is_half(instruction.dtype) ? fmt::format("rounded<{}>({})", storage_type(instruction.dtype), text)
                                      : text;
  }

  std::string store_text(size_t output, const std::string& index, const std::string& value) const {
    return fmt::format("out{}[{}] = Store<{}>::of({});\n", output, index,
                       storage_type(program_.register_dtype(program_.outputs[output].reg)), value);
  }

  void begin_function(const std::string& function) {
    source_.text += fmt::format("extern \"C\" __global__ void {}({}) {{\n", function, parameters());
  }

  void write_loop(std::span<const size_t> outputs) {
    const int64_t elems = program_.shape.elems();
    if (elems == 0) return;
    std::vector<int> registers;
    for (const size_t o : outputs) registers.push_back(program_.outputs[o].reg);
    const std::string function = name_ + "_elements";
    begin_function(function);
    source_.text += fmt::format(
        "  for ({0} i = blockIdx.x * static_cast<{0}>({1}) + threadIdx.x; i < {2}u; i += gridDim.x * "
        "static_cast<{0}>({1})) {{\n",
        index_type_, kBlock, elems);
    source_.text += compute(registers);
    for (const size_t o : outputs)
      source_.text += "    " + store_text(o, "i", fmt::format("r{}", program_.outputs[o].reg));
    source_.text += "  }\n}\n";
    const int64_t blocks = std::min((elems + kBlock - 1) / kBlock, kBlocksEach * multiprocessors_);
    source_.launches.push_back({function, {static_cast<unsigned>(blocks), 1}, kBlock});
  }

  /// 256 threads of a block fold for `across` results, `along` for each of them, then join what they have as
  /// a tree.
  void write_reduction(size_t o) {
    const ElementProgram::Output& output = program_.outputs[o];
    const Shape& shape = program_.shape;
    const Strides strides = contiguous_strides(shape);
    const Axes& reduced = output.axes;
    std::vector<IndexAxis> kept_axes, folded_axes;
    int64_t results = 1, count = 1;
    bool inner_folded = true;
    for (int a = 0; a < shape.rank(); ++a) {
      const bool folded = std::find(reduced.begin(), reduced.end(), a) != reduced.end();
      (folded ? folded_axes : kept_axes).push_back({shape[a], strides[a]});
      (folded ? count : results) *= shape[a];
      if (shape[a] > 1) inner_folded = folded;
    }
    if (results == 0) return;
    // Neighbouring threads read neighbouring elements: those that are folded, or those of other results.
    int64_t least_across = 1, along = 1;
    while (!inner_folded && least_across < std::min(kWarp, results)) least_across *= 2;
    while (along < kBlock / least_across && along < count) along *= 2;
    const int64_t across = kBlock / along;
    const int64_t blocks = (results + across - 1) / across;
    const int64_t wanted = std::max<int64_t>(1, kBlocksEach * multiprocessors_ / blocks);
    const int64_t splits =
        std::clamp<int64_t>(count / (along * kFoldsEach), 1, std::min(wanted, kMostSplits));

    const DType dtype = program_.register_dtype(output.reg);
    const bool floating = is_floating(dtype);
    const std::string_view type = !floating ? "long long" : dtype == DType::kF64 ? "double" : "float";
    const std::string fold = fold_text(output.kind);
    const std::string identity = identity_text(output.kind, dtype);
    const std::string function = fmt::format("{}_fold{}", name_, o);
    begin_function(function);
    source_.text += fmt::format(
        "  __shared__ {0} parts[{1}];\n"
        "  const unsigned along = threadIdx.x {2}, across = threadIdx.x {3};\n"
        "  const {4} j = blockIdx.x * static_cast<{4}>({5}) + across;\n"
        "  {0} folded = {6};\n"
        "  if (j < {7}u) {{\n"
        "   const {4} base = {8};\n"
        "   for ({4} k = blockIdx.y * {9}u + along; k < {10}u; k += {11}u) {{\n"
        "    const {4} i = base + {12};\n",
        type, kBlock, inner_folded ? fmt::format("% {}u", along) : fmt::format("/ {}u", across),
        inner_folded ? fmt::format("/ {}u", along) : fmt::format("% {}u", across), index_type_, across,
        identity, results, offset_text("j", joined_axes(kept_axes)), along, count, along * splits,
        offset_text("k", joined_axes(folded_axes)));
    const int reg = output.reg;
    source_.text += compute({&reg, 1});
    source_.text += fmt::format(
        "    folded = {0}::of(folded, static_cast<{1}>(r{2}));\n"
        "   }}\n  }}\n"
        "  const unsigned part = across * {3}u + along;\n"
        "  parts[part] = folded;\n"
        "  __syncthreads();\n"
        "  for (unsigned half = {4}u; half > 0; half /= 2) {{\n"
        "    if (along < half) parts[part] = {0}::of(parts[part], parts[part + half]);\n"
        "    __syncthreads();\n"
        "  }}\n",
        fold, type, reg, along, along / 2);
    const std::string result = result_of(output.kind, floating, count);
    if (splits == 1) {
      source_.text += "  if (along == 0 && j < " + std::to_string(results) + "u) " +
                      store_text(o, "j", fmt::format(fmt::runtime(result), cast_of(dtype), "parts[part]")) +
                      "}\n";
      source_.launches.push_back({function, {static_cast<unsigned>(blocks), 1}, kBlock});
      return;
    }
    source_.text += fmt::format(
        "  if (along == 0 && j < {0}u) static_cast<{1}*>(workspace)[blockIdx.y * static_cast<{2}>({0}) + j] "
        "= "
        "parts[part];\n}}\n",
        results, type, index_type_);
    source_.launches.push_back(
        {function, {static_cast<unsigned>(blocks), static_cast<unsigned>(splits)}, kBlock});
    const std::string join = function + "_join";
    begin_function(join);
    source_.text += fmt::format(
        "  const {0} j = blockIdx.x * static_cast<{0}>({1}) + threadIdx.x;\n"
        "  if (j >= {2}u) return;\n"
        "  {3} folded = {4};\n"
        "  for (unsigned s = 0; s < {5}u; ++s)\n"
        "    folded = {6}::of(folded, static_cast<const {3}*>(workspace)[s * static_cast<{0}>({2}) + j]);\n "
        " ",
        index_type_, kBlock, results, type, identity, splits, fold);
    source_.text += store_text(o, "j", fmt::format(fmt::runtime(result), cast_of(dtype), "folded")) + "}\n";
    source_.launches.push_back({join, {static_cast<unsigned>((results + kBlock - 1) / kBlock), 1}, kBlock});
    source_.workspace_bytes = std::max(source_.workspace_bytes, static_cast<size_t>(splits * results) *
                                                                    (type == "float" ? sizeof(float) : 8));
  }

  static std::string fold_text(ReduceKind kind) {
    switch (kind) {
      case ReduceKind::kProd:
        return "ProductOf";
      case ReduceKind::kMax:
        return "MaximumOf";
      case ReduceKind::kMin:
        return "MinimumOf";
      default:
        return "SumOf";
    }
  }
  static std::string identity_text(ReduceKind kind, DType dtype) {
    const DType folded = !is_floating(dtype) ? DType::kI64 : is_half(dtype) ? DType::kF32 : dtype;
    const double infinity = std::numeric_limits<double>::infinity();
    switch (kind) {
      case ReduceKind::kProd:
        return number_text(1, folded);
      case ReduceKind::kMax:
        return folded == DType::kI64 ? "(-9223372036854775807LL - 1)" : number_text(-infinity, folded);
      case ReduceKind::kMin:
        return folded == DType::kI64 ? "9223372036854775807LL" : number_text(infinity, folded);
      default:
        return number_text(0, folded);
    }
  }
  static std::string cast_of(DType dtype) { return fmt::format("Cast<{}>::of", computed_type(dtype)); }
  /// With places for a cast and for what was folded.
  static std::string result_of(ReduceKind kind, bool floating, int64_t count) {
    if (kind != ReduceKind::kMean) return "{0}({1})";
    return floating ? fmt::format("{{0}}({{1}} * (1.0 / {}))", count)
                    : fmt::format("{{0}}({{1}} / {}LL)", count);
  }

  const ElementProgram& program_;
  const std::string name_;
  const int64_t multiprocessors_;
  const std::string index_type_;
  ElementSource source_;
};

}  // namespace

ElementSource element_source(const ElementProgram& program, const std::string& name, int multiprocessors) {
  return Writer(program, name, multiprocessors).write();
}

const std::string& element_prelude() {
  static const std::string text =
      std::string(backends::texts::kScalarFunctors) +
      "\n#define HWY_INLINE ISOCHRON_INLINE\n#define HWY_NAMESPACE scalar_target\n"
      "#define HWY_BEFORE_NAMESPACE() static_assert(true, \"\")\n"
      "#define HWY_AFTER_NAMESPACE() static_assert(true, \"\")\n" +
      std::string(backends::texts::kFunctors) + std::string(backends::texts::kBlockSizes) +
      std::string(backends::texts::kElementPrelude) + "\nusing namespace isochron::ops::element;\n";
  return text;
}

}  // namespace isochron::ops
