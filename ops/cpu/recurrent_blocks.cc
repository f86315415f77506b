// Recurrent layers, a block of rows at a time: products in register tiles, cells in vectors.
#include "isochron/ops/cpu/recurrent_blocks.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/ops/cpu/recurrent_blocks.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/ops/cpu/narrow-inl.h"
#include "isochron/ops/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The left operand of a product: element (row, k) with k = (outer, inner).
template <typename T>
struct Left {
  const T* data;
  int64_t row;  // strides
  int64_t inner;
  int64_t outer;
  int64_t inner_count;
  int64_t outer_count = 1;
};

/// c (kRows x kVectors vectors) = init + left b. Rows of b follow each other, `kVectors` vectors wide.
template <typename T, int kRows, int kVectors>
HWY_INLINE void tile(const Left<T>& left, int64_t first, const T* b, const T* init, int64_t init_row, T* c,
                     int64_t c_row) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::LoadU(d, init + r * init_row + v * lanes);
  }
  for (int64_t o = 0; o < left.outer_count; ++o) {
    const T* a = left.data + first * left.row + o * left.outer;
    for (int64_t k = 0; k < left.inner_count; ++k, a += left.inner, b += kVectors * lanes) {
      hn::Vec<decltype(d)> row[kVectors];
      for (int v = 0; v < kVectors; ++v) row[v] = hn::LoadU(d, b + v * lanes);
      for (int r = 0; r < kRows; ++r) {
        const auto factor = hn::Set(d, a[r * left.row]);
        for (int v = 0; v < kVectors; ++v) sums[r][v] = hn::MulAdd(factor, row[v], sums[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[r][v], d, c + r * c_row + v * lanes);
  }
}

/// The same for any number of rows, in tiles of nearly equal height that fill the registers.
template <typename T, int kVectors>
void product(int64_t rows, const Left<T>& left, const T* b, const T* init, int64_t init_row, T* c,
             int64_t c_row) {
  constexpr int64_t kMost = HWY_MAX_BYTES >= 64 && HWY_TARGET <= HWY_AVX3 ? 6 : 3;
  const int64_t tiles = (rows + kMost - 1) / kMost;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t first = rows * t / tiles;
    const T* from = init + first * init_row;
    T* to = c + first * c_row;
    switch (rows * (t + 1) / tiles - first) {
      case 6:
        tile<T, 6, kVectors>(left, first, b, from, init_row, to, c_row);
        break;
      case 5:
        tile<T, 5, kVectors>(left, first, b, from, init_row, to, c_row);
        break;
      case 4:
        tile<T, 4, kVectors>(left, first, b, from, init_row, to, c_row);
        break;
      case 3:
        tile<T, 3, kVectors>(left, first, b, from, init_row, to, c_row);
        break;
      case 2:
        tile<T, 2, kVectors>(left, first, b, from, init_row, to, c_row);
        break;
      default:
        tile<T, 1, kVectors>(left, first, b, from, init_row, to, c_row);
        break;
    }
  }
}

/// c += left b over `vectors` vectors of columns, b packed in panels of panel_vectors.
template <typename T>
void add_panels(int64_t rows, const Left<T>& left, const T* b, int64_t vectors, T* c, int64_t c_row) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t depth = left.inner_count * left.outer_count;
  for (int64_t v = 0; v < vectors;) {
    const int64_t width = panel_vectors(vectors - v);
    const auto multiply = width == 4 ? product<T, 4> : width == 2 ? product<T, 2> : product<T, 1>;
    multiply(rows, left, b, c, c_row, c, c_row);
    b += depth * width * lanes;
    c += width * lanes;
    v += width;
  }
}

/// One group of units in tensors whose rows aren't padded.
template <typename T>
class Group {
 public:
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  Group(const RecurrentShape& shape, int64_t index)
      : units_(shape.units),
        first_(index * shape.lanes),
        valid_(static_cast<size_t>(std::min(shape.lanes, shape.units - first_))),
        full_(static_cast<int64_t>(valid_) == shape.lanes) {}
  /// Row `row` of an (..., H) tensor.
  template <typename E>
  HWY_INLINE V load(const E* tensor, int64_t row) const {
    return load_at(tensor + row * units_ + first_);
  }
  template <typename E>
  HWY_INLINE void store(V v, E* tensor, int64_t row) const {
    store_at(v, tensor + row * units_ + first_);
  }
  /// Gate `gate` of row `row` of an (..., 4H) tensor.
  template <typename E>
  HWY_INLINE V load_gate(const E* tensor, int64_t row, int64_t gate) const {
    return load_at(tensor + (row * kRecurrentSlots + gate) * units_ + first_);
  }
  template <typename E>
  HWY_INLINE void store_gate(V v, E* tensor, int64_t row, int64_t gate) const {
    store_at(v, tensor + (row * kRecurrentSlots + gate) * units_ + first_);
  }

 private:
  template <typename E>
  HWY_INLINE V load_at(const E* from) const {
    return load_numbers(D(), from, full_ ? hn::Lanes(D()) : valid_);
  }
  template <typename E>
  HWY_INLINE void store_at(V v, E* to) const {
    store_numbers(D(), v, to, full_ ? hn::Lanes(D()) : valid_);
  }
  int64_t units_;
  int64_t first_;
  size_t valid_;
  bool full_;
};

template <typename T>
using Vector = hn::Vec<hn::ScalableTag<T>>;

/// sigma' and tanh' by the function's value.
template <typename T>
HWY_INLINE Vector<T> sigmoid_slope(Vector<T> y) {
  return hn::NegMulAdd(y, y, y);
}
template <typename T>
HWY_INLINE Vector<T> tanh_slope(Vector<T> y) {
  return hn::NegMulAdd(y, y, hn::Set(hn::ScalableTag<T>(), T(1)));
}

/// What a cell sees of one row's group of units: forward it turns the slots into gates and the next state.
template <typename T>
struct CellForward {
  Vector<T> gates[kRecurrentSlots];  // in: sums; out: what the gradient wants
  Vector<T> h;                       // in: before the step; out: after it
  Vector<T> c;
};
/// Backward it turns the gradient of the state into that of the slots' sums. `add` (if any) reaches the
/// gates.
template <typename T>
struct CellBackward {
  Vector<T> gates[kRecurrentSlots];
  Vector<T> added[kRecurrentSlots];  // gradients that reach the gates from elsewhere
  Vector<T> h_before;
  Vector<T> c_before;
  Vector<T> c_after;
  Vector<T> d_h;                     // in: of h after the step; out: what passes directly to h before it
  Vector<T> d_c;                     // in: of c after the step; out: of c before it
  Vector<T> slots[kRecurrentSlots];  // out
};

/// Slots and gates i, f, g, o.
struct Lstm {
  static constexpr bool kHasCell = true;
  template <typename T>
  static HWY_INLINE void forward(CellForward<T>& s) {
    s.gates[0] = VectorMath<T>::gate(s.gates[0]);
    s.gates[1] = VectorMath<T>::gate(s.gates[1]);
    s.gates[2] = VectorMath<T>::tanh(s.gates[2]);
    s.gates[3] = VectorMath<T>::gate(s.gates[3]);
    s.c = hn::MulAdd(s.gates[1], s.c, s.gates[0] * s.gates[2]);
    s.h = s.gates[3] * VectorMath<T>::tanh(s.c);
  }
  template <typename T>
  static HWY_INLINE void backward(CellBackward<T>& s) {
    const auto [i, f, g, o] = s.gates;
    const auto squashed = VectorMath<T>::tanh(s.c_after);
    const auto d_c = hn::MulAdd(s.d_h * o, tanh_slope<T>(squashed), s.d_c);
    s.slots[0] = hn::MulAdd(d_c, g, s.added[0]) * sigmoid_slope<T>(i);
    s.slots[1] = hn::MulAdd(d_c, s.c_before, s.added[1]) * sigmoid_slope<T>(f);
    s.slots[2] = hn::MulAdd(d_c, i, s.added[2]) * tanh_slope<T>(g);
    s.slots[3] = hn::MulAdd(s.d_h, squashed, s.added[3]) * sigmoid_slope<T>(o);
    s.d_c = d_c * f;
    s.d_h = hn::Zero(hn::ScalableTag<T>());
  }
};

/// Slots z, r, n from x, n from h; gates z, r, n and the last slot's sum.
struct Gru {
  static constexpr bool kHasCell = false;
  template <typename T>
  static HWY_INLINE void forward(CellForward<T>& s) {
    const auto z = VectorMath<T>::gate(s.gates[0]);
    const auto r = VectorMath<T>::gate(s.gates[1]);
    const auto n = VectorMath<T>::tanh(hn::MulAdd(r, s.gates[3], s.gates[2]));
    s.gates[0] = z;
    s.gates[1] = r;
    s.gates[2] = n;
    s.h = hn::MulAdd(z, s.h - n, n);
  }
  template <typename T>
  static HWY_INLINE void backward(CellBackward<T>& s) {
    const auto [z, r, n, from_h] = s.gates;
    const auto d_n = hn::MulAdd(s.d_h, hn::Set(hn::ScalableTag<T>(), T(1)) - z, s.added[2]);
    s.slots[0] = hn::MulAdd(s.d_h, s.h_before - n, s.added[0]) * sigmoid_slope<T>(z);
    s.slots[2] = d_n * tanh_slope<T>(n);
    s.slots[1] = hn::MulAdd(s.slots[2], from_h, s.added[1]) * sigmoid_slope<T>(r);
    s.slots[3] = hn::MulAdd(s.slots[2], r, s.added[3]);
    s.d_h = s.d_h * z;
  }
};

/// Copies `count` numbers: rows are short, and a call of memcpy each would show.
template <typename From, typename To>
HWY_INLINE void copy_row(const From* from, int64_t count, To* to) {
  const hn::ScalableTag<ComputeType<To>> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    store_numbers(d, load_numbers(d, from + i, hn::Lanes(d)), to + i, hn::Lanes(d));
  }
  for (; i < count; ++i) to[i] = To(static_cast<ComputeType<From>>(from[i]));
}

template <typename From, typename To>
void copy_rows(int64_t rows, int64_t count, const From* from, int64_t from_row, To* to, int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r) copy_row(from + r * from_row, count, to + r * to_row);
}

/// Rows of a state into padded rows; zeros without one.
template <typename T>
void load_state(const RecurrentShape& shape, int64_t begin, int64_t rows, const T* state, T* to,
                int64_t to_row) {
  for (int64_t r = 0; r < rows; ++r) std::fill_n(to + r * to_row, shape.padded_units(), T(0));
  if (state) copy_rows(rows, shape.units, state + begin * shape.units, shape.units, to, to_row);
}

template <typename T>
T* aligned_scratch(T* scratch) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(scratch);
  return reinterpret_cast<T*>((address + 63) & ~uintptr_t{63});
}

/// One group of units of one step, all rows: `sums` (rows x slot_columns) are the slots' sums.
template <typename T, typename E, class Cell>
void forward_cells(const RecurrentForward<T, E>& call, int64_t begin, int64_t rows, int64_t time, int64_t g,
                   const T* sums, const T* now, T* next, T* c) {
  const RecurrentShape& shape = call.shape;
  const hn::ScalableTag<T> d;
  const Group<T> group(shape, g);
  const int64_t stride = shape.operand_stride();
  const int64_t at = shape.features + g * shape.lanes;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t n = begin + r;
    const int64_t step_row = time * shape.batch + n;
    CellForward<T> cell;
    cell.h = hn::LoadU(d, now + r * stride + at);
    T* c_row = c + r * shape.padded_units() + g * shape.lanes;
    cell.c = hn::LoadU(d, c_row);
    const bool active = !call.lengths || time < call.lengths[n];
    if (active) {
      for (int64_t s = 0; s < kRecurrentSlots; ++s) {
        cell.gates[s] = hn::LoadU(d, sums + r * shape.slot_columns() + s * shape.lanes);
      }
      Cell::template forward<T>(cell);
    } else {
      for (auto& gate : cell.gates) gate = hn::Zero(d);
    }
    hn::StoreU(cell.h, d, next + r * stride + at);
    if (call.sequence) {
      group.store(active ? cell.h : hn::Zero(d), call.sequence, n * shape.steps + time);
    }
    if (call.gates) {
      for (int64_t s = 0; s < kRecurrentSlots; ++s) group.store_gate(cell.gates[s], call.gates, step_row, s);
    }
    if constexpr (Cell::kHasCell) {
      hn::StoreU(cell.c, d, c_row);
      if (call.cells) group.store(cell.c, call.cells, step_row);
    }
  }
}

template <typename T, typename E, class Cell>
void forward_block(const RecurrentForward<T, E>& call, int64_t begin, int64_t end, T* scratch) {
  const RecurrentShape& shape = call.shape;
  const int64_t rows = end - begin;
  const int64_t stride = shape.operand_stride();
  T* sums = aligned_scratch(scratch);
  T* now = sums + rows * shape.slot_columns();  // [x_t | h], rows x stride
  T* next = now + rows * stride;
  T* c = next + rows * stride;
  load_state(shape, begin, rows, call.h0, now + shape.features, stride);
  load_state(shape, begin, rows, call.c0, c, shape.padded_units());
  for (int64_t s = 0; s < shape.steps; ++s) {
    const int64_t time = shape.time(s);
    copy_rows(rows, shape.features, call.x + (begin * shape.steps + time) * shape.features,
              shape.steps * shape.features, now, stride);
    const Left<T> left{now, stride, 1, 0, shape.depth()};
    for (int64_t g = 0; g < shape.groups(); ++g) {
      const T* bias = call.bias + g * shape.slot_columns();
      product<T, kRecurrentSlots>(rows, left, call.weights + g * shape.depth() * shape.slot_columns(), bias,
                                  0, sums, shape.slot_columns());
      forward_cells<T, E, Cell>(call, begin, rows, time, g, sums, now, next, c);
    }
    std::swap(now, next);
  }
  const int64_t units = shape.units;
  if (call.h) copy_rows(rows, units, now + shape.features, stride, call.h + begin * units, units);
  if (call.c) copy_rows(rows, units, c, shape.padded_units(), call.c + begin * units, units);
}

/// The memory and the position of a block on its way back through time.
template <typename T, typename E>
struct BackwardBlock {
  const RecurrentBackward<T, E>& call;
  int64_t begin;
  int64_t rows;
  T* operands;  // [x | h before], chunk_steps x rows x operand_stride
  T* slots;     // groups x chunk_steps x rows x slot_columns
  T* d_h;       // rows x padded_units
  T* d_c;
  T* d_x;  // rows x padded_features

  int64_t chunk_rows() const { return call.chunk_steps * rows; }
};

/// [x_t | h_(t-1)] of all rows (0 beyond their length), into place `slot` of the chunk.
template <typename T, typename E>
void gather_operands(const BackwardBlock<T, E>& block, int64_t s, int64_t slot) {
  const RecurrentBackward<T, E>& call = block.call;
  const RecurrentShape& shape = call.shape;
  const int64_t stride = shape.operand_stride();
  T* to = block.operands + slot * block.rows * stride;
  const int64_t time = shape.time(s);
  const int64_t before = s > 0 ? shape.time(s - 1) : -1;
  for (int64_t r = 0; r < block.rows; ++r, to += stride) {
    const int64_t n = block.begin + r;
    if (call.lengths && time >= call.lengths[n]) {  // padding, which may hold anything
      std::fill_n(to, stride, T(0));
      continue;
    }
    copy_row(call.x + (n * shape.steps + time) * shape.features, shape.features, to);
    // In reverse a row's first step comes after those beyond its length.
    const bool first = before < 0 || (call.lengths && before >= call.lengths[n]);
    T* h_to = to + shape.features;
    if (!first) {
      copy_row(call.sequence + (n * shape.steps + before) * shape.units, shape.units, h_to);
    } else if (call.h0) {
      copy_row(call.h0 + n * shape.units, shape.units, h_to);
    } else {
      std::fill_n(h_to, shape.units, T(0));
    }
    std::fill(h_to + shape.units, h_to + shape.padded_units(), T(0));
  }
}

/// Row r and group g of one step: the slots' gradients, and what of the state's passes the products by.
template <typename T, typename E, class Cell>
HWY_INLINE void backward_cell(const BackwardBlock<T, E>& block, int64_t s, int64_t slot, int64_t r,
                              int64_t g) {
  const RecurrentBackward<T, E>& call = block.call;
  const RecurrentShape& shape = call.shape;
  const hn::ScalableTag<T> d;
  const Group<T> group(shape, g);
  const int64_t time = shape.time(s);
  const auto zero = hn::Zero(d);
  T* slots = block.slots + (g * block.chunk_rows() + slot * block.rows + r) * shape.slot_columns();
  const int64_t n = block.begin + r;
  const int64_t step_row = time * shape.batch + n;
  T* d_h = block.d_h + r * shape.padded_units() + g * shape.lanes;
  T* d_c = block.d_c + r * shape.padded_units() + g * shape.lanes;
  if (call.d_cells) hn::StoreU(hn::LoadU(d, d_c) + group.load(call.d_cells, step_row), d, d_c);
  if (call.lengths && time >= call.lengths[n]) {
    for (int64_t k = 0; k < kRecurrentSlots; ++k) hn::StoreU(zero, d, slots + k * shape.lanes);
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
    const T* operand = block.operands + (slot * block.rows + r) * shape.operand_stride();
    cell.h_before = hn::LoadU(d, operand + shape.features + g * shape.lanes);
  }
  Cell::template backward<T>(cell);
  for (int64_t k = 0; k < kRecurrentSlots; ++k) hn::StoreU(cell.slots[k], d, slots + k * shape.lanes);
  hn::StoreU(cell.d_h, d, d_h);
  if constexpr (Cell::kHasCell) hn::StoreU(cell.d_c, d, d_c);
}

/// d_weights += operands^T slots, d_bias += sum of slots, over the chunk's first `steps` steps.
template <typename T, typename E>
void add_weight_gradients(const BackwardBlock<T, E>& block, int64_t steps, T* d_weights, T* d_bias) {
  const RecurrentShape& shape = block.call.shape;
  const hn::ScalableTag<T> d;
  const int64_t count = steps * block.rows;
  const Left<T> left{block.operands, 1, shape.operand_stride(), 0, count};
  for (int64_t g = 0; g < shape.groups(); ++g) {
    const T* slots = block.slots + g * block.chunk_rows() * shape.slot_columns();
    T* to = d_weights + g * shape.depth() * shape.slot_columns();
    product<T, kRecurrentSlots>(shape.depth(), left, slots, to, shape.slot_columns(), to,
                                shape.slot_columns());
    for (int64_t k = 0; k < kRecurrentSlots; ++k) {
      T* bias = d_bias + g * shape.slot_columns() + k * shape.lanes;
      auto sum = hn::LoadU(d, bias);
      const T* from = slots + k * shape.lanes;
      for (int64_t r = 0; r < count; ++r) sum = sum + hn::LoadU(d, from + r * shape.slot_columns());
      hn::StoreU(sum, d, bias);
    }
  }
}

/// d_h += slots weights_h^T and d_x = slots weights_x^T for place `slot` of the chunk.
template <typename T, typename E>
void propagate(const BackwardBlock<T, E>& block, int64_t time, int64_t slot) {
  const RecurrentBackward<T, E>& call = block.call;
  const RecurrentShape& shape = call.shape;
  const Left<T> left{block.slots + slot * block.rows * shape.slot_columns(),
                     shape.slot_columns(),
                     1,
                     block.chunk_rows() * shape.slot_columns(),
                     shape.slot_columns(),
                     shape.groups()};
  const int64_t padded = shape.padded_features();
  const int64_t depth = shape.groups() * shape.slot_columns();
  if (call.d_x) {
    std::fill_n(block.d_x, block.rows * padded, T(0));
    add_panels<T>(block.rows, left, call.transposed, padded / shape.lanes, block.d_x, padded);
    copy_rows(block.rows, shape.features, block.d_x, padded,
              call.d_x + (block.begin * shape.steps + time) * shape.features, shape.steps * shape.features);
  }
  add_panels<T>(block.rows, left, call.transposed + depth * padded, shape.groups(), block.d_h,
                shape.padded_units());
}

template <typename T, typename E, class Cell>
void backward_block(const RecurrentBackward<T, E>& call, int64_t begin, int64_t end, T* d_weights, T* d_bias,
                    T* scratch) {
  const RecurrentShape& shape = call.shape;
  const int64_t rows = end - begin;
  BackwardBlock<T, E> block{call, begin, rows, nullptr, nullptr, nullptr, nullptr, nullptr};
  block.slots = aligned_scratch(scratch);
  block.d_h = block.slots + shape.groups() * block.chunk_rows() * shape.slot_columns();
  block.d_c = block.d_h + rows * shape.padded_units();
  block.d_x = block.d_c + rows * shape.padded_units();
  block.operands = block.d_x + rows * shape.padded_features();
  load_state(shape, begin, rows, call.d_h, block.d_h, shape.padded_units());
  load_state(shape, begin, rows, call.d_c, block.d_c, shape.padded_units());
  int64_t slot = 0;
  for (int64_t s = shape.steps - 1; s >= 0; --s) {
    if (d_weights || !Cell::kHasCell) gather_operands(block, s, slot);
    for (int64_t r = 0; r < rows; ++r) {  // a row's groups lie side by side in what was saved
      for (int64_t g = 0; g < shape.groups(); ++g) backward_cell<T, E, Cell>(block, s, slot, r, g);
    }
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

template <typename E, typename T = ComputeType<E>>
RecurrentFunctions<T, E> functions_of(RecurrentCell cell) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  if (cell == RecurrentCell::kLstm) return {lanes, forward_block<T, E, Lstm>, backward_block<T, E, Lstm>};
  return {lanes, forward_block<T, E, Gru>, backward_block<T, E, Gru>};
}
#define ISOCHRON_RECURRENT(E) \
  RecurrentFunctions<ComputeType<E>, E> recurrent_##E(RecurrentCell cell) { return functions_of<E>(cell); }
ISOCHRON_RECURRENT(float)
ISOCHRON_RECURRENT(double)
ISOCHRON_RECURRENT(float16)
ISOCHRON_RECURRENT(bfloat16)
#undef ISOCHRON_RECURRENT

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

#define ISOCHRON_RECURRENT(E)                                                        \
  HWY_EXPORT(recurrent_##E);                                                         \
  template <>                                                                        \
  RecurrentFunctions<ComputeType<E>, E> recurrent_functions<E>(RecurrentCell cell) { \
    return HWY_DYNAMIC_DISPATCH(recurrent_##E)(cell);                                \
  }
ISOCHRON_RECURRENT(float)
ISOCHRON_RECURRENT(double)
ISOCHRON_RECURRENT(float16)
ISOCHRON_RECURRENT(bfloat16)
#undef ISOCHRON_RECURRENT

}  // namespace isochron::ops
#endif  // HWY_ONCE
