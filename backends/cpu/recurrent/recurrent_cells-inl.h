// The cells of recurrent layers, computed for a vector of units, and their access to tensors. Included once
// per Highway target, hence no ordinary include guard.

#if defined(ISOCHRON_OPS_CPU_RECURRENT_CELLS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_RECURRENT_CELLS_INL_H_
#undef ISOCHRON_OPS_CPU_RECURRENT_CELLS_INL_H_
#else
#define ISOCHRON_OPS_CPU_RECURRENT_CELLS_INL_H_
#endif

#include <algorithm>

#include "isochron/backends/cpu/common/block_products-inl.h"
#include "isochron/backends/cpu/common/vector_math-inl.h"
#include "isochron/backends/cpu/recurrent/recurrent_blocks.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// One group of units in tensors whose rows aren't padded. O: the type of the products' operands.
template <typename O>
class Group {
 public:
  using V = Vector<ComputeType<O>>;
  Group(const RecurrentShape& shape, int64_t index)
      : units_(shape.units),
        first_(index * shape.lanes),
        lanes_(static_cast<size_t>(std::min(shape.lanes, shape.units - first_))) {}
  /// The number of lanes that hold units.
  HWY_INLINE size_t lanes() const { return lanes_; }
  /// Row `row` of an (..., H) tensor.
  template <typename E>
  HWY_INLINE V load(const E* tensor, int64_t row) const {
    return load_at(tensor + row * units_ + first_);
  }
  template <typename E, class W>
  HWY_INLINE void store(W v, E* tensor, int64_t row) const {
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
    return Operand<O>::read(from, lanes_);
  }
  template <typename E, class W>
  HWY_INLINE void store_at(W v, E* to) const {
    Operand<O>::write(v, to, lanes_);
  }
  int64_t units_;
  int64_t first_;
  size_t lanes_;
};

/// The derivatives of sigmoid and tanh, given the function's value.
template <typename T>
HWY_INLINE Vector<T> sigmoid_slope(Vector<T> y) {
  return hn::NegMulAdd(y, y, y);
}
template <typename T>
HWY_INLINE Vector<T> tanh_slope(Vector<T> y) {
  return hn::NegMulAdd(y, y, hn::Set(hn::ScalableTag<T>(), T(1)));
}

/// 1 / (1 + e^-x) for |x| <= 86; beyond that, the result may be the value at the bound. NaN stays. f32: an
/// error of at most 3 + |x| / 4 ULP. With FMA, e^-x is computed as 2^n 2^r with n = round(-x / ln 2), and 2^r
/// by the minimax polynomial of degree 5 on |r| <= 1 / 2 (relative error 9e-8 before rounding).
template <typename T>
HWY_INLINE Vector<T> cell_sigmoid(Vector<T> x) {
  if constexpr (sizeof(T) == sizeof(double) || !HWY_NATIVE_FMA) {
    return VectorMath<T>::sigmoid(x);
  } else {
    const hn::ScalableTag<T> d;
    const auto bounded = VectorMath<T>::clamp(x, 86);
    const auto scale = hn::Set(d, -1.44269504088896341f);
    const auto [n, power] = nearest_power<0>(d, bounded, scale);
    const auto r = hn::MulSub(bounded, scale, n);
    auto p = hn::MulAdd(r, hn::Set(d, 0.001326472725257126f), hn::Set(d, 0.00967151278577442f));
    p = hn::MulAdd(p, r, hn::Set(d, 0.055507337444712986f));
    p = hn::MulAdd(p, r, hn::Set(d, 0.24022242083111883f));
    p = hn::MulAdd(p, r, hn::Set(d, 0.6931469775976778f));
    p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
    return reciprocal(d, hn::MulAdd(p, power, hn::Set(d, 1.0f)));
  }
}

/// A cell's data for one group of units of a row. The forward pass turns the sums of the slots into gates and
/// the next state.
template <typename T>
struct CellForward {
  Vector<T> gates[kRecurrentSlots];  // in: sums; out: values saved for the gradient
  Vector<T> h;                       // in: before the step; out: after it
  Vector<T> c;
};
/// The backward pass turns the gradient of the state into the gradients of the slots' sums.
template <typename T>
struct CellBackward {
  Vector<T> gates[kRecurrentSlots];
  Vector<T> added[kRecurrentSlots];  // gradients that reach the gates from elsewhere
  Vector<T> h_before;
  Vector<T> c_before;
  Vector<T> c_after;
  Vector<T> d_h;                     // in: for h after the step; out: direct part for h before it
  Vector<T> d_c;                     // in: for c after the step; out: for c before it
  Vector<T> slots[kRecurrentSlots];  // out: gradients of the slots' sums
};

/// Slots: i, f, g, o. Gates: the same.
struct Lstm {
  static constexpr SlotGates kGates{4, {0, 1, 2, 3}, {0, 1, 2, 3}};
  static constexpr bool kHasCell = true;
  template <typename T>
  static HWY_INLINE void forward(CellForward<T>& s) {
    s.gates[0] = cell_sigmoid<T>(s.gates[0]);
    s.gates[1] = cell_sigmoid<T>(s.gates[1]);
    s.gates[2] = VectorMath<T>::unbounded_tanh(s.gates[2]);
    s.gates[3] = cell_sigmoid<T>(s.gates[3]);
    s.c = hn::MulAdd(s.gates[1], s.c, s.gates[0] * s.gates[2]);
    s.h = s.gates[3] * VectorMath<T>::unbounded_tanh(s.c);
  }
  template <typename T>
  static HWY_INLINE void backward(CellBackward<T>& s) {
    const auto [i, f, g, o] = s.gates;
    const auto squashed = VectorMath<T>::unbounded_tanh(s.c_after);
    const auto d_c = hn::MulAdd(s.d_h * o, tanh_slope<T>(squashed), s.d_c);
    s.slots[0] = hn::MulAdd(d_c, g, s.added[0]) * sigmoid_slope<T>(i);
    s.slots[1] = hn::MulAdd(d_c, s.c_before, s.added[1]) * sigmoid_slope<T>(f);
    s.slots[2] = hn::MulAdd(d_c, i, s.added[2]) * tanh_slope<T>(g);
    s.slots[3] = hn::MulAdd(s.d_h, squashed, s.added[3]) * sigmoid_slope<T>(o);
    s.d_c = d_c * f;
    s.d_h = hn::Zero(hn::ScalableTag<T>());
  }
};

/// Slots: z, r, n from x, n from h. Saved gates: z, r, n and the sum of the last slot.
struct Gru {
  static constexpr SlotGates kGates{3, {0, 1, 2, -1}, {0, 1, -1, 2}};
  static constexpr bool kHasCell = false;
  template <typename T>
  static HWY_INLINE void forward(CellForward<T>& s) {
    const auto z = cell_sigmoid<T>(s.gates[0]);
    const auto r = cell_sigmoid<T>(s.gates[1]);
    const auto n = VectorMath<T>::unbounded_tanh(hn::MulAdd(r, s.gates[3], s.gates[2]));
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

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
