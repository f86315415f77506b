// Packs the weights of recurrent layers into the layout that products read, and converts packed gradients
// back to the layout of the op. Included once per Highway target, hence no ordinary include guard.

#if defined(ISOCHRON_OPS_CPU_RECURRENT_PACKING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_RECURRENT_PACKING_INL_H_
#undef ISOCHRON_OPS_CPU_RECURRENT_PACKING_INL_H_
#else
#define ISOCHRON_OPS_CPU_RECURRENT_PACKING_INL_H_
#endif

#include <algorithm>

#include "isochron/backends/cpu/recurrent/recurrent_cells-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Row k of [kernel; recurrent kernel]; null beyond the last row.
template <class Cell, typename T>
HWY_INLINE T* kernel_row(const RecurrentShape& shape, const RecurrentWeights<T>& weights, int64_t k) {
  const int64_t columns = Cell::kGates.count * shape.units;
  if (k < shape.features) return weights.kernel ? weights.kernel + k * columns : nullptr;
  return k < shape.depth() && weights.recurrent ? weights.recurrent + (k - shape.features) * columns
                                                : nullptr;
}

/// The address of group g of slot s in a row of the op's weights; null if the row has no columns for the
/// slot.
template <class Cell, typename T>
HWY_INLINE T* slot_in(const RecurrentShape& shape, T* row, bool of_x, int64_t g, int64_t s) {
  const int64_t gate = of_x ? Cell::kGates.x[s] : Cell::kGates.h[s];
  return row && gate >= 0 ? row + gate * shape.units + g * shape.lanes : nullptr;
}

/// The number of units in group g; the last group may have fewer than `lanes`.
HWY_INLINE size_t valid_lanes(const RecurrentShape& shape, int64_t g) {
  return static_cast<size_t>(std::min(shape.lanes, shape.units - g * shape.lanes));
}

template <typename T>
HWY_INLINE Vector<T> load_slot(const RecurrentShape& shape, const T* slot, int64_t g) {
  const hn::ScalableTag<T> d;
  return slot ? load_lanes(d, slot, valid_lanes(shape, g)) : hn::Zero(d);
}

template <class Cell, typename O, typename T = ComputeType<O>>
void pack_weights(const RecurrentShape& shape, const RecurrentWeights<const T>& weights, O* packed, T* bias) {
  const int64_t columns = Cell::kGates.count * shape.units;
  for (int64_t g = 0; g < shape.groups(); ++g) {
    for (int64_t k = 0; k < shape.whole_depth<O>(shape.depth()); k += kTogether<O>) {
      for (int64_t s = 0; s < kRecurrentSlots; ++s) {
        Vector<T> rows[kTogether<O>];
        for (int64_t i = 0; i < kTogether<O>; ++i) {
          const T* row = kernel_row<Cell>(shape, weights, k + i);
          rows[i] = load_slot(shape, slot_in<Cell>(shape, row, k + i < shape.features, g, s), g);
        }
        Operand<O>::write_together(rows, packed);
        packed += kTogether<O> * shape.lanes;
      }
    }
    for (int64_t s = 0; s < kRecurrentSlots; ++s, bias += shape.lanes) {
      Vector<T> sum = load_slot(shape, slot_in<Cell>(shape, weights.bias, true, g, s), g);
      if (!Cell::kHasCell) {
        sum = sum + load_slot(shape, slot_in<Cell>(shape, weights.bias + columns, false, g, s), g);
      }
      hn::StoreU(sum, hn::ScalableTag<T>(), bias);
    }
  }
}

/// Packs `rows` rows of the kernels, from `first` on, as columns.
template <class Cell, typename O, typename T = ComputeType<O>>
void pack_columns(const RecurrentShape& shape, const RecurrentWeights<const T>& weights, int64_t first,
                  int64_t rows, O* packed) {
  const int64_t depth = shape.groups() * shape.slot_columns();
  for (int64_t done = 0; done < rows;) {
    const int64_t width = panel_vectors((rows - done + shape.lanes - 1) / shape.lanes) * shape.lanes;
    const int64_t filled = std::min(width, rows - done);
    if (filled < width) std::fill_n(packed, depth * width, O());
    for (int64_t g = 0; g < shape.groups(); ++g) {
      for (int64_t s = 0; s < kRecurrentSlots; ++s) {
        O* to = packed + (g * shape.slot_columns() + s * shape.lanes) * width;
        for (int64_t i = 0; i < filled; ++i) {
          const T* row = kernel_row<Cell>(shape, weights, first + done + i);
          HWY_ALIGN O lanes[HWY_MAX_BYTES / sizeof(T)];
          Operand<O>::write(load_slot(shape, slot_in<Cell>(shape, row, first < shape.features, g, s), g),
                            lanes, static_cast<size_t>(shape.lanes));
          for (int64_t j = 0; j < shape.lanes; ++j) {
            to[(j / kTogether<O> * width + i) * kTogether<O> + j % kTogether<O>] = lanes[j];
          }
        }
      }
    }
    packed += depth * width;
    done += width;
  }
}

template <class Cell, typename O, typename T = ComputeType<O>>
void pack_transposed(const RecurrentShape& shape, const RecurrentWeights<const T>& weights, O* packed) {
  if (weights.kernel) pack_columns<Cell>(shape, weights, 0, shape.features, packed);
  packed += shape.groups() * shape.slot_columns() * shape.padded_features();
  pack_columns<Cell>(shape, weights, shape.features, shape.units, packed);
}

template <class Cell, typename T>
void unpack_sums(const RecurrentShape& shape, const T* sums, int64_t count, int64_t stride,
                 const RecurrentWeights<T>& to) {
  const hn::ScalableTag<T> d;
  const auto store = [&](const T* from, T* slot, int64_t g) {
    if (!slot) return;
    Vector<T> sum = hn::LoadU(d, from);
    for (int64_t i = 1; i < count; ++i) sum = sum + hn::LoadU(d, from + i * stride);
    store_lanes(d, sum, slot, valid_lanes(shape, g));
  };
  const int64_t columns = Cell::kGates.count * shape.units;
  const int64_t group = shape.whole_rows(shape.depth()) * shape.slot_columns();
  const T* bias = sums + shape.groups() * group;
  for (int64_t g = 0; g < shape.groups(); ++g, sums += group) {
    const T* from = sums;
    for (int64_t k = 0; k < shape.depth(); ++k) {
      T* row = kernel_row<Cell>(shape, to, k);
      for (int64_t s = 0; s < kRecurrentSlots; ++s, from += shape.lanes) {
        store(from, slot_in<Cell>(shape, row, k < shape.features, g, s), g);
      }
    }
    for (int64_t s = 0; s < kRecurrentSlots; ++s, bias += shape.lanes) {
      store(bias, slot_in<Cell>(shape, to.bias, true, g, s), g);
      if (!Cell::kHasCell && to.bias) store(bias, slot_in<Cell>(shape, to.bias + columns, false, g, s), g);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
