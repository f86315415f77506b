#include "isochron/backends/cuda/common/element_source.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "isochron/backends/cuda/common/kernel_text.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/base/error.h"

namespace isochron::ops {
namespace {

using graph::ElementOp;
using graph::ElementProgram;
using graph::ReduceKind;

constexpr int64_t kBlock = 256;
constexpr int64_t kBlocksEach = 8;  // blocks per multiprocessor in a loop over elements
constexpr int64_t kWarp = 32;       // neighboring addresses are read at once
constexpr int64_t kFoldsEach = 16;  // elements that a thread folds before more blocks are worth it
constexpr int64_t kMaxSplits = 256;
// Up to this many elements per thread, with one block on each multiprocessor, a single launch both folds the
// elements and stores them.
constexpr int64_t kMaxTogether = 2;
constexpr int64_t kFoldsTogether = 2;  // kFoldsEach in that launch, in which a thread waits for each fold
constexpr int64_t kWidestAccess = 16;  // bytes that a thread loads or stores at once

/// How many columns the threads of a warp read side by side: a power of two, enough for all columns but at
/// most kWarp.
int64_t columns_side_by_side(int64_t columns) {
  int64_t across = 1;
  while (across < std::min(kWarp, columns)) across *= 2;
  return across;
}

/// Splits the folding of `count` elements for each of `results` results into blocks of kBlock threads. A
/// block handles at least `least_across` results. A thread folds at least `folds_each` elements before the
/// elements are split over more blocks.
ColumnBlocks split_blocks(int64_t count, int64_t results, int64_t least_across, int64_t multiprocessors,
                          int64_t folds_each) {
  int64_t along = 1;
  while (along < kBlock / least_across && along < count) along *= 2;
  const int64_t across = kBlock / along, blocks = (results + across - 1) / across;
  const int64_t wanted = std::max<int64_t>(1, kBlocksEach * multiprocessors / blocks);
  return {along, blocks, std::clamp<int64_t>(count / (along * folds_each), 1, std::min(wanted, kMaxSplits))};
}

std::string functions_of(DType dtype) {
  if (is_floating(dtype)) return fmt::format("Floats<{}>", computed_type(dtype));
  return dtype == DType::kBool ? "Truth" : fmt::format("Whole<{}>", storage_type(dtype));
}

/// Whether `op` is defined on `dtype`, as in the CPU's kernels.
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
    for (size_t r = 0; r < program.operands.size(); ++r) addresses_.push_back(fmt::format("in{}", r));
  }

  /// See element_statements.
  std::string statements(size_t first) {
    addresses_[0].clear();
    for (size_t r = 1; r < program_.operands.size(); ++r) {
      if (!program_.operands[r].immediate) addresses_[r] = fmt::format("in{}", first++);
    }
    std::vector<int> registers;
    std::string stores;
    for (size_t o = 0; o < program_.outputs.size(); ++o) {
      registers.push_back(program_.outputs[o].reg);
      stores += "    " + store_text(o, "i", fmt::format("r{}", program_.outputs[o].reg));
    }
    return fmt::format("\n{}{}", compute(registers), stores);
  }

  ElementSource write() {
    std::vector<size_t> plain;
    std::vector<Axes> reduced;
    for (size_t o = 0; o < program_.outputs.size(); ++o) {
      const ElementProgram::Output& output = program_.outputs[o];
      if (!output.reduced) {
        plain.push_back(o);
      } else if (std::ranges::find(reduced, folded_axes(o)) == reduced.end()) {
        reduced.push_back(folded_axes(o));
      }
    }
    // Plain outputs are stored last, because they may overwrite the operands. If there are few elements, they
    // are stored by the last reduction kernel, which also visits every element once.
    const bool together =
        !reduced.empty() && program_.shape.elems() <= kMaxTogether * multiprocessors_ * kBlock;
    for (size_t r = 0; r < reduced.size(); ++r)
      write_reductions(reduced[r], together && r + 1 == reduced.size() ? plain : std::vector<size_t>());
    if (!together && !plain.empty()) write_loop(plain);
    return std::move(source_);
  }

 private:
  /// The axes of a reduced output that have more than one element.
  Axes folded_axes(size_t o) const {
    Axes axes;
    for (const int64_t axis : program_.outputs[o].axes)
      if (program_.shape[static_cast<int>(axis)] != 1) axes.push_back(axis);
    return axes;
  }

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

  /// Marks the registers that the registers `of` are computed from, including `of` themselves.
  std::vector<bool> needed_for(std::span<const int> of) const {
    const size_t operands = program_.operands.size();
    std::vector<bool> needed(operands + program_.code.size());
    for (const int reg : of) needed[static_cast<size_t>(reg)] = true;
    for (size_t c = program_.code.size(); c-- > 0;) {
      if (!needed[operands + c]) continue;
      const ElementProgram::Instruction& instruction = program_.code[c];
      for (int k = 0; k < graph::element_op_arity(instruction.op); ++k)
        needed[instruction.operands[k]] = true;
    }
    return needed;
  }

  /// Text that computes the registers `of` and everything they depend on, for element `i` or for the `e`-th
  /// element of the pack that starts there.
  std::string compute(std::span<const int> of, int64_t pack = 1) const {
    const size_t operands = program_.operands.size();
    const std::vector<bool> needed = needed_for(of);
    std::string text;
    for (size_t r = 0; r < operands; ++r) {
      if (needed[r])
        text += fmt::format("    const {} r{} = {};\n", computed_of(r), r, operand_text(r, pack));
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

  std::vector<IndexAxis> axes_of(size_t r) const {
    const Shape& shape = program_.operands[r].spec.shape;
    return joined_axes(program_.shape, broadcast_strides(shape, contiguous_strides(shape), program_.shape));
  }

  std::string operand_text(size_t r, int64_t pack) const {
    const ElementProgram::Operand& operand = program_.operands[r];
    if (operand.immediate) return number_text(operand.value, operand.spec.dtype);
    if (addresses_[r].empty()) return "sum";
    if (pack > 1 && lies_in_packs(r, pack)) return fmt::format("widen(pack{}.of[e])", r);
    const std::vector<IndexAxis> axes = axes_of(r);
    const bool same = axes.empty() || (axes.back().stride == 0 && axes.back().extent % pack == 0);
    return fmt::format("widen({}[{}])", addresses_[r],
                       offset_text(pack == 1 || same ? "i" : "(i + e)", axes));
  }

  /// Whether operand `r` is contiguous in each run of `pack` elements that starts at a multiple of `pack`.
  bool lies_in_packs(size_t r, int64_t pack) const {
    if (program_.operands[r].immediate) return false;
    const std::vector<IndexAxis> axes = axes_of(r);
    return !axes.empty() && axes.back().stride == 1 && axes.back().extent % pack == 0;
  }

  int64_t bytes_of_output(size_t o) const {
    return static_cast<int64_t>(dtype_size(program_.register_dtype(program_.outputs[o].reg)));
  }

  /// How many neighboring elements each thread computes, chosen so that its widest access has kWidestAccess
  /// bytes. It is 1 if there are too few elements to keep all the device's threads busy that way.
  int64_t pack_of(std::span<const size_t> outputs, const std::vector<bool>& needed) const {
    const int64_t elems = program_.shape.elems();
    int64_t widest = 1;
    for (const size_t o : outputs) widest = std::max(widest, bytes_of_output(o));
    for (size_t r = 0; r < program_.operands.size(); ++r) {
      if (needed[r] && lies_in_packs(r, 1))
        widest = std::max(widest, static_cast<int64_t>(dtype_size(program_.operands[r].spec.dtype)));
    }
    const int64_t pack = kWidestAccess / widest;
    return elems % pack == 0 && elems >= pack * kBlock * multiprocessors_ ? pack : 1;
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

  std::string_view stored_as(size_t output) const {
    return storage_type(program_.register_dtype(program_.outputs[output].reg));
  }
  std::string store_text(size_t output, const std::string& index, const std::string& value) const {
    return fmt::format("out{}[{}] = Store<{}>::of({});\n", output, index, stored_as(output), value);
  }

  /// The text of a condition: all tensors that are loaded or stored in packs begin at a multiple of a pack.
  std::string aligned_text(std::span<const size_t> outputs, const std::vector<bool>& needed,
                           int64_t pack) const {
    std::string text;
    const auto add = [&](std::string_view what, size_t number) {
      text += fmt::format("{}packs_fit<{}>({}{})", text.empty() ? "" : " && ", pack, what, number);
    };
    for (size_t r = 0; r < program_.operands.size(); ++r)
      if (needed[r] && lies_in_packs(r, pack)) add("in", r);
    for (const size_t o : outputs) add("out", o);
    return text;
  }

  void begin_function(const std::string& function, std::string_view last_parameter = "") {
    source_.text +=
        fmt::format("extern \"C\" __global__ void {}({}{}) {{\n", function, parameters(), last_parameter);
  }

  void write_loop(std::span<const size_t> outputs) {
    const int64_t elems = program_.shape.elems();
    if (elems == 0) return;
    std::vector<int> registers;
    for (const size_t o : outputs) registers.push_back(program_.outputs[o].reg);
    const std::vector<bool> needed = needed_for(registers);
    const int64_t pack = pack_of(outputs, needed);
    const std::string function = name_ + "_elements";
    begin_function(function);
    if (pack > 1)
      source_.text += fmt::format("  const bool at_once = {};\n", aligned_text(outputs, needed, pack));
    source_.text += fmt::format(
        "  for ({0} i = (blockIdx.x * static_cast<{0}>({1}) + threadIdx.x) * {3}u; i < {2}u; i += gridDim.x "
        "* "
        "static_cast<{0}>({4})) {{\n",
        index_type_, kBlock, elems, pack, kBlock * pack);
    if (pack == 1) {
      source_.text += compute(registers);
      for (const size_t o : outputs)
        source_.text += "    " + store_text(o, "i", fmt::format("r{}", program_.outputs[o].reg));
    } else {
      for (size_t r = 0; r < program_.operands.size(); ++r) {
        if (needed[r] && lies_in_packs(r, pack))
          source_.text += fmt::format("    const auto pack{0} = load_pack<{1}>(in{0} + {2}, at_once);\n", r,
                                      pack, offset_text("i", axes_of(r)));
      }
      for (const size_t o : outputs)
        source_.text += fmt::format("    Pack<{}, {}> made{};\n", stored_as(o), pack, o);
      source_.text += fmt::format("    ISOCHRON_UNROLL\n    for (int e = 0; e < {}; ++e) {{\n", pack);
      source_.text += compute(registers, pack);
      for (const size_t o : outputs)
        source_.text +=
            fmt::format("    made{}.of[e] = Store<{}>::of(r{});\n", o, stored_as(o), program_.outputs[o].reg);
      source_.text += "    }\n";
      for (const size_t o : outputs)
        source_.text += fmt::format("    store_pack(out{0} + i, made{0}, at_once);\n", o);
    }
    source_.text += "  }\n}\n";
    const int64_t packs = elems / pack;
    const int64_t blocks = std::min((packs + kBlock - 1) / kBlock, kBlocksEach * multiprocessors_);
    source_.launches.push_back({function, {static_cast<unsigned>(blocks), 1}, kBlock});
  }

  /// The data needed to fold one of the outputs.
  struct Fold {
    size_t output;
    DType dtype;
    std::string type, of, identity, parts;  // fold type, function, identity; array of one part per thread
  };
  Fold fold_of(size_t o) const {
    const ElementProgram::Output& output = program_.outputs[o];
    const DType dtype = program_.register_dtype(output.reg);
    return {o,
            dtype,
            !is_floating(dtype)    ? "long long"
            : dtype == DType::kF64 ? "double"
                                   : "float",
            fold_text(output.kind),
            identity_text(output.kind, dtype),
            fmt::format("parts{}", o)};
  }

  /// The axes of the program's shape that a reduction keeps and folds.
  struct DividedAxes {
    std::vector<IndexAxis> kept{}, folded{};
    int64_t results = 1, count = 1;  // and how many elements each result has
    bool inner_folded = true;        // the innermost axis that is longer than 1
  };
  DividedAxes divided(const Axes& reduced) const {
    const Shape& shape = program_.shape;
    const Strides strides = contiguous_strides(shape);
    DividedAxes axes;
    for (int a = 0; a < shape.rank(); ++a) {
      const bool folded = std::find(reduced.begin(), reduced.end(), a) != reduced.end();
      (folded ? axes.folded : axes.kept).push_back({shape[a], strides[a]});
      (folded ? axes.count : axes.results) *= shape[a];
      if (shape[a] > 1) axes.inner_folded = folded;
    }
    return axes;
  }

  /// Writes a kernel for all outputs that are reduced along these axes, and for the `plain` outputs. The 256
  /// threads of a block fold `across` results, with `along` threads per result, and then combine their
  /// partial results as a tree. If several blocks share a result, the last block to finish combines the
  /// partial results of all of them in a fixed order.
  void write_reductions(const Axes& reduced, std::span<const size_t> plain) {
    std::vector<Fold> folds;
    std::vector<int> registers;
    for (size_t o = 0; o < program_.outputs.size(); ++o) {
      if (!program_.outputs[o].reduced || folded_axes(o) != reduced) continue;
      folds.push_back(fold_of(o));
      registers.push_back(program_.outputs[o].reg);
    }
    for (const size_t o : plain) registers.push_back(program_.outputs[o].reg);
    const auto [kept_axes, folded_axes, results, count, inner_folded] = divided(reduced);
    if (results == 0) return;
    // Neighboring threads read neighboring elements: those that are folded, or those of other results.
    const auto [along, blocks, splits] =
        split_blocks(count, results, inner_folded ? 1 : columns_side_by_side(results), multiprocessors_,
                     plain.empty() ? kFoldsEach : kFoldsTogether);
    const int64_t across = kBlock / along;

    const std::string function = fmt::format("{}_fold{}", name_, folds.front().output);
    begin_function(function, splits > 1 ? ", unsigned arrival" : "");
    for (const Fold& fold : folds)
      source_.text += fmt::format("  __shared__ {} {}[{}];\n", fold.type, fold.parts, kBlock);
    source_.text += fmt::format(
        "  const unsigned along = threadIdx.x {0}, across = threadIdx.x {1}, part = across * {2}u + along;\n"
        "  const {3} j = blockIdx.x * static_cast<{3}>({4}) + across;\n",
        inner_folded ? fmt::format("% {}u", along) : fmt::format("/ {}u", across),
        inner_folded ? fmt::format("/ {}u", along) : fmt::format("% {}u", across), along, index_type_,
        across);
    for (const Fold& fold : folds)
      source_.text += fmt::format("  {} folded{} = {};\n", fold.type, fold.output, fold.identity);
    source_.text += fmt::format(
        "  if (j < {0}u) {{\n"
        "   const {1} base = {2};\n"
        "   ISOCHRON_UNROLL_BY(8)\n"
        "   for ({1} k = blockIdx.y * {3}u + along; k < {4}u; k += {5}u) {{\n"
        "    const {1} i = base + {6};\n",
        results, index_type_, offset_text("j", joined_axes(kept_axes)), along, count, along * splits,
        offset_text("k", joined_axes(folded_axes)));
    source_.text += compute(registers);
    for (const Fold& fold : folds)
      source_.text += fmt::format("    folded{0} = {1}::of(folded{0}, static_cast<{2}>(r{3}));\n",
                                  fold.output, fold.of, fold.type, program_.outputs[fold.output].reg);
    for (const size_t o : plain)
      source_.text += "    " + store_text(o, "i", fmt::format("r{}", program_.outputs[o].reg));
    source_.text += "   }\n  }\n";
    write_tree(folds, along);
    if (splits > 1) write_combination_of_blocks(folds, results, splits, along);
    source_.text += fmt::format("  if (along > 0 || j >= {}u) return;\n", results);
    for (const Fold& fold : folds)
      source_.text +=
          "  " + store_text(fold.output, "j",
                            fmt::format(fmt::runtime(result_of(program_.outputs[fold.output].kind, count)),
                                        cast_of(fold.dtype), fold.parts + "[part]"));
    source_.text += "}\n";
    source_.launches.push_back({function,
                                {static_cast<unsigned>(blocks), static_cast<unsigned>(splits)},
                                kBlock,
                                splits > 1 ? blocks : 0});
  }

  /// Combines the partial results of the `splits` blocks that share results: the last one to finish does it,
  /// in the order of the blocks. The other blocks end here.
  void write_combination_of_blocks(const std::vector<Fold>& folds, int64_t results, int64_t splits,
                                   int64_t along) {
    size_t offset = 0;  // in the workspace
    std::string leave, gather;
    for (const Fold& fold : folds) {
      const std::string left =
          fmt::format("reinterpret_cast<{}*>(static_cast<char*>(workspace) + {})", fold.type, offset);
      leave += fmt::format("    {}[blockIdx.y * static_cast<{}>({}) + j] = {}[part];\n", left, index_type_,
                           results, fold.parts);
      gather += fmt::format(
          "    folded{0} = {1}::of(folded{0}, static_cast<volatile {2}*>({3})[s * static_cast<{4}>({5}) + "
          "j]);\n",
          fold.output, fold.of, fold.type, left, index_type_, results);
      offset += static_cast<size_t>(splits * results) * (fold.type == "float" ? sizeof(float) : 8);
      offset = align_up(offset, size_t{8});
    }
    source_.workspace_bytes = std::max(source_.workspace_bytes, offset);
    source_.text += fmt::format(
        "  if (along == 0 && j < {0}u) {{\n{1}  }}\n"
        "  __threadfence();\n"
        "  __shared__ bool last;\n"
        "  __syncthreads();\n"
        "  if (threadIdx.x == 0) last = atomicAdd(arrivals + arrival + blockIdx.x, 1u) == {2}u;\n"
        "  __syncthreads();\n"
        "  if (!last) return;\n"
        "  if (threadIdx.x == 0) arrivals[arrival + blockIdx.x] = 0;\n",
        results, leave, splits - 1);
    for (const Fold& fold : folds)
      source_.text += fmt::format("  folded{} = {};\n", fold.output, fold.identity);
    source_.text += fmt::format("  for (unsigned s = along; j < {}u && s < {}u; s += {}u) {{\n{}  }}\n",
                                results, splits, along, gather);
    write_tree(folds, along);
  }

  /// Combines the partial results of the threads of each result; the first thread then has the complete
  /// result.
  void write_tree(const std::vector<Fold>& folds, int64_t along) {
    for (const Fold& fold : folds)
      source_.text += fmt::format("  {}[part] = folded{};\n", fold.parts, fold.output);
    source_.text +=
        fmt::format("  __syncthreads();\n  for (unsigned half = {}u; half > 0; half /= 2) {{\n", along / 2);
    for (const Fold& fold : folds)
      source_.text += fmt::format("    if (along < half) {0}[part] = {1}::of({0}[part], {0}[part + half]);\n",
                                  fold.parts, fold.of);
    source_.text += "    __syncthreads();\n  }\n";
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
  /// The lowest or the highest number of an integer dtype, as a long long.
  static std::string limit_text(DType dtype, bool highest) {
    return dispatch_dtype(dtype, [&]<typename T>(T) -> std::string {
      if constexpr (std::is_integral_v<T>) {
        if (highest) return fmt::format("{}LL", static_cast<int64_t>(std::numeric_limits<T>::max()));
        const auto lowest = static_cast<int64_t>(std::numeric_limits<T>::lowest());
        return lowest == 0 ? "0LL" : fmt::format("({}LL - 1)", lowest + 1);
      } else {
        return {};
      }
    });
  }
  static std::string identity_text(ReduceKind kind, DType dtype) {
    const DType folded = !is_floating(dtype) ? DType::kI64 : is_half(dtype) ? DType::kF32 : dtype;
    const double infinity = std::numeric_limits<double>::infinity();
    switch (kind) {
      case ReduceKind::kProd:
        return number_text(1, folded);
      case ReduceKind::kMax:
        return folded == DType::kI64 ? limit_text(dtype, false) : number_text(-infinity, folded);
      case ReduceKind::kMin:
        return folded == DType::kI64 ? limit_text(dtype, true) : number_text(infinity, folded);
      default:
        return number_text(0, folded);
    }
  }
  static std::string cast_of(DType dtype) { return fmt::format("Cast<{}>::of", computed_type(dtype)); }
  /// A format string with placeholders for a cast and for the folded value.
  static std::string result_of(ReduceKind kind, int64_t count) {
    return kind == ReduceKind::kMean ? fmt::format("{{0}}({{1}} / {}.0)", count) : "{0}({1})";
  }

  const ElementProgram& program_;
  const std::string name_;
  const int64_t multiprocessors_;
  const std::string index_type_;
  std::vector<std::string> addresses_;  // of operands; empty for the operand that is the variable `sum`
  ElementSource source_;
};

}  // namespace

ColumnBlocks column_blocks(int64_t rows, int64_t columns, int multiprocessors) {
  return split_blocks(rows, columns, columns_side_by_side(columns), multiprocessors, kFoldsEach);
}

ElementSource element_source(const ElementProgram& program, const std::string& name, int multiprocessors) {
  return Writer(program, name, multiprocessors).write();
}

std::string element_statements(const ElementProgram& program, size_t first) {
  return Writer(program, "", 1).statements(first);
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
