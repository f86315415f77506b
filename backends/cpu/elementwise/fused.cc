// Tile-wise execution of element programs. Every register is a short run of elements (a tile) that stays in
// L1; every instruction is one call of a vector function on a tile. Contiguous operands and outputs are read
// and written in place. Broadcast operands are copied into tiles, only once if their tiles repeat. Reductions
// at the end fold each tile into accumulators.
#include "isochron/backends/cpu/elementwise/fused.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "isochron/backends/cpu/elementwise/tile_functions.h"
#include "isochron/backends/cpu/elementwise/tile_operands.h"
#include "isochron/backends/cpu/elementwise/tile_reductions.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/tensor/elements.h"

namespace isochron::ops {
namespace {

using graph::ElementOp;
using graph::ElementProgram;
using graph::KernelArgs;
using graph::ReduceKind;

constexpr int64_t kTileElems = 1024;
constexpr int64_t kMaxPeriodElems = 4096;       // longer broadcast rows are copied piecewise
constexpr int64_t kElemsPerThread = 32 * 1024;  // below this, a second thread costs more than it saves
constexpr int64_t kMaxParallelAccumulators = 16 * 1024;

struct Instruction {
  TileFunction function;
  int16_t dst, a, b, c;  // registers, -1 where unused
};

struct Output {
  int reg = 0;
  bool direct = false;  // the register's instruction writes directly to the output
  size_t size = 4;      // bytes per element; 0 for a reduced output
};

/// The same program over as few axes as possible, so that runs along the last axis are as long as possible.
/// Axes of extent 1 are dropped. Neighboring axes are merged if each operand varies along both or repeats
/// along both, and each reduction folds both or neither.
ElementProgram with_merged_axes(const ElementProgram& program) {
  const Shape& shape = program.shape;
  const auto operand_varies = [&](const ElementProgram::Operand& operand, int axis) {
    const int own = axis - (shape.rank() - operand.spec.shape.rank());
    return own >= 0 && operand.spec.shape[own] != 1;
  };
  std::vector<std::vector<bool>> kinds;  // properties of each merged axis
  Dims extents;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    std::vector<bool> kind;
    for (const ElementProgram::Operand& operand : program.operands)
      kind.push_back(!operand.immediate && operand_varies(operand, axis));
    for (const ElementProgram::Output& output : program.outputs)
      kind.push_back(output.reduced && output.axes.contains(axis));
    if (!kinds.empty() && kinds.back() == kind) {
      extents[extents.rank() - 1] *= shape[axis];
    } else {
      kinds.push_back(std::move(kind));
      extents.push_back(shape[axis]);
    }
  }
  ElementProgram merged = program;
  merged.shape = Shape(extents);
  const size_t operands = program.operands.size();
  for (size_t i = 0; i < operands; ++i) {
    if (program.operands[i].immediate) continue;
    Shape own;
    for (size_t axis = 0; axis < kinds.size(); ++axis)
      own.push_back(kinds[axis][i] ? extents[static_cast<int>(axis)] : 1);
    merged.operands[i].spec.shape = own;
  }
  for (size_t o = 0; o < program.outputs.size(); ++o) {
    if (!program.outputs[o].reduced) continue;
    Axes axes;
    for (size_t axis = 0; axis < kinds.size(); ++axis) {
      if (kinds[axis][operands + o]) axes.push_back(static_cast<int64_t>(axis));
    }
    merged.outputs[o].axes = axes;
  }
  return merged;
}

class FusedKernel final : public graph::Kernel {
 public:
  FusedKernel(const ElementProgram& program, int threads) : elems_(program.shape.elems()) {
    read_operands(program);
    choose_tile();
    read_code(program);
    read_outputs(program);
    assign_slots(program);
    threads_ = elems_ >= 2 * kElemsPerThread && threads > 1 ? threads : 1;
    for (const Reduction& reduction : reductions_) {
      if (reduction.out_elems > kMaxParallelAccumulators) threads_ = 1;
      accumulators_ += reduction.out_elems;
    }
    scratch_bytes_ = align_up<size_t>(static_cast<size_t>(slots_) * slot_bytes_, 64);
    thread_bytes_ =
        scratch_bytes_ + align_up<size_t>(static_cast<size_t>(accumulators_) * sizeof(Accumulator), 64);
    through_scratch_.assign(outputs_.size(), 0);
  }

  size_t workspace_bytes() const override { return thread_bytes_ * static_cast<size_t>(threads_); }

  void bind(const KernelArgs& args) override {
    for (size_t o = 0; o < outputs_.size(); ++o) {
      const Output& output = outputs_[o];
      through_scratch_[o] = false;
      if (!output.direct) continue;
      for (size_t r = 0; r < operands_.size(); ++r) {
        const Operand& operand = operands_[r];
        if (operand.access != Access::kDirect || operand.input < 0) continue;
        if (last_use_[r] > producer_of(output.reg) && args.inputs[operand.input] == args.outputs[o]) {
          through_scratch_[o] = true;
        }
      }
    }
    if (tiles_ == 1) locate(args, args.workspace, bound_);
  }

  void run(const KernelArgs& args) override {
    if (elems_ == 0) {
      for (const Reduction& reduction : reductions_) finish_empty(args, reduction);
      return;
    }
    if (tiles_ == 1) {  // small tensors: bind() has already located all tiles
      load_steady(args, bound_);
      if (!reductions_.empty()) reset_accumulators(args.workspace);
      run_tile(args, bound_.data(), 0, elems_, args.workspace);
      finish(args, 1);
      return;
    }
    if (threads_ == 1) {
      run_tiles(args, 0, tiles_, args.workspace);
      finish(args, 1);
      return;
    }
    parallel_for(threads_, threads_, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        run_tiles(args, tiles_ * t / threads_, tiles_ * (t + 1) / threads_,
                  args.workspace + static_cast<size_t>(t) * thread_bytes_);
      }
    });
    finish(args, threads_);
  }

 private:
  using Registers = std::array<std::byte*, graph::kMaxProgramRegisters>;

  int producer_of(int reg) const { return reg - static_cast<int>(operands_.size()); }

  void read_operands(const ElementProgram& program) {
    shape_ = program.shape;
    int input = 0;
    for (const ElementProgram::Operand& source : program.operands) {
      Operand operand;
      if (source.immediate) {
        operand.dtype = source.spec.dtype;
        operand.access = Access::kScalar;
      } else {
        operand = classify_operand(source.spec, program.shape);
        operand.input = input++;
      }
      operands_.push_back(operand);
    }
  }

  /// Sets the tile size to about kTileElems: a multiple of the longest period, so that repeating operands are
  /// copied only once.
  void choose_tile() {
    int64_t period = 1;
    for (const Operand& operand : operands_) {
      if (operand.access == Access::kPeriodic && operand.period <= kMaxPeriodElems) {
        period = std::max(period, operand.period);
      }
    }
    tile_ = period >= kTileElems ? period : kTileElems / period * period;
    tile_ = std::min(tile_, std::max<int64_t>(elems_, 1));
    tiles_ = elems_ == 0 ? 0 : (elems_ + tile_ - 1) / tile_;
    for (Operand& operand : operands_) {
      operand.steady = operand.access == Access::kScalar ||
                       (operand.access == Access::kPeriodic && tile_ % operand.period == 0);
    }
    for (size_t r = 0; r < operands_.size(); ++r) {
      const Operand& operand = operands_[r];
      if (operand.input < 0 || in_place_scalar(operand)) continue;
      if (operand.access == Access::kDirect) {
        moving_.emplace_back(static_cast<int>(r), dtype_size(operand.dtype));
      } else {
        (operand.steady ? steady_ : changing_).push_back(static_cast<int>(r));
      }
    }
  }

  void read_code(const ElementProgram& program) {
    const int count = static_cast<int>(program.operands.size());
    last_use_.assign(static_cast<size_t>(count) + program.code.size(), -1);
    for (size_t i = 0; i < program.code.size(); ++i) {
      const ElementProgram::Instruction& source = program.code[i];
      const int arity = graph::element_op_arity(source.op);
      const DType operand_dtype =
          program.register_dtype(source.operands[source.op == ElementOp::kWhere ? 1 : 0]);
      Instruction instruction{};
      instruction.function = source.op == ElementOp::kCast ? tile_cast(operand_dtype, source.dtype)
                                                           : tile_function(source.op, operand_dtype);
      require(instruction.function != nullptr, ErrorCode::kUnsupported, graph::element_op_name(source.op),
              "is not defined on {}", dtype_name(operand_dtype));
      instruction.dst = static_cast<int16_t>(count + static_cast<int>(i));
      int16_t* fields[] = {&instruction.a, &instruction.b, &instruction.c};
      for (int k = 0; k < 3; ++k) {
        *fields[k] = k < arity ? static_cast<int16_t>(source.operands[k]) : int16_t{-1};
        if (k < arity) last_use_[source.operands[k]] = static_cast<int>(i);
      }
      code_.push_back(instruction);
      register_dtypes_.push_back(source.dtype);
    }
  }

  void read_outputs(const ElementProgram& program) {
    const int end = static_cast<int>(program.code.size());
    for (size_t o = 0; o < program.outputs.size(); ++o) {
      const ElementProgram::Output& source = program.outputs[o];
      const DType dtype = program.register_dtype(source.reg);
      Output output;
      output.reg = source.reg;
      output.size = dtype_size(dtype);
      if (source.reduced) {
        last_use_[source.reg] = end;
        reductions_.push_back(make_reduction(program, source, static_cast<int>(o), dtype));
        outputs_.push_back(output);
        outputs_.back().size = 0;
        continue;
      }
      const bool taken = std::any_of(outputs_.begin(), outputs_.end(), [&](const Output& other) {
        return other.direct && other.reg == source.reg;
      });
      output.direct = source.reg >= program.operands.size() && !taken;
      last_use_[source.reg] = end;  // even if direct: bind() may send it through scratch
      outputs_.push_back(output);
    }
  }

  static Reduction make_reduction(const ElementProgram& program, const ElementProgram::Output& source,
                                  int index, DType dtype) {
    Reduction reduction;
    reduction.reg = source.reg;
    reduction.output = index;
    reduction.kind = source.kind;
    reduction.dtype = dtype;
    reduction.reduce = tile_reduction(source.kind, dtype);
    const ElementOp combine = source.kind == ReduceKind::kProd  ? ElementOp::kMul
                              : source.kind == ReduceKind::kMax ? ElementOp::kMaximum
                              : source.kind == ReduceKind::kMin ? ElementOp::kMinimum
                                                                : ElementOp::kAdd;
    reduction.combine = tile_function(combine, dtype);
    reduction.out_elems = reduced_shape(program.shape, source.axes, false).elems();
    reduction.count =
        reduction.out_elems ? program.shape.elems() / std::max<int64_t>(reduction.out_elems, 1) : 0;
    std::vector<bool> reduced;
    for (int axis = 0; axis < program.shape.rank(); ++axis) {
      const bool now = source.axes.contains(axis);
      if (!reduced.empty() && reduced.back() == now) {
        reduction.extents.back() *= program.shape[axis];
      } else {
        reduced.push_back(now);
        reduction.extents.push_back(program.shape[axis]);
      }
    }
    if (reduced.empty()) {
      reduced.push_back(true);
      reduction.extents.push_back(1);
    }
    reduction.inner_reduced = reduced.back();
    reduction.out_strides.assign(reduced.size(), 0);
    int64_t stride = 1;
    for (size_t i = reduced.size(); i-- > 0;) {
      if (reduced[i]) continue;
      reduction.out_strides[i] = stride;
      stride *= reduction.extents[i];
    }
    return reduction;
  }

  /// Assigns scratch slots to registers by linear scan. A register's slot becomes free after its last use.
  void assign_slots(const ElementProgram& program) {
    size_t widest = 1;
    for (const Operand& operand : operands_) widest = std::max(widest, dtype_size(operand.dtype));
    for (DType dtype : register_dtypes_) widest = std::max(widest, dtype_size(dtype));
    slot_bytes_ = align_up<size_t>(static_cast<size_t>(tile_) * widest, 64);
    for (size_t r = 0; r < operands_.size(); ++r) {
      Operand& operand = operands_[r];
      if (operand.access == Access::kDirect) continue;
      if (operand.input < 0) {
        keep_immediate(program.operands[r]);
        operand.slot = -2 - static_cast<int>(immediates_.size() - 1);
      } else {
        operand.slot = slots_++;
      }
    }
    if (std::any_of(reductions_.begin(), reductions_.end(), halves)) halving_slot_ = slots_++;
    std::vector<int> free;
    register_slots_.assign(code_.size(), -1);
    for (size_t i = 0; i < code_.size(); ++i) {
      const Instruction& instruction = code_[i];
      const int dst = instruction.dst;
      int slot = free.empty() ? slots_++ : free.back();
      if (!free.empty()) free.pop_back();
      register_slots_[i] = slot;
      for (int r : {int{instruction.a}, int{instruction.b}, int{instruction.c}})
        release(r, static_cast<int>(i), free);
      if (last_use_[static_cast<size_t>(dst)] < 0) free.push_back(slot);  // unused except as output
    }
  }

  void release(int reg, int now, std::vector<int>& free) const {
    const int instruction = producer_of(reg);
    if (reg < 0 || instruction < 0 || last_use_[static_cast<size_t>(reg)] != now) return;
    const int slot = register_slots_[static_cast<size_t>(instruction)];
    if (std::find(free.begin(), free.end(), slot) == free.end()) free.push_back(slot);
  }

  void keep_immediate(const ElementProgram::Operand& operand) {
    std::array<std::byte, 8> one{};
    store_number(one.data(), operand.spec.dtype, operand.value);
    immediates_.emplace_back(slot_bytes_ / sizeof(uint64_t) + 1);
    fill_elements(immediates_.back().data(), operand.spec.dtype, one.data(), tile_);
  }

  void finish_empty(const KernelArgs& args, const Reduction& reduction) {
    if (reduction.out_elems == 0) return;
    std::byte* const to = args.outputs[reduction.output];
    if (is_floating(reduction.dtype)) {
      const double value = reduction.kind == ReduceKind::kMean ? std::numeric_limits<double>::quiet_NaN()
                                                               : identity_of(reduction.kind, true).f;
      std::array<std::byte, 8> one{};
      store_number(one.data(), reduction.dtype, value);
      fill_elements(to, reduction.dtype, one.data(), reduction.out_elems);
      return;
    }
    dispatch_dtype(reduction.dtype, [&]<typename T>(T) {
      const T value = reduction.kind == ReduceKind::kMax   ? std::numeric_limits<T>::lowest()
                      : reduction.kind == ReduceKind::kMin ? std::numeric_limits<T>::max()
                                                           : T(reduction.kind == ReduceKind::kProd);
      fill_elements(to, reduction.dtype, &value, reduction.out_elems);
    });
  }

  Accumulator* accumulators_of(std::byte* workspace) const {
    return reinterpret_cast<Accumulator*>(workspace + scratch_bytes_);
  }

  /// Sets the address of each register's first tile.
  void locate(const KernelArgs& args, std::byte* workspace, Registers& reg) const {
    const size_t operand_count = operands_.size();
    for (size_t r = 0; r < operand_count; ++r) {
      const Operand& operand = operands_[r];
      if (operand.access == Access::kDirect || in_place_scalar(operand)) {
        reg[r] = args.inputs[operand.input];
      } else if (operand.input < 0) {
        reg[r] = const_cast<std::byte*>(
            reinterpret_cast<const std::byte*>(immediates_[static_cast<size_t>(-2 - operand.slot)].data()));
      } else {
        reg[r] = workspace + static_cast<size_t>(operand.slot) * slot_bytes_;
      }
    }
    for (size_t i = 0; i < code_.size(); ++i) {
      reg[operand_count + i] = workspace + static_cast<size_t>(register_slots_[i]) * slot_bytes_;
    }
    for (size_t o = 0; o < outputs_.size(); ++o) {
      if (outputs_[o].direct && !through_scratch_[o])
        reg[static_cast<size_t>(outputs_[o].reg)] = args.outputs[o];
    }
  }

  /// A scalar operand of a one-element tile is its own tile.
  bool in_place_scalar(const Operand& operand) const {
    return operand.access == Access::kScalar && operand.input >= 0 && tile_ == 1;
  }

  void load_steady(const KernelArgs& args, const Registers& reg) const {
    for (int r : steady_)
      load_operand(operands_[static_cast<size_t>(r)], shape_,
                   args.inputs[operands_[static_cast<size_t>(r)].input], reg[static_cast<size_t>(r)], 0,
                   tile_);
  }

  /// Advances the registers whose tiles lie in operands or outputs by `tiles` tiles.
  void advance(Registers& reg, int64_t tiles) const {
    for (const auto& [r, size] : moving_)
      reg[static_cast<size_t>(r)] += size * static_cast<size_t>(tiles * tile_);
    for (size_t o = 0; o < outputs_.size(); ++o) {
      const Output& output = outputs_[o];
      if (output.direct && !through_scratch_[o]) {
        reg[static_cast<size_t>(output.reg)] += output.size * static_cast<size_t>(tiles * tile_);
      }
    }
  }

  void run_tiles(const KernelArgs& args, int64_t first, int64_t last, std::byte* workspace) {
    Registers reg;
    locate(args, workspace, reg);
    load_steady(args, reg);
    if (!reductions_.empty()) reset_accumulators(workspace);
    advance(reg, first);
    for (int64_t t = first; t < last; ++t) {
      const int64_t begin = t * tile_;
      run_tile(args, reg.data(), begin, std::min(tile_, elems_ - begin), workspace);
      if (t + 1 < last) advance(reg, 1);
    }
  }

  void run_tile(const KernelArgs& args, std::byte** reg, int64_t begin, int64_t n, std::byte* workspace) {
    for (int r : changing_) {
      const Operand& operand = operands_[static_cast<size_t>(r)];
      load_operand(operand, shape_, args.inputs[operand.input], reg[r], begin, n);
    }
    for (const Instruction& i : code_) {
      i.function(reg[i.dst], reg[i.a], i.b < 0 ? nullptr : reg[i.b], i.c < 0 ? nullptr : reg[i.c], n);
    }
    for (size_t o = 0; o < outputs_.size(); ++o) {
      const Output& output = outputs_[o];
      if (output.size == 0 || (output.direct && !through_scratch_[o])) continue;
      std::memcpy(args.outputs[o] + static_cast<size_t>(begin) * output.size, reg[output.reg],
                  static_cast<size_t>(n) * output.size);
    }
    if (reductions_.empty()) return;
    Accumulator* accumulators = accumulators_of(workspace);
    for (const Reduction& reduction : reductions_) {
      std::byte* scratch = workspace + static_cast<size_t>(std::max(halving_slot_, 0)) * slot_bytes_;
      accumulate_tile(reduction, accumulators, reg[reduction.reg], scratch, begin, n);
      accumulators += reduction.out_elems;
    }
  }

  void reset_accumulators(std::byte* workspace) const {
    Accumulator* accumulators = accumulators_of(workspace);
    for (const Reduction& reduction : reductions_) {
      std::fill_n(accumulators, reduction.out_elems,
                  identity_of(reduction.kind, is_floating(reduction.dtype)));
      accumulators += reduction.out_elems;
    }
  }

  void finish(const KernelArgs& args, int used) {
    int64_t offset = 0;
    for (const Reduction& reduction : reductions_) {
      Accumulator* total = accumulators_of(args.workspace) + offset;
      for (int t = 1; t < used; ++t) {
        const Accumulator* part =
            accumulators_of(args.workspace + static_cast<size_t>(t) * thread_bytes_) + offset;
        for (int64_t i = 0; i < reduction.out_elems; ++i) {
          fold(total[i], part[i], reduction.kind, is_floating(reduction.dtype));
        }
      }
      store_results(args.outputs[reduction.output], total, reduction);
      offset += reduction.out_elems;
    }
  }

  int64_t elems_;
  Shape shape_;
  int64_t tile_ = 1;
  int64_t tiles_ = 1;
  int threads_ = 1;
  int slots_ = 0;
  size_t slot_bytes_ = 64;
  size_t scratch_bytes_ = 0;
  size_t thread_bytes_ = 0;
  int64_t accumulators_ = 0;
  int halving_slot_ = -1;
  std::vector<Operand> operands_;
  std::vector<int> steady_;                     // operands copied into tiles once per run
  std::vector<int> changing_;                   // operands copied for each tile
  std::vector<std::pair<int, size_t>> moving_;  // operands read in place, with their element size
  Registers bound_{};
  std::vector<Instruction> code_;
  std::vector<DType> register_dtypes_;
  std::vector<int> register_slots_;
  std::vector<int> last_use_;  // instruction that reads the register last; the code's size if an output does
  std::vector<Output> outputs_;
  std::vector<char> through_scratch_;
  std::vector<Reduction> reductions_;
  std::vector<std::vector<uint64_t>> immediates_;
};

}  // namespace

std::unique_ptr<graph::Kernel> make_fused_kernel(const ElementProgram& program, int threads) {
  return std::make_unique<FusedKernel>(with_merged_axes(program), threads);
}

std::unique_ptr<graph::Kernel> prepare_elementwise(const graph::KernelRequest& request) {
  return make_fused_kernel(graph::elementwise_program(request.op.element, request.inputs, request.outputs[0]),
                           request.threads);
}

std::unique_ptr<graph::Kernel> prepare_reduction(const graph::KernelRequest& request) {
  return make_fused_kernel(
      graph::reduction_program(request.inputs[0], request.op.reduce, request.attributes.get<Dims>("axes"),
                               request.attributes.get<bool>("keep_dims")),
      request.threads);
}

std::unique_ptr<graph::Kernel> prepare_fused(const graph::KernelRequest& request) {
  return make_fused_kernel(*request.attributes.object<ElementProgram>("program"), request.threads);
}

}  // namespace isochron::ops
