// The work of one thread of a recurrent kernel: it takes a block of batch rows through the whole sequence,
// with all products and cells of a step in cache. Also the packing of weights for this. Private to
// backends/cpu/recurrent/recurrent.cc, which allocates the memory and distributes the rows.
//
// A unit of either cell has four slots, which are the product of [x_t | h_(t-1)] and one packed matrix. For
// an LSTM they are the gates i, f, g, o; for a GRU z, r and the two parts of n (from x and from h), so its
// packed matrix has structural zeros. Units are processed in groups of `lanes`. The packed matrix is stored
// group by group; a row of a group is [slot 0 | slot 1 | slot 2 | slot 3], each `lanes` wide.
//
// Tensors with a time axis are stored as E, which is computed in type T. Operands of products have type O: T,
// or bf16 if the processor can multiply pairs of bf16 and sum in f32. bf16 products use vectors, or tile
// registers, which need whole tiles of rows and depth. Sums, cells and states always have type T.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "isochron/backends/cpu/common/bf16_tiles.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/tensor/dtype.h"

namespace isochron::ops {

inline constexpr int64_t kRecurrentSlots = 4;
struct RecurrentShape {
  int64_t batch = 0;     // N
  int64_t steps = 0;     // T
  int64_t features = 0;  // C
  int64_t units = 0;     // H
  int64_t lanes = 1;
  bool reverse = false;
  bool tiles = false;  // products are computed in tile registers

  int64_t groups() const { return (units + lanes - 1) / lanes; }
  int64_t padded_units() const { return groups() * lanes; }
  int64_t padded_features() const { return (features + lanes - 1) / lanes * lanes; }
  int64_t slot_columns() const { return kRecurrentSlots * lanes; }  // of one group
  int64_t depth() const { return features + units; }                // rows of the packed matrix
  /// `count` numbers along the depth of a product, plus the zero padding that the product needs.
  template <typename O>
  int64_t whole_depth(int64_t count) const {
    return align_up(count, tiles ? kTileDepth : kTogether<O>);
  }
  /// The number of rows that share one pass over a step's weights. With tiles, each pass reads the weights
  /// from L2.
  int64_t block_rows() const { return tiles ? 128 : 48; }
  /// `count` rows of a product's left operand and result, plus padding rows, whose results aren't used.
  int64_t whole_rows(int64_t count) const { return tiles ? align_up(count, kTileRows) : count; }
  /// The number of sums of one group for `rows` rows.
  int64_t sums_of_group(int64_t rows) const { return whole_rows(rows) * slot_columns(); }
  /// The number of groups whose products are computed before their cells in each step: as many as keep the
  /// sums in cache. With more groups, the cells write longer runs of a row's gates.
  int64_t cell_groups(int64_t rows) const {
    constexpr int64_t kNumbers = 16 * 1024;
    const int64_t most = kNumbers / sums_of_group(std::max<int64_t>(rows, 1));
    return std::max<int64_t>(1, std::min(most, groups()));
  }
  /// The number of numbers in a row [x_t | h]; for bf16 a multiple of the lanes.
  template <typename O>
  int64_t operand_stride() const {
    const int64_t count = features + padded_units();
    return kTogether<O> == 1 ? count : align_up(count, tiles ? kTileDepth : lanes);
  }
  /// The time of the s-th step in computing order.
  int64_t time(int64_t s) const { return reverse ? steps - 1 - s : s; }
};

/// For each slot, the gate whose columns it takes from the kernel of x and of h; -1: none.
struct SlotGates {
  int64_t count;  // gates of the kernels: their columns are count x units
  int64_t x[kRecurrentSlots];
  int64_t h[kRecurrentSlots];
};

/// The weights of the op, or their gradients; null if not needed. G, the number of gates, is 4 for an LSTM
/// and 3 for a GRU.
template <typename T>
struct RecurrentWeights {
  T* kernel;     // (C, G x H)
  T* recurrent;  // (H, G x H)
  T* bias;       // LSTM: (4H); GRU: (2, 3H), rows for x and h, added if both feed a slot
};

/// The whole tensors of the op; null if absent or unread. `lengths`: one per batch row, or null.
template <typename E, typename O>
struct RecurrentForward {
  using T = ComputeType<E>;
  RecurrentShape shape;
  const int64_t* lengths;
  const E* x;        // (N, T, C)
  const O* weights;  // packed: groups x whole depth x slot_columns
  const T* bias;     // packed: groups x slot_columns
  const T* h0;       // (N, H)
  const T* c0;
  E* sequence;  // (N, T, H)
  T* h;         // (N, H)
  T* c;
  E* cells;  // (T, N, H)
  E* gates;  // (T, N, 4H)
};

template <typename E, typename O>
struct RecurrentBackward {
  using T = ComputeType<E>;
  RecurrentShape shape;
  const int64_t* lengths;
  const E* x;
  const O* transposed;  // see RecurrentFunctions::pack_transposed
  const T* h0;
  const T* c0;
  const E* sequence;
  const E* cells;
  const E* gates;
  const E* d_sequence;
  const T* d_h;
  const T* d_c;
  const E* d_cells;
  const E* d_gates;
  E* d_x;
  T* d_h0;
  T* d_c0;
  int64_t chunk_steps;  // steps of slot gradients per product for d_weights
};

/// The kernels of one instruction set. `forward` and `backward` process rows [begin, end) of the batch, at
/// most block_rows().
template <typename E, typename O>
struct RecurrentFunctions {
  using T = ComputeType<E>;
  int64_t lanes;
  void (*forward)(const RecurrentForward<E, O>& call, int64_t begin, int64_t end, std::byte* scratch);
  /// Adds to d_weights (groups x whole_rows(depth) x slot_columns) and d_bias (packed like the bias); both
  /// are null if not needed.
  void (*backward)(const RecurrentBackward<E, O>& call, int64_t begin, int64_t end, T* d_weights, T* d_bias,
                   std::byte* scratch);
  /// Packs weights and bias in the layout of RecurrentForward.
  void (*pack)(const RecurrentShape& shape, const RecurrentWeights<const T>& weights, O* packed, T* bias);
  /// Packs the transposed weights as a product's right operand. Its rows are (group, slot, lane); its columns
  /// are x, then h, in panels of panel_vectors. If the kernel is null, the columns of x are reserved but not
  /// written.
  void (*pack_transposed)(const RecurrentShape& shape, const RecurrentWeights<const T>& weights, O* packed);
  /// Adds `count` pairs (d_weights, d_bias) of `backward`, `stride` numbers apart, in order, and unpacks the
  /// sums to `to`.
  void (*unpack_sums)(const RecurrentShape& shape, const T* sums, int64_t count, int64_t stride,
                      const RecurrentWeights<T>& to);
};
enum class RecurrentCell : uint8_t { kLstm, kGru };
/// For E = float, double, float16, bfloat16 with O = ComputeType<E>. Also for E = O = bfloat16, but only if
/// recurrent_multiplies_pairs() is true.
template <typename E, typename O>
RecurrentFunctions<E, O> recurrent_functions(RecurrentCell cell);
bool recurrent_multiplies_pairs();

/// The bytes of scratch for `rows` rows, with each part aligned to a cache line.
template <typename E, typename O>
size_t forward_scratch(const RecurrentShape& shape, int64_t rows) {
  const int64_t whole_rows = shape.whole_rows(rows);
  const int64_t sums = 2 * rows * shape.padded_units() + shape.cell_groups(rows) * shape.sums_of_group(rows);
  const int64_t operands = 2 * whole_rows * shape.operand_stride<O>();
  return static_cast<size_t>(sums) * sizeof(ComputeType<E>) + static_cast<size_t>(operands) * sizeof(O) +
         6 * 64;
}
template <typename E, typename O>
size_t backward_scratch(const RecurrentShape& shape, int64_t rows, int64_t chunk_steps) {
  const int64_t chunk_rows = chunk_steps * align_up(rows, kTogether<O>);
  const int64_t columns = shape.slot_columns();
  const int64_t together = shape.whole_depth<O>(chunk_rows) * (shape.operand_stride<O>() + columns);
  const int64_t operands = chunk_rows * shape.operand_stride<O>() +
                           (shape.groups() * chunk_rows + shape.whole_rows(rows) - rows) * columns +
                           (kTogether<O> > 1 ? together : 0);
  const int64_t states = shape.whole_rows(rows) * (2 * shape.padded_units() + shape.padded_features());
  return static_cast<size_t>(states) * sizeof(ComputeType<E>) + static_cast<size_t>(operands) * sizeof(O) +
         7 * 64;
}

}  // namespace isochron::ops
