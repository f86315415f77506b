// Recurrent layers, a block of rows at a time: products in register tiles, cells in vectors.
#include "isochron/backends/cpu/recurrent/recurrent_blocks.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/recurrent/recurrent_blocks.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/backends/cpu/common/scratch.h"
#include "isochron/backends/cpu/recurrent/recurrent_packing-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename From, typename To>
void copy_rows(int64_t rows, int64_t count, const From* from, int64_t from_row, To* to, int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r) copy_row(from + r * from_row, count, to + r * to_row);
}

/// Copies the rows of a state to padded rows; writes zeros if there is no state.
template <typename T>
void load_state(const RecurrentShape& shape, int64_t begin, int64_t rows, const T* state, T* to,
                int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r) std::fill_n(to + r * to_row, shape.padded_units(), T(0));
  if (state) copy_rows(rows, shape.units, state + begin * shape.units, shape.units, to, to_row);
}

/// The memory of a block of rows in the forward pass, and its position in time.
template <typename E, typename O>
struct ForwardBlock {
  using T = ComputeType<E>;
  RecurrentForward<E, O> call;
  int64_t begin;
  int64_t rows;
  int64_t stride;  // of operands
  int64_t c_stride;
  int64_t h_stride;
  T* sums;     // cell_groups x whole rows x slot_columns
  T* c;        // rows x padded_units
  O* operand;  // [x_t | h], rows x operand_stride; bf16: zero-padded
  O* next;     // the same for the next step
  T* h;        // rows of h_stride; if O is T, part of the operand
  T* next_h;
};

/// Computes the cell of row r and group g in one step, from its sums.
template <class Cell, typename E, typename O>
HWY_INLINE void forward_cell(const ForwardBlock<E, O>& block, int64_t time, int64_t r, int64_t g,
                             const ComputeType<E>* sums) {
  using T = ComputeType<E>;
  const RecurrentForward<E, O>& call = block.call;
  const RecurrentShape& shape = call.shape;
  const hn::ScalableTag<T> d;
  const Group<O> group(shape, g);
  const int64_t first = g * shape.lanes;
  const int64_t n = block.begin + r;
  const int64_t step_row = time * shape.batch + n;
  CellForward<T> cell;
  cell.h = hn::LoadU(d, block.h + r * block.h_stride + first);
  T* c = block.c + r * block.c_stride + first;
  cell.c = hn::LoadU(d, c);
  const bool active = !call.lengths || time < call.lengths[n];
  if (active) {
    for (int64_t s = 0; s < kRecurrentSlots; ++s) cell.gates[s] = hn::LoadU(d, sums + s * shape.lanes);
    Cell::template forward<T>(cell);
  } else {
    for (auto& gate : cell.gates) gate = hn::Zero(d);
  }
  hn::StoreU(cell.h, d, block.next_h + r * block.h_stride + first);
  const auto h = Operand<O>::round(cell.h);
  if constexpr (!std::is_same_v<O, T>) {
    Operand<O>::write(h, block.next + r * block.stride + shape.features + first, group.lanes());
  }
  if (call.sequence) {
    group.store(active ? h : hn::Zero(hn::DFromV<decltype(h)>()), call.sequence, n * shape.steps + time);
  }
  if (call.gates) {
    for (int64_t s = 0; s < kRecurrentSlots; ++s) group.store_gate(cell.gates[s], call.gates, step_row, s);
  }
  if constexpr (Cell::kHasCell) {
    hn::StoreU(cell.c, d, c);
    if (call.cells) group.store(cell.c, call.cells, step_row);
  }
}

/// Computes the cells of all rows in `count` groups, from `first` on. The groups of a row are processed in
/// the order in which the gates store them. The block is passed by value, as in backward_cells.
template <class Cell, typename E, typename O>
void forward_cells(const ForwardBlock<E, O> block, int64_t time, int64_t first, int64_t count) {
  const int64_t columns = block.call.shape.slot_columns();
  const int64_t group_sums = block.call.shape.sums_of_group(block.rows);
  for (int64_t r = 0; r < block.rows; ++r) {
    for (int64_t i = 0; i < count; ++i) {
      forward_cell<Cell>(block, time, r, first + i, block.sums + i * group_sums + r * columns);
    }
  }
}

template <typename E, typename O>
ForwardBlock<E, O> forward_memory(const RecurrentForward<E, O>& call, int64_t begin, int64_t rows,
                                  std::byte* memory) {
  using T = ComputeType<E>;
  const RecurrentShape& shape = call.shape;
  const int64_t stride = shape.operand_stride<O>();
  Scratch scratch(memory);
  ForwardBlock<E, O> block{call, begin, rows, stride, shape.padded_units(), stride, {}, {}, {}, {}, {}, {}};
  const int64_t operands = shape.whole_rows(rows) * stride;
  block.sums = scratch.take<T>(shape.cell_groups(rows) * shape.sums_of_group(rows));
  block.operand = scratch.take<O>(operands);
  block.next = scratch.take<O>(operands);
  block.c = scratch.take<T>(rows * block.c_stride);
  load_state(shape, begin, rows, call.c0, block.c, block.c_stride);
  if constexpr (std::is_same_v<O, T>) {
    block.h = block.operand + shape.features;
    block.next_h = block.next + shape.features;
  } else {
    block.h = block.next_h = scratch.take<T>(rows * block.c_stride);
    block.h_stride = block.c_stride;
    std::fill_n(block.operand, operands, O());
    std::fill_n(block.next, operands, O());
    if (call.h0) {
      copy_rows(rows, shape.units, call.h0 + begin * shape.units, shape.units, block.operand + shape.features,
                stride);
    }
  }
  load_state(shape, begin, rows, call.h0, block.h, block.h_stride);
  return block;
}

template <typename E, typename O, class Cell>
void forward_block(const RecurrentForward<E, O>& call, int64_t begin, int64_t end, std::byte* scratch) {
  const RecurrentShape& shape = call.shape;
  const int64_t rows = end - begin;
  const int64_t stride = shape.operand_stride<O>();
  const int64_t depth = shape.whole_depth<O>(shape.depth());
  const int64_t columns = shape.slot_columns();
  const int64_t group_sums = shape.sums_of_group(rows);
  const int64_t most = shape.cell_groups(rows);
  const TileRegisters registers(shape.tiles);
  ForwardBlock<E, O> block = forward_memory(call, begin, rows, scratch);
  for (int64_t s = 0; s < shape.steps; ++s) {
    const int64_t time = shape.time(s);
    copy_rows(rows, shape.features, call.x + (begin * shape.steps + time) * shape.features,
              shape.steps * shape.features, block.operand, stride);
    const Left<O> left{block.operand, stride, kTogether<O>, 0, depth / kTogether<O>, 1, shape.tiles};
    for (int64_t g = 0; g < shape.groups(); g += most) {
      const int64_t count = std::min(most, shape.groups() - g);
      for (int64_t i = 0; i < count; ++i) {
        multiply_block<O>({rows, columns, left, call.weights + (g + i) * depth * columns,
                           columns * kTogether<O>, call.bias + (g + i) * columns, 0,
                           block.sums + i * group_sums, columns});
      }
      forward_cells<Cell>(block, time, g, count);
    }
    std::swap(block.operand, block.next);
    std::swap(block.h, block.next_h);
  }
  const int64_t units = shape.units;
  if (call.h) copy_rows(rows, units, block.h, block.h_stride, call.h + begin * units, units);
  if (call.c) copy_rows(rows, units, block.c, block.c_stride, call.c + begin * units, units);
}

/// The memory of a block of rows in the backward pass, and its position in time. A chunk consists of several
/// steps; its rows are the rows of these steps, one step after the other, `step_rows` each.
template <typename E, typename O>
struct BackwardBlock {
  using T = ComputeType<E>;
  RecurrentBackward<E, O> call;
  int64_t begin;
  int64_t rows;
  int64_t step_rows;
  int64_t chunk_rows;
  int64_t stride;    // of operands
  int64_t d_stride;  // of gradients of states
  O* operands;       // [x | h before] of the chunk's rows, of operand_stride
  O* slots;          // groups x the chunk's rows x slot_columns
  O* together;       // operands, then a group's slots, packed for the weights' product
  T* d_h;            // rows x padded_units
  T* d_c;
  T* d_x;  // rows x padded_features
};

/// Copies [x_t | h_(t-1)] of all rows (0 beyond their length) to step `slot` of the chunk.
template <typename E, typename O>
void gather_operands(const BackwardBlock<E, O>& block, int64_t s, int64_t slot) {
  const RecurrentBackward<E, O>& call = block.call;
  const RecurrentShape& shape = call.shape;
  const int64_t stride = shape.operand_stride<O>();
  O* to = block.operands + slot * block.step_rows * stride;
  const int64_t time = shape.time(s);
  const int64_t before = s > 0 ? shape.time(s - 1) : -1;
  for (int64_t r = 0; r < block.rows; ++r, to += stride) {
    const int64_t n = block.begin + r;
    if (s > 1) fetch_row(call.sequence + (n * shape.steps + shape.time(s - 2)) * shape.units, shape.units);
    if (call.lengths && time >= call.lengths[n]) {  // padding, which may hold anything
      std::fill_n(to, stride, O());
      continue;
    }
    copy_row(call.x + (n * shape.steps + time) * shape.features, shape.features, to);
    // In reverse, the steps beyond a row's length come before its first step.
    const bool first = before < 0 || (call.lengths && before >= call.lengths[n]);
    O* h_to = to + shape.features;
    if (!first) {
      copy_row(call.sequence + (n * shape.steps + before) * shape.units, shape.units, h_to);
    } else if (call.h0) {
      copy_row(call.h0 + n * shape.units, shape.units, h_to);
    } else {
      std::fill_n(h_to, shape.units, O());
    }
    std::fill(h_to + shape.units, to + stride, O());
  }
}

/// Computes, for row r and group g of one step, the gradients of the slots and the part of the state's
/// gradient that bypasses the products.
template <class Cell, typename E, typename O>
HWY_INLINE void backward_cell(const BackwardBlock<E, O>& block, int64_t s, int64_t slot, int64_t r,
                              int64_t g) {
  using T = ComputeType<E>;
  const RecurrentBackward<E, O>& call = block.call;
  const RecurrentShape& shape = call.shape;
  const hn::ScalableTag<T> d;
  const Group<O> group(shape, g);
  const int64_t first = g * shape.lanes;
  const int64_t time = shape.time(s);
  const auto zero = hn::Zero(d);
  const int64_t chunk_row = slot * block.step_rows + r;
  O* slots = block.slots + (g * block.chunk_rows + chunk_row) * shape.slot_columns();
  const int64_t n = block.begin + r;
  const int64_t step_row = time * shape.batch + n;
  T* d_h = block.d_h + r * block.d_stride + first;
  T* d_c = block.d_c + r * block.d_stride + first;
  if (call.d_cells) hn::StoreU(hn::LoadU(d, d_c) + group.load(call.d_cells, step_row), d, d_c);
  if (call.lengths && time >= call.lengths[n]) {
    std::fill_n(slots, shape.slot_columns(), O());
    return;
  }
  CellBackward<T> cell;
  for (int64_t k = 0; k < kRecurrentSlots; ++k) {
    cell.gates[k] = group.load_gate(call.gates, step_row, k);
    cell.added[k] = call.d_gates ? group.load_gate(call.d_gates, step_row, k) : zero;
  }
  cell.d_h = hn::LoadU(d, d_h);
  if (call.d_sequence) cell.d_h = cell.d_h + group.load(call.d_sequence, n * shape.steps + time);
  if constexpr (Cell::kHasCell) {
    cell.d_c = hn::LoadU(d, d_c);
    cell.c_after = group.load(call.cells, step_row);
    cell.c_before = s > 0     ? group.load(call.cells, shape.time(s - 1) * shape.batch + n)
                    : call.c0 ? group.load(call.c0, n)
                              : zero;
  } else {
    const O* operand = block.operands + chunk_row * block.stride;
    cell.h_before = Operand<O>::read(operand + shape.features + first, hn::Lanes(d));
  }
  Cell::template backward<T>(cell);
  for (int64_t k = 0; k < kRecurrentSlots; ++k) {
    Operand<O>::write(cell.slots[k], slots + k * shape.lanes, hn::Lanes(d));
  }
  hn::StoreU(cell.d_h, d, d_h);
  if constexpr (Cell::kHasCell) hn::StoreU(cell.d_c, d, d_c);
}

/// Does this for all rows and groups; the groups of a row lie side by side in the saved tensors. The block is
/// passed by value, so that the compiler knows that no store in the loop changes it.
template <class Cell, typename E, typename O>
void backward_cells(const BackwardBlock<E, O> block, int64_t s, int64_t slot) {
  const RecurrentBackward<E, O>& call = block.call;
  const RecurrentShape& shape = call.shape;
  const int64_t groups = shape.groups();
  for (int64_t r = 0; r < block.rows; ++r) {
    if (s > 0) {
      const int64_t columns = kRecurrentSlots * shape.units;
      fetch_row(call.gates + (shape.time(s - 1) * shape.batch + block.begin + r) * columns, columns);
    }
    if (Cell::kHasCell && s > 1) {
      fetch_row(call.cells + (shape.time(s - 2) * shape.batch + block.begin + r) * shape.units, shape.units);
    }
    for (int64_t g = 0; g < groups; ++g) backward_cell<Cell>(block, s, slot, r, g);
  }
}

/// The transposed operands of `rows` rows of the chunk.
template <typename E, typename O>
Left<O> transposed_operands(const BackwardBlock<E, O>& block, int64_t rows, int64_t whole) {
  const int64_t stride = block.stride;
  const int64_t count = whole / kTogether<O>;
#if ISOCHRON_BF16_PAIRS
  if constexpr (kTogether < O >> 1) {
    if (block.call.shape.tiles) {
      transpose_numbers(rows, whole, stride, block.operands, block.together);
      return {block.together, whole, kTogether<O>, 0, count, 1, true};
    }
  }
#endif
  const O* data = Operand<O>::put_together(rows, whole, stride, block.operands, block.together);
  return {data, kTogether<O>, kTogether<O> * stride, 0, count};
}

/// d_weights += operands^T slots, d_bias += sum of slots, over the chunk's first `steps` steps.
template <typename E, typename O, typename T = ComputeType<E>>
void add_weight_gradients(const BackwardBlock<E, O>& block, int64_t steps, T* d_weights, T* d_bias) {
  const RecurrentShape& shape = block.call.shape;
  const int64_t columns = shape.slot_columns();
  const int64_t stride = shape.operand_stride<O>();
  const int64_t rows = steps * block.step_rows;
  const int64_t whole = shape.whole_depth<O>(rows);
  const int64_t count = whole / kTogether<O>;
  const O one[] = {O(1), O(1)};
  const Left<O> ones{one, 0, 0, 0, count};
  const Left<O> left = transposed_operands(block, rows, whole);
  for (int64_t g = 0; g < shape.groups(); ++g) {
    const O* slots = Operand<O>::put_together(
        rows, whole, columns, block.slots + g * block.chunk_rows * columns, block.together + whole * stride);
    T* to = d_weights + g * shape.whole_rows(shape.depth()) * columns;
    T* bias = d_bias + g * columns;
    const int64_t slots_row = columns * kTogether<O>;
    multiply_block<O>({shape.depth(), columns, left, slots, slots_row, to, columns, to, columns});
    multiply_block<O>({1, columns, ones, slots, slots_row, bias, columns, bias, columns});
  }
}

/// c += left b over `vectors` vectors of columns, b packed in panels of panel_vectors.
template <typename O, typename T = ComputeType<O>>
void add_panels(int64_t rows, const Left<O>& left, const O* b, int64_t vectors, T* c, int64_t c_row) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t depth = left.inner_count * left.outer_count * kTogether<O>;
  for (int64_t v = 0; v < vectors;) {
    const int64_t width = panel_vectors(vectors - v);
    const int64_t columns = width * lanes;
    multiply_block<O>({rows, columns, left, b, columns * kTogether<O>, c, c_row, c, c_row});
    b += depth * columns;
    c += columns;
    v += width;
  }
}

/// d_h += slots weights_h^T and d_x = slots weights_x^T for step `slot` of the chunk.
template <typename E, typename O>
void propagate(const BackwardBlock<E, O>& block, int64_t time, int64_t slot) {
  using T = ComputeType<E>;
  const RecurrentBackward<E, O>& call = block.call;
  const RecurrentShape& shape = call.shape;
  const int64_t columns = shape.slot_columns();
  const Left<O> left{block.slots + slot * block.step_rows * columns,
                     columns,
                     kTogether<O>,
                     block.chunk_rows * columns,
                     columns / kTogether<O>,
                     shape.groups(),
                     shape.tiles};
  const int64_t padded = shape.padded_features();
  const int64_t depth = shape.groups() * columns;
  if (call.d_x) {
    std::fill_n(block.d_x, block.rows * padded, T(0));
    add_panels<O>(block.rows, left, call.transposed, padded / shape.lanes, block.d_x, padded);
    copy_rows(block.rows, shape.features, block.d_x, padded,
              call.d_x + (block.begin * shape.steps + time) * shape.features, shape.steps * shape.features);
  }
  add_panels<O>(block.rows, left, call.transposed + depth * padded, shape.groups(), block.d_h,
                shape.padded_units());
}

template <typename E, typename O>
BackwardBlock<E, O> backward_memory(const RecurrentBackward<E, O>& call, int64_t begin, int64_t rows,
                                    std::byte* memory) {
  using T = ComputeType<E>;
  const RecurrentShape& shape = call.shape;
  Scratch scratch(memory);
  BackwardBlock<E, O> block{call,
                            begin,
                            rows,
                            align_up(rows, kTogether<O>),
                            call.chunk_steps * align_up(rows, kTogether<O>),
                            shape.operand_stride<O>(),
                            shape.padded_units(),
                            {},
                            {},
                            {},
                            {},
                            {},
                            {}};
  const int64_t stride = shape.operand_stride<O>();
  const int64_t slots = block.chunk_rows * shape.slot_columns();
  const int64_t whole_rows = shape.whole_rows(rows);
  block.slots = scratch.take<O>(shape.groups() * slots + (whole_rows - rows) * shape.slot_columns());
  block.operands = scratch.take<O>(block.chunk_rows * stride);
  if constexpr (kTogether < O >> 1) {
    block.together =
        scratch.take<O>(shape.whole_depth<O>(block.chunk_rows) * (stride + shape.slot_columns()));
    if (block.step_rows > rows) {  // each step has an additional row of zeros
      std::fill_n(block.slots, shape.groups() * slots, O());
      std::fill_n(block.operands, block.chunk_rows * stride, O());
    }
  }
  block.d_h = scratch.take<T>(whole_rows * shape.padded_units());
  block.d_c = scratch.take<T>(whole_rows * shape.padded_units());
  block.d_x = scratch.take<T>(whole_rows * shape.padded_features());
  load_state(shape, begin, rows, call.d_h, block.d_h, shape.padded_units());
  load_state(shape, begin, rows, call.d_c, block.d_c, shape.padded_units());
  return block;
}

template <typename E, typename O, class Cell, typename T = ComputeType<E>>
void backward_block(const RecurrentBackward<E, O>& call, int64_t begin, int64_t end, T* d_weights, T* d_bias,
                    std::byte* scratch) {
  const RecurrentShape& shape = call.shape;
  const int64_t rows = end - begin;
  const TileRegisters registers(shape.tiles);
  const BackwardBlock<E, O> block = backward_memory(call, begin, rows, scratch);
  int64_t slot = 0;
  for (int64_t s = shape.steps - 1; s >= 0; --s) {
    if (d_weights || !Cell::kHasCell) gather_operands(block, s, slot);
    backward_cells<Cell>(block, s, slot);
    if (s > 0 || call.d_x || call.d_h0) propagate(block, shape.time(s), slot);
    if (++slot == call.chunk_steps || s == 0) {
      if (d_weights) add_weight_gradients(block, slot, d_weights, d_bias);
      slot = 0;
    }
  }
  const int64_t units = shape.units;
  const int64_t padded = shape.padded_units();
  if (call.d_h0) copy_rows(rows, units, block.d_h, padded, call.d_h0 + begin * units, units);
  if (call.d_c0) copy_rows(rows, units, block.d_c, padded, call.d_c0 + begin * units, units);
}

template <typename E, typename O, class Cell>
RecurrentFunctions<E, O> functions_of() {
  using T = ComputeType<E>;
  return {static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>())),
          forward_block<E, O, Cell>,
          backward_block<E, O, Cell>,
          pack_weights<Cell, O>,
          pack_transposed<Cell, O>,
          unpack_sums<Cell, T>};
}
template <typename E, typename O>
RecurrentFunctions<E, O> functions_of(RecurrentCell cell) {
  return cell == RecurrentCell::kLstm ? functions_of<E, O, Lstm>() : functions_of<E, O, Gru>();
}
#define ISOCHRON_RECURRENT(E, O) \
  RecurrentFunctions<E, O> recurrent_##E##_##O(RecurrentCell cell) { return functions_of<E, O>(cell); }
ISOCHRON_RECURRENT(float, float)
ISOCHRON_RECURRENT(double, double)
ISOCHRON_RECURRENT(float16, float)
ISOCHRON_RECURRENT(bfloat16, float)
#undef ISOCHRON_RECURRENT

bool has_pairs() { return multiplies_pairs(); }
RecurrentFunctions<bfloat16, bfloat16> recurrent_bfloat16_bfloat16([[maybe_unused]] RecurrentCell cell) {
#if ISOCHRON_BF16_PAIRS
  return functions_of<bfloat16, bfloat16>(cell);
#else
  return {};
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

#define ISOCHRON_RECURRENT(E, O)                                           \
  HWY_EXPORT(recurrent_##E##_##O);                                         \
  template <>                                                              \
  RecurrentFunctions<E, O> recurrent_functions<E, O>(RecurrentCell cell) { \
    return HWY_DYNAMIC_DISPATCH(recurrent_##E##_##O)(cell);                \
  }
ISOCHRON_RECURRENT(float, float)
ISOCHRON_RECURRENT(double, double)
ISOCHRON_RECURRENT(float16, float)
ISOCHRON_RECURRENT(bfloat16, float)
ISOCHRON_RECURRENT(bfloat16, bfloat16)
#undef ISOCHRON_RECURRENT

HWY_EXPORT(has_pairs);
bool recurrent_multiplies_pairs() { return HWY_DYNAMIC_DISPATCH(has_pairs)(); }

}  // namespace isochron::ops
#endif  // HWY_ONCE
