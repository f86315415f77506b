// Kernels over rows, with a block of kRowThreads threads per row. Comes after element_prelude() in the
// compiled source. T, float or double, is the type of computation and, unless stated otherwise, the stored
// type. Sums are added as trees in a fixed order.
#ifndef ISOCHRON_OPS_CUDA_ROWS_TEXT_H_
#define ISOCHRON_OPS_CUDA_ROWS_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// Folds the values of the threads of a block; all of them get the result.
template <typename Fold, typename T>
ISOCHRON_SCALAR T folded_by_block(T* parts, T own) {
  parts[threadIdx.x] = own;
  __syncthreads();
  for (unsigned half = kRowThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      const T both = Fold::of(parts[threadIdx.x], parts[threadIdx.x + half]);
      parts[threadIdx.x] = both;
    }
    __syncthreads();
  }
  const T result = parts[0];
  __syncthreads();
  return result;
}

/// The largest element of a row and sum_i e^(x_i - largest).
template <typename T>
struct Exponentials {
  T largest, sum;
};
template <typename T>
ISOCHRON_SCALAR Exponentials<T> exponentials_of(const T* x, unsigned n) {
  __shared__ T parts[kRowThreads];
  T largest = x[0];
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) largest = MaximumOf::of(largest, x[i]);
  largest = folded_by_block<MaximumOf>(parts, largest);
  T sum = 0;
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) sum += ScalarMath<T>::exp(x[i] - largest);
  return {largest, folded_by_block<SumOf>(parts, sum)};
}

template <typename T>
ISOCHRON_SCALAR void softmax_row(const T* x, T* y, unsigned n) {
  const Exponentials<T> e = exponentials_of(x, n);
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads)
    y[i] = ScalarMath<T>::exp(x[i] - e.largest) * (T(1) / e.sum);
}

template <typename T>
ISOCHRON_SCALAR void log_softmax_row(const T* x, T* y, unsigned n) {
  const Exponentials<T> e = exponentials_of(x, n);
  const T logarithm = ScalarMath<T>::log(e.sum);
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) y[i] = x[i] - e.largest - logarithm;
}

template <typename T>
ISOCHRON_SCALAR void log_sum_exp_row(const T* x, T* y, unsigned n) {
  const Exponentials<T> e = exponentials_of(x, n);
  if (threadIdx.x != 0) return;
  // An infinite one is what the sum is of; its own exponential is NaN.
  *y = e.largest - e.largest == T(0) ? e.largest + ScalarMath<T>::log(e.sum) : e.largest;
}

template <typename T>
ISOCHRON_SCALAR void cross_entropy_row(const T* x, long long label, T* loss, unsigned n) {
  const unsigned at = checked_index(label, n, "sparse_softmax_cross_entropy");
  const Exponentials<T> e = exponentials_of(x, n);
  if (threadIdx.x == 0) *loss = ScalarMath<T>::log(e.sum) + (e.largest - x[at]);
}

template <typename T>
ISOCHRON_SCALAR void cross_entropy_gradient_row(const T* x, long long label, T g, T* y, unsigned n) {
  const unsigned at = checked_index(label, n, "sparse_softmax_cross_entropy");
  const Exponentials<T> e = exponentials_of(x, n);
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) {
    const T exponential = ScalarMath<T>::exp(x[i] - e.largest);
    // p - 1 from the exponentials: exact to rounding also where p is nearly 1.
    y[i] = i == at ? g * ((exponential - e.sum) / e.sum) : exponential * (g / e.sum);
  }
}

/// `gamma`, `beta`, `y`, `mean` and `scale` may be null. T is the type of computation; x and y may be stored
/// in 16 bits.
template <typename T, bool kCentered, typename X, typename Y>
ISOCHRON_SCALAR void layer_norm_row(const X* x, const T* gamma, const T* beta, Y* y, T* mean, T* scale,
                                    unsigned n, T epsilon) {
  __shared__ T parts[kRowThreads];
  T average = 0;
  if (kCentered) {
    for (unsigned i = threadIdx.x; i < n; i += kRowThreads) average += widen(x[i]);
    average = folded_by_block<SumOf>(parts, average) / T(n);
  }
  T squares = 0;
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) {
    const T distance = widen(x[i]) - average;
    squares += distance * distance;
  }
  const T factor = T(1) / ScalarMath<T>::sqrt(folded_by_block<SumOf>(parts, squares) / T(n) + epsilon);
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) {
    T value = (widen(x[i]) - average) * factor;
    if (gamma) value *= gamma[i];
    if (beta) value += beta[i];
    if (y) put(y + i, value);
  }
  if (threadIdx.x > 0) return;
  if (mean) *mean = average;
  if (scale) *scale = factor;
}

/// Two sums that are folded together.
template <typename T>
struct SumPair {
  T first, second;

  ISOCHRON_INLINE SumPair operator+(SumPair other) const {
    return {first + other.first, second + other.second};
  }
};

/// The gradient of the row, to which `added` is added; that, `gamma` and `dx` may be null. x, g, `added` and
/// dx may be stored in 16 bits. To `columns`, which may be null, it adds what the row has in the gradients of
/// gamma (n) and beta (n): each column is one thread's.
template <typename T, bool kCentered, typename X, typename G, typename A, typename D>
ISOCHRON_SCALAR void layer_norm_gradient_row(const X* x, T mean, T scale, const G* g, const T* gamma,
                                             const A* added, D* dx, T* columns, unsigned n) {
  __shared__ SumPair<T> parts[kRowThreads];
  SumPair<T> sums = {0, 0};  // of the weighted gradient, and of its products with what was normalized
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) {
    const T weighted = gamma ? widen(g[i]) * gamma[i] : widen(g[i]);
    if (kCentered) sums.first += weighted;
    sums.second += weighted * ((widen(x[i]) - (kCentered ? mean : T(0))) * scale);
  }
  sums = folded_by_block<SumOf>(parts, sums);
  const T sum = sums.first / T(n), dot = sums.second / T(n);
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) {
    const T own = widen(g[i]), weighted = gamma ? own * gamma[i] : own;
    const T normal = (widen(x[i]) - (kCentered ? mean : T(0))) * scale;
    if (columns) {
      columns[i] += own * normal;
      columns[n + i] += own;
    }
    const T gradient = scale * (weighted - sum - normal * dot);
    if (dx) put(dx + i, added ? gradient + widen(added[i]) : gradient);
  }
}

/// Those of a block's rows, `each` of `rows`; `columns` are the block's, and go to its part of `parts`.
template <typename T, bool kCentered, typename X, typename G, typename A, typename D>
ISOCHRON_SCALAR void layer_norm_gradient_rows(const X* x, const T* mean, const T* scale, const G* g,
                                              const T* gamma, const A* added, D* dx, T* columns, T* parts,
                                              unsigned long long rows, unsigned each, unsigned n) {
  using Wide = unsigned long long;
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) columns[i] = columns[n + i] = 0;
  const Wide first = blockIdx.x * Wide(each), end = first + each < rows ? first + each : rows;
  for (Wide row = first; row < end; ++row)
    layer_norm_gradient_row<T, kCentered>(x + row * n, mean[row], scale[row], g + row * n, gamma,
                                          added ? added + row * n : added, dx ? dx + row * n : dx, columns,
                                          n);
  T* const own = parts + blockIdx.x * (2 * Wide(n));
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) {
    own[i] = columns[i];
    own[n + i] = columns[n + i];
  }
}

/// The sums of the columns of `parts` (count, 2 n), of which a block has kColumnsEach: the first n of them,
/// and the others; either may be null.
template <typename T>
ISOCHRON_SCALAR void join_columns(const T* parts, unsigned count, unsigned n, T* first, T* others) {
  __shared__ T sums[kRowThreads];
  const unsigned column = blockIdx.x * kColumnsEach + threadIdx.x % kColumnsEach;
  T sum = 0;
  for (unsigned p = threadIdx.x / kColumnsEach; p < count && column < 2 * n; p += kRowThreads / kColumnsEach)
    sum += parts[p * (2ull * n) + column];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kRowThreads / 2; half >= kColumnsEach; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x >= kColumnsEach) return;
  if (column < n && first) first[column] = sums[threadIdx.x];
  if (column >= n && column < 2 * n && others) others[column - n] = sums[threadIdx.x];
}

/// The sums of a scatter_add, (outer, extent, inner). A block has `part` elements, of `parts` in all, of
/// `entries` of the outer ones.
struct ScatterAdd {
  unsigned count;  // of indices
  unsigned extent;
  unsigned long long outer, inner;
  unsigned part, parts, entries;
};

constexpr unsigned kIndicesEach = 4;  // that a thread compares at a time
constexpr unsigned kIndexChunk = kIndicesEach * kRowThreads;
constexpr unsigned kMaxMatches = 2 * kIndexChunk;  // that a block lists at a time
constexpr unsigned kCountGroup = 16;

/// Positions of indices in their order, and how far behind the first of a block's rows each points.
struct Matches {
  unsigned positions[kMaxMatches], rows[kMaxMatches];
  unsigned counts[kRowThreads], group_counts[kRowThreads / kCountGroup];  // of a chunk
};

/// Lists those of the indices from `begin` on that point to one of `rows` rows from `first` on, to their end
/// or as many as there is room for. Returns the position behind those compared; `listed`: how many it found.
template <typename Index>
ISOCHRON_SCALAR unsigned long long list_matches(const ScatterAdd& s, Matches& matches, const Index* indices,
                                                unsigned long long begin, unsigned first, unsigned rows,
                                                unsigned& listed) {
  const unsigned group = threadIdx.x / kCountGroup;
  for (listed = 0; begin < s.count && listed + kIndexChunk <= kMaxMatches; begin += kIndexChunk) {
    const unsigned long long from = begin + threadIdx.x * kIndicesEach;
    unsigned row[kIndicesEach], found = 0;
    ISOCHRON_UNROLL
    for (unsigned i = 0; i < kIndicesEach; ++i) {
      row[i] = rows;
      if (from + i >= s.count) continue;
      const long long index = indices[from + i];
      if (blockIdx.x == 0) checked_index(index, s.extent, "scatter_add");
      if (index < first || index - first >= rows) continue;
      row[i] = static_cast<unsigned>(index - first);
      ++found;
    }
    __syncthreads();
    matches.counts[threadIdx.x] = found;
    __syncthreads();
    if (threadIdx.x < kRowThreads / kCountGroup) {
      unsigned sum = 0;
      for (unsigned t = 0; t < kCountGroup; ++t) sum += matches.counts[threadIdx.x * kCountGroup + t];
      matches.group_counts[threadIdx.x] = sum;
    }
    __syncthreads();
    unsigned at = listed;
    for (unsigned g = 0; g < kRowThreads / kCountGroup; ++g) {
      if (g < group) at += matches.group_counts[g];
      listed += matches.group_counts[g];
    }
    if (found == 0) continue;
    for (unsigned t = group * kCountGroup; t < threadIdx.x; ++t) at += matches.counts[t];
    for (unsigned i = 0; i < kIndicesEach; ++i) {
      if (row[i] == rows) continue;
      matches.positions[at] = static_cast<unsigned>(from + i);
      matches.rows[at++] = row[i];
    }
  }
  __syncthreads();
  return begin;
}

/// The sums of a block: each adds up the elements of `updates` (outer, count, inner) whose index is its row,
/// in their order, in `Sum`.
template <typename Sum, typename T, typename Index>
ISOCHRON_SCALAR void scatter_add_part(const ScatterAdd& s, const T* updates, const Index* indices, T* sums) {
  using Wide = unsigned long long;
  constexpr unsigned kAtOnce = 8;  // elements that are asked for before one is waited for
  __shared__ Matches matches;
  const Wide elems = s.extent * s.inner, begin = blockIdx.x % s.parts * Wide(s.part);
  const Wide end = begin + s.part < elems ? begin + s.part : elems;
  const unsigned first = static_cast<unsigned>(begin / s.inner);
  const unsigned rows = static_cast<unsigned>((end - 1) / s.inner) + 1 - first;
  unsigned listed = 0;
  bool all_listed = false;
  for (unsigned base = 0; base < s.part * s.entries; base += kRowThreads) {
    const unsigned item = base + threadIdx.x;
    const Wide entry = blockIdx.x / s.parts * Wide(s.entries) + item / s.part;
    const Wide element = begin + item % s.part, column = element % s.inner;
    const unsigned row = static_cast<unsigned>(element / s.inner) - first;
    const bool own = item < s.part * s.entries && entry < s.outer && element < elems;
    Sum sum = 0;
    for (Wide next = 0;;) {
      if (!all_listed) {
        const Wide from = next;
        next = list_matches(s, matches, indices, from, first, rows, listed);
        all_listed = from == 0 && next >= s.count;
      }
      for (unsigned m = 0; own && m < listed; m += kAtOnce) {
        Sum values[kAtOnce];
        ISOCHRON_UNROLL
        for (unsigned i = 0; i < kAtOnce; ++i) {
          values[i] = 0;  // adds nothing: no sum is -0
          if (m + i < listed && matches.rows[m + i] == row)
            values[i] = widen(updates[(entry * s.count + matches.positions[m + i]) * s.inner + column]);
        }
        ISOCHRON_UNROLL
        for (unsigned i = 0; i < kAtOnce; ++i) sum += values[i];
      }
      if (all_listed || next >= s.count) break;
    }
    if (own) put(sums + entry * elems + element, sum);
  }
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
