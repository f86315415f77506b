// A step of a recurrent layer, or of its gradient, an element (row, unit) a thread; behind element_prelude()
// and recurrent_step.h in their text. The products are matrix products of their own, before each step.
#ifndef ISOCHRON_OPS_CUDA_RECURRENT_TEXT_H_
#define ISOCHRON_OPS_CUDA_RECURRENT_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

struct RecurrentShape {
  unsigned rows, steps, units;
};

/// Element (row, unit) of what lies in a step's tensors. L: the dtype of the lengths.
template <typename L>
struct RecurrentAt {
  using Wide = unsigned long long;
  const RecurrentShape s;
  const unsigned n, u;

  ISOCHRON_INLINE RecurrentAt(const RecurrentShape& shape, Wide i)
      : s(shape), n(static_cast<unsigned>(i / shape.units)), u(static_cast<unsigned>(i % shape.units)) {}

  ISOCHRON_INLINE Wide state() const { return Wide(n) * s.units + u; }
  /// Of (N, `each` H), and of one of the times of (N, T, `each` H) and (T, N, `each` H).
  ISOCHRON_INLINE Wide part(unsigned each, unsigned k) const { return (Wide(n) * each + k) * s.units + u; }
  ISOCHRON_INLINE Wide by_row(long long time, unsigned each, unsigned k) const {
    return ((Wide(n) * s.steps + time) * each + k) * s.units + u;
  }
  ISOCHRON_INLINE Wide by_time(long long time, unsigned each, unsigned k) const {
    return ((Wide(time) * s.rows + n) * each + k) * s.units + u;
  }
  ISOCHRON_INLINE bool is_there(const void* lengths, long long time) const {
    return !lengths || time < static_cast<long long>(static_cast<const L*>(lengths)[n]);
  }
};

/// What is stored as an S.
template <typename S>
ISOCHRON_SCALAR auto read(const void* from, unsigned long long at) {
  return widen(static_cast<const S*>(from)[at]);
}
template <typename S, typename T>
ISOCHRON_SCALAR T read_or(T otherwise, const void* from, unsigned long long at) {
  return from ? read<S>(from, at) : otherwise;
}
template <typename S, typename T>
ISOCHRON_SCALAR void write(void* to, unsigned long long at, T value) {
  if (to) put(static_cast<S*>(to) + at, value);
}

/// T: what is computed in; S: what has an axis of time, and factors of products; B: the bias.
template <bool kLstm, typename T, typename S, typename B, typename L>
ISOCHRON_SCALAR void recurrent_step(const RecurrentShape& shape, const RecurrentStep& step,
                                    unsigned long long i) {
  using M = ScalarMath<T>;
  constexpr unsigned kSums = kLstm ? 4 : 3;
  const RecurrentAt<L> at(shape, i);
  T from_x[kSums], from_h[kSums], gates[4];
  for (unsigned k = 0; k < kSums; ++k) {
    from_x[k] = read<T>(step.from_x, at.by_row(step.time, kSums, k));
    from_h[k] = read<T>(step.product, at.part(kSums, k));
    const T bias = read<B>(step.bias, static_cast<unsigned long long>(k) * shape.units + at.u);
    if constexpr (kLstm) {
      from_x[k] = from_x[k] + from_h[k] + bias;
    } else {
      from_x[k] += bias;
      from_h[k] += read<B>(step.bias, static_cast<unsigned long long>(kSums + k) * shape.units + at.u);
    }
  }
  T h = read<T>(step.h, at.state()), c = 0;
  if constexpr (kLstm) {
    gates[0] = M::sigmoid(from_x[0]);
    gates[1] = M::sigmoid(from_x[1]);
    gates[2] = M::tanh(from_x[2]);
    gates[3] = M::sigmoid(from_x[3]);
    c = gates[1] * read<T>(step.c, at.state()) + gates[0] * gates[2];
    h = gates[3] * M::tanh(c);
  } else {
    gates[0] = M::sigmoid(from_x[0] + from_h[0]);
    gates[1] = M::sigmoid(from_x[1] + from_h[1]);
    gates[2] = M::tanh(from_x[2] + gates[1] * from_h[2]);
    gates[3] = from_h[2];
    h = gates[0] * h + (T(1) - gates[0]) * gates[2];
  }
  const bool there = at.is_there(step.lengths, step.time);
  if (there) {
    write<T>(step.h, at.state(), h);
    write<S>(step.h_factor, at.state(), h);
    if (kLstm) write<T>(step.c, at.state(), c);
  }
  write<S>(step.sequence, at.by_row(step.time, 1, 0), there ? h : T(0));
  for (unsigned k = 0; k < 4; ++k) write<S>(step.gates, at.by_time(step.time, 4, k), there ? gates[k] : T(0));
  if (kLstm && step.cells) write<S>(step.cells, at.by_time(step.time, 1, 0), read<T>(step.c, at.state()));
}

/// I: the initial state.
template <bool kLstm, typename T, typename S, typename I, typename L>
ISOCHRON_SCALAR void recurrent_gradient_step(const RecurrentShape& shape, const RecurrentGradientStep& step,
                                             unsigned long long i) {
  using M = ScalarMath<T>;
  constexpr unsigned kSums = kLstm ? 4 : 3;
  const RecurrentAt<L> at(shape, i);
  const bool there = at.is_there(step.lengths, step.time);
  T gates[4], more[4];  // gradients of the gates themselves
  for (unsigned k = 0; k < 4; ++k) {
    gates[k] = read<S>(step.gates, at.by_time(step.time, 4, k));
    more[k] = read_or<S>(T(0), step.of_gates, at.by_time(step.time, 4, k));
  }
  T h_before = read_or<I>(T(0), step.first_h, at.state());
  if (step.time_before >= 0 && at.is_there(step.lengths, step.time_before))
    h_before = read<S>(step.sequence, at.by_row(step.time_before, 1, 0));
  const T dh = read<T>(step.dh, at.state()) + read_or<T>(T(0), step.product, at.state());
  const T here = dh + read_or<S>(T(0), step.of_sequence, at.by_row(step.time, 1, 0));
  T from_x[kSums], from_h[kSums];
  if constexpr (kLstm) {
    const T dc = read<T>(step.dc, at.state()) + read_or<S>(T(0), step.of_cells, at.by_time(step.time, 1, 0));
    const T c_before = step.time_before >= 0 ? read<S>(step.cells, at.by_time(step.time_before, 1, 0))
                                             : read_or<I>(T(0), step.first_c, at.state());
    const T c = M::tanh(read<S>(step.cells, at.by_time(step.time, 1, 0)));
    const T cell = dc + here * gates[3] * (T(1) - c * c);
    from_x[0] = (cell * gates[2] + more[0]) * gates[0] * (T(1) - gates[0]);
    from_x[1] = (cell * c_before + more[1]) * gates[1] * (T(1) - gates[1]);
    from_x[2] = (cell * gates[0] + more[2]) * (T(1) - gates[2] * gates[2]);
    from_x[3] = (here * c + more[3]) * gates[3] * (T(1) - gates[3]);
    for (unsigned k = 0; k < kSums; ++k) from_h[k] = from_x[k];
    write<T>(step.dc, at.state(), there ? cell * gates[1] : dc);
    write<T>(step.dh, at.state(), there ? T(0) : dh);
  } else {
    const T of_z = (here * (h_before - gates[2]) + more[0]) * gates[0] * (T(1) - gates[0]);
    const T of_n = (here * (T(1) - gates[0]) + more[2]) * (T(1) - gates[2] * gates[2]);
    const T of_r = (of_n * gates[3] + more[1]) * gates[1] * (T(1) - gates[1]);
    from_x[0] = from_h[0] = of_z;
    from_x[1] = from_h[1] = of_r;
    from_x[2] = of_n;
    from_h[2] = of_n * gates[1] + more[3];
    write<T>(step.dh, at.state(), there ? here * gates[0] : dh);
  }
  for (unsigned k = 0; k < kSums; ++k) {
    write<S>(step.sums, at.part(kSums, k), there ? from_h[k] : T(0));
    write<S>(step.all_from_x, at.by_row(step.time, kSums, k), there ? from_x[k] : T(0));
    write<S>(step.all_from_h, at.by_row(step.time, kSums, k), there ? from_h[k] : T(0));
  }
  write<S>(step.before, at.by_row(step.time, 1, 0), h_before);
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
