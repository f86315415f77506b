// What one thread of a recurrent kernel does: a block of batch rows taken through the whole sequence, with
// every product and cell of a step in cache. Private to ops/cpu/recurrent.cc, which lays out the memory,
// packs the weights and shares the rows out.
//
// Both cells are computed as four slots a unit, all from [x_t | h_(t-1)] times one packed matrix: the gates
// i, f, g, o of an LSTM; z, r and the two halves of n (from x and from h) of a GRU, whose packed matrix has
// structural zeros. Units go in groups of `lanes`. A packed row holds, a group after the other,
// [slot 0 | slot 1 | slot 2 | slot 3], each `lanes` wide; each group is contiguous over all rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isochron/core/dtype.h"

namespace isochron::ops {

inline constexpr int64_t kRecurrentSlots = 4;
/// Rows that share one pass over a step's weights.
inline constexpr int64_t kRecurrentBlockRows = 48;

struct RecurrentShape {
  int64_t batch = 0;     // N
  int64_t steps = 0;     // T
  int64_t features = 0;  // C
  int64_t units = 0;     // H
  int64_t lanes = 1;
  bool reverse = false;

  int64_t groups() const { return (units + lanes - 1) / lanes; }
  int64_t padded_units() const { return groups() * lanes; }
  int64_t padded_features() const { return (features + lanes - 1) / lanes * lanes; }
  int64_t slot_columns() const { return kRecurrentSlots * lanes; }  // of one group
  int64_t depth() const { return features + units; }                // rows of the packed matrix
  int64_t operand_stride() const { return features + padded_units(); }
  /// The time of the s-th step in the order of computing.
  int64_t time(int64_t s) const { return reverse ? steps - 1 - s : s; }
};

/// Tensors are the op's, whole; null where absent or unread. `lengths`: one a row, or null. Those with an
/// axis of time are stored as E, a 16-bit float or T itself.
template <typename T, typename E>
struct RecurrentForward {
  RecurrentShape shape;
  const int64_t* lengths;
  const E* x;        // (N, T, C)
  const T* weights;  // packed: groups x depth x slot_columns
  const T* bias;     // packed: groups x slot_columns
  const T* h0;       // (N, H)
  const T* c0;
  E* sequence;  // (N, T, H)
  T* h;         // (N, H)
  T* c;
  E* cells;  // (T, N, H)
  E* gates;  // (T, N, 4H)
};

template <typename T, typename E>
struct RecurrentBackward {
  RecurrentShape shape;
  const int64_t* lengths;
  const E* x;
  const T* transposed;  // packed: slots x (columns of x, then of h), see `pack_columns`
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
  int64_t chunk_steps;  // steps whose slot gradients are gathered before the weights' product
};

/// The kernels of one instruction set. `rows`: [begin, end) of the batch, at most kRecurrentBlockRows.
template <typename T, typename E>
struct RecurrentFunctions {
  int64_t lanes;
  void (*forward)(const RecurrentForward<T, E>& call, int64_t begin, int64_t end, T* scratch);
  /// Adds to d_weights (packed as the weights) and d_bias (packed as the bias), both null if not wanted.
  void (*backward)(const RecurrentBackward<T, E>& call, int64_t begin, int64_t end, T* d_weights, T* d_bias,
                   T* scratch);
};
enum class RecurrentCell : uint8_t { kLstm, kGru };
/// For E = float, double, float16, bfloat16, with the type T that these are computed in.
template <typename E>
RecurrentFunctions<ComputeType<E>, E> recurrent_functions(RecurrentCell cell);

/// Vectors of columns that a product computes at once from `left` on: 4, 2 or 1.
inline int64_t panel_vectors(int64_t left) { return left >= 4 ? 4 : left >= 2 ? 2 : 1; }

/// Elements of scratch for `rows` rows.
inline int64_t forward_scratch(const RecurrentShape& shape, int64_t rows) {
  return rows * (2 * shape.operand_stride() + shape.padded_units() + shape.slot_columns()) + 4 * shape.lanes;
}
inline int64_t backward_scratch(const RecurrentShape& shape, int64_t rows, int64_t chunk_steps) {
  return rows * (chunk_steps * (shape.operand_stride() + shape.groups() * shape.slot_columns()) +
                 2 * shape.padded_units() + shape.padded_features()) +
         4 * shape.lanes;
}

}  // namespace isochron::ops
