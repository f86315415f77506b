// Recurrent layers and their gradients. Comes after element_prelude(), block_sizes.h and recurrent_step.h in
// the compiled source. If the recurrent kernel fits in shared memory, a block computes all steps of some
// rows, including the products, since rows are independent. Otherwise a launch computes the elements of one
// step, with separate matrix products between launches.
#ifndef ISOCHRON_OPS_CUDA_RECURRENT_TEXT_H_
#define ISOCHRON_OPS_CUDA_RECURRENT_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

#ifdef __CUDACC_RTC__
#define ISOCHRON_SHARED_MEMORY(name, bytes) extern __shared__ __align__(16) unsigned char name[]
#else
#define ISOCHRON_SHARED_MEMORY(name, bytes) alignas(16) static unsigned char name[bytes]
#endif

struct RecurrentShape {
  unsigned rows, steps, units;
};

/// Element (row, unit) of what lies in a step's tensors. L: the dtype of the lengths. kRows: how many rows
/// share a block's memory, where its states, products and sums have the rows of a unit side by side, and
/// products come in kParts, to be added up; 0: those lie in tensors.
template <typename L, unsigned kRows = 0, unsigned kParts = 1>
struct RecurrentAt {
  using Wide = unsigned long long;
  const RecurrentShape s;
  const unsigned first, n, u;  // the block's first row

  ISOCHRON_INLINE RecurrentAt(const RecurrentShape& shape, unsigned first_row, Wide i)
      : s(shape),
        first(first_row),
        n(first_row + static_cast<unsigned>(i / shape.units)),
        u(static_cast<unsigned>(i % shape.units)) {}

  /// Of (N, H), and of one of the times of (N, T, `each` H) and (T, N, `each` H).
  ISOCHRON_INLINE Wide by_row(unsigned each, unsigned k) const { return (Wide(n) * each + k) * s.units + u; }
  ISOCHRON_INLINE Wide by_row(long long time, unsigned each, unsigned k) const {
    return ((Wide(n) * s.steps + time) * each + k) * s.units + u;
  }
  ISOCHRON_INLINE Wide by_time(long long time, unsigned each, unsigned k) const {
    return ((Wide(time) * s.rows + n) * each + k) * s.units + u;
  }
  /// Of the states and, with `each` numbers a unit, of products and sums.
  ISOCHRON_INLINE Wide state() const { return part(1, 0); }
  ISOCHRON_INLINE Wide part(unsigned each, unsigned k) const {
    return kRows > 0 ? Wide(k * s.units + u) * kRows + (n - first) : by_row(each, k);
  }
  template <typename T>
  ISOCHRON_INLINE T product(const void* from, unsigned each, unsigned k) const {
    T sum = static_cast<const T*>(from)[part(each, k)];
    for (unsigned p = 1; p < kParts; ++p)
      sum += static_cast<const T*>(from)[part(each, k) + Wide(p) * each * s.units * kRows];
    return sum;
  }
  ISOCHRON_INLINE bool is_there(const void* lengths, long long time) const {
    return !lengths || time < static_cast<long long>(static_cast<const L*>(lengths)[n]);
  }
};

/// Reads an element that is stored as an S.
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

/// T: the type of computation; S: the type of tensors with an axis of time and of factors of products; B: the
/// type of the bias.
template <unsigned kSums, typename T, typename At>
ISOCHRON_SCALAR void read_products_of_x(const RecurrentStep& step, const At& at, T (&from_x)[kSums]) {
  ISOCHRON_UNROLL
  for (unsigned k = 0; k < kSums; ++k) from_x[k] = read<T>(step.from_x, at.by_row(step.time, kSums, k));
}

/// `from_x`: this step's, which is changed.
template <bool kLstm, typename S, typename B, typename T, unsigned kSums, typename At>
ISOCHRON_SCALAR void recurrent_step(const RecurrentStep& step, const At& at, T (&from_x)[kSums]) {
  using M = ScalarMath<T>;
  T from_h[kSums], gates[4];
  for (unsigned k = 0; k < kSums; ++k) {
    from_h[k] = at.template product<T>(step.product, kSums, k);
    const T bias = read<B>(step.bias, static_cast<unsigned long long>(k) * at.s.units + at.u);
    if constexpr (kLstm) {
      from_x[k] = from_x[k] + from_h[k] + bias;
    } else {
      from_x[k] += bias;
      from_h[k] += read<B>(step.bias, static_cast<unsigned long long>(kSums + k) * at.s.units + at.u);
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

template <bool kLstm, typename T, typename S, typename B, typename At>
ISOCHRON_SCALAR void recurrent_step(const RecurrentStep& step, const At& at) {
  T from_x[kLstm ? 4 : 3];
  read_products_of_x(step, at, from_x);
  recurrent_step<kLstm, S, B>(step, at, from_x);
}

/// I: the initial state.
template <bool kLstm, typename T, typename S, typename I, typename At>
ISOCHRON_SCALAR void recurrent_gradient_step(const RecurrentGradientStep& step, const At& at) {
  using M = ScalarMath<T>;
  constexpr unsigned kSums = kLstm ? 4 : 3;
  const bool there = at.is_there(step.lengths, step.time);
  T gates[4], more[4];  // gradients of the gates themselves
  for (unsigned k = 0; k < 4; ++k) {
    gates[k] = read<S>(step.gates, at.by_time(step.time, 4, k));
    more[k] = read_or<S>(T(0), step.of_gates, at.by_time(step.time, 4, k));
  }
  T h_before = read_or<I>(T(0), step.first_h, at.by_row(1, 0));
  if (step.time_before >= 0 && at.is_there(step.lengths, step.time_before))
    h_before = read<S>(step.sequence, at.by_row(step.time_before, 1, 0));
  T dh = read<T>(step.dh, at.state());
  if (step.product) dh += at.template product<T>(step.product, 1, 0);
  const T here = dh + read_or<S>(T(0), step.of_sequence, at.by_row(step.time, 1, 0));
  T from_x[kSums], from_h[kSums];
  if constexpr (kLstm) {
    const T dc = read<T>(step.dc, at.state()) + read_or<S>(T(0), step.of_cells, at.by_time(step.time, 1, 0));
    const T c_before = step.time_before >= 0 ? read<S>(step.cells, at.by_time(step.time_before, 1, 0))
                                             : read_or<I>(T(0), step.first_c, at.by_row(1, 0));
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

/// What the kRecurrentThreads threads of a block share, which take kRows rows through all steps. kOutputs,
/// kSummed: of the product of a step, by the kernel or, on the way back, by its transpose.
template <bool kLstm, bool kBack, typename Sum, typename Stored, unsigned kHidden, unsigned kRowsOfBlock>
struct RecurrentBlock {
  using T = Sum;
  using S = Stored;
  static constexpr unsigned kUnits = kHidden, kRows = kRowsOfBlock, kColumns = (kLstm ? 4 : 3) * kUnits;
  static constexpr unsigned kOutputs = kBack ? kUnits : kColumns, kSummed = kBack ? kColumns : kUnits;
  static constexpr unsigned kPitch = kColumns | 1;  // odd: a column of the kernel lies in all banks
  static constexpr unsigned kMaxParts = kRecurrentThreads / kOutputs;
  static constexpr unsigned kParts = kMaxParts == 0 ? 1 : kMaxParts < kSummed ? kMaxParts : kSummed;

  T product[kParts * kOutputs * kRows];
  T h[kUnits * kRows], c[kUnits * kRows];
  S factor[kSummed * kRows];
  S kernel[kUnits * kPitch];

  template <typename L>
  using At = RecurrentAt<L, kRows, kParts>;

  /// The caller must synchronize afterwards.
  ISOCHRON_INLINE void load(const void* from) {
    for (unsigned i = threadIdx.x; i < kUnits * kColumns; i += kRecurrentThreads)
      kernel[i / kColumns * kPitch + i % kColumns] = static_cast<const S*>(from)[i];
    for (unsigned i = threadIdx.x; i < kSummed * kRows; i += kRecurrentThreads) put(factor + i, T(0));
  }
  ISOCHRON_INLINE void multiply() {
    for (unsigned o = threadIdx.x; o < kParts * kOutputs; o += kRecurrentThreads) {
      const unsigned part = o / kOutputs, output = o % kOutputs;
      const unsigned begin = part * kSummed / kParts, end = (part + 1) * kSummed / kParts;
      T sums[kRows] = {};
      ISOCHRON_UNROLL_BY(8)
      for (unsigned k = begin; k < end; ++k) {
        const T weight = widen(kernel[kBack ? output * kPitch + k : k * kPitch + output]);
        for (unsigned r = 0; r < kRows; ++r)
          sums[r] = ScalarMath<T>::mul_add(widen(factor[k * kRows + r]), weight, sums[r]);
      }
      for (unsigned r = 0; r < kRows; ++r) product[o * kRows + r] = sums[r];
    }
  }
  /// Elements of the block's rows that a thread has.
  static constexpr unsigned kElemsEach = (kRows * kUnits + kRecurrentThreads - 1) / kRecurrentThreads;
  /// Calls `body` with each of them and its number.
  template <typename L, typename Body>
  ISOCHRON_INLINE void each(const RecurrentShape& shape, const Body& body) const {
    ISOCHRON_UNROLL
    for (unsigned e = 0; e < kElemsEach; ++e) {
      const unsigned i = threadIdx.x + e * kRecurrentThreads;
      const At<L> at(shape, blockIdx.x * kRows, i);
      if (i < kRows * kUnits && at.n < shape.rows) body(at, e);
    }
  }
};

/// FromH, FromC, ToH, ToC: the states at both ends.
template <bool kLstm, typename B, typename L, typename FromH, typename FromC, typename ToH, typename ToC,
          typename Block>
ISOCHRON_SCALAR void recurrent(const RecurrentShape& shape, RecurrentStep step, const RecurrentLaunch& launch,
                               Block& block) {
  using T = typename Block::T;
  using S = typename Block::S;
  using At = typename Block::template At<L>;
  step.product = block.product;
  step.h = block.h;
  step.c = block.c;
  step.h_factor = block.factor;
  block.load(launch.kernel);
  __syncthreads();
  block.template each<L>(shape, [&](const At& at, unsigned) {
    const T h = read_or<FromH>(T(0), launch.from_h, at.by_row(1, 0));
    block.h[at.state()] = h;
    put(block.factor + at.state(), h);
    block.c[at.state()] = read_or<FromC>(T(0), launch.from_c, at.by_row(1, 0));
  });
  T from_x[Block::kElemsEach][kLstm ? 4 : 3];
  for (long long s = 0; s < shape.steps; ++s) {
    step.time = launch.reverse ? shape.steps - 1 - s : s;
    // Asked for before the product, so that they are there after it.
    block.template each<L>(shape, [&](const At& at, unsigned e) { read_products_of_x(step, at, from_x[e]); });
    __syncthreads();
    block.multiply();
    __syncthreads();
    block.template each<L>(
        shape, [&](const At& at, unsigned e) { recurrent_step<kLstm, S, B>(step, at, from_x[e]); });
  }
  block.template each<L>(shape, [&](const At& at, unsigned) {
    write<ToH>(launch.to_h, at.by_row(1, 0), block.h[at.state()]);
    write<ToC>(launch.to_c, at.by_row(1, 0), block.c[at.state()]);
  });
}

/// I: the initial state; the others as above, of gradients.
template <bool kLstm, typename I, typename L, typename FromH, typename FromC, typename ToH, typename ToC,
          typename Block>
ISOCHRON_SCALAR void recurrent_gradient(const RecurrentShape& shape, RecurrentGradientStep step,
                                        const RecurrentLaunch& launch, Block& block) {
  using T = typename Block::T;
  using S = typename Block::S;
  using At = typename Block::template At<L>;
  step.product = nullptr;
  step.dh = block.h;
  step.dc = block.c;
  step.sums = block.factor;
  block.load(launch.kernel);
  __syncthreads();
  block.template each<L>(shape, [&](const At& at, unsigned) {
    block.h[at.state()] = read_or<FromH>(T(0), launch.from_h, at.by_row(1, 0));
    block.c[at.state()] = read_or<FromC>(T(0), launch.from_c, at.by_row(1, 0));
  });
  for (long long s = static_cast<long long>(shape.steps) - 1; s >= 0; --s) {
    step.time = launch.reverse ? shape.steps - 1 - s : s;
    step.time_before = s == 0 ? -1 : step.time + (launch.reverse ? 1 : -1);
    block.template each<L>(
        shape, [&](const At& at, unsigned) { recurrent_gradient_step<kLstm, T, S, I>(step, at); });
    __syncthreads();
    block.multiply();
    __syncthreads();
    step.product = block.product;
  }
  block.template each<L>(shape, [&](const At& at, unsigned) {
    T dh = block.h[at.state()];
    if (step.product) dh += at.template product<T>(step.product, 1, 0);
    write<ToH>(launch.to_h, at.by_row(1, 0), dh);
    write<ToC>(launch.to_c, at.by_row(1, 0), block.c[at.state()]);
  });
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
