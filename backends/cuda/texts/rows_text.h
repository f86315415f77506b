// Kernels over rows, a block of kRowThreads each; behind element_prelude() in their text. T is what is
// computed with and, unless said otherwise, stored, float or double; sums join as trees, the same at each
// run.
#ifndef ISOCHRON_OPS_CUDA_ROWS_TEXT_H_
#define ISOCHRON_OPS_CUDA_ROWS_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// What the threads of a block have, folded: all get it.
template <typename Fold, typename T>
ISOCHRON_SCALAR T folded_by_block(T* parts, T own) {
  parts[threadIdx.x] = own;
  __syncthreads();
  for (unsigned half = kRowThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] = Fold::of(parts[threadIdx.x], parts[threadIdx.x + half]);
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

/// `gamma`, `beta`, `mean` and `scale` may be null. T is what is computed with; x and y may be stored in 16
/// bits.
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
    put(y + i, value);
  }
  if (threadIdx.x > 0) return;
  if (mean) *mean = average;
  if (scale) *scale = factor;
}

/// The gradient of the row; `gamma` may be null. x, g and dx may be stored in 16 bits.
template <typename T, bool kCentered, typename X, typename G, typename D>
ISOCHRON_SCALAR void layer_norm_gradient_row(const X* x, T mean, T scale, const G* g, const T* gamma, D* dx,
                                             unsigned n) {
  __shared__ T parts[kRowThreads];
  T sum = 0, dot = 0;
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) {
    const T weighted = gamma ? widen(g[i]) * gamma[i] : widen(g[i]);
    if (kCentered) sum += weighted;
    dot += weighted * ((widen(x[i]) - (kCentered ? mean : T(0))) * scale);
  }
  if (kCentered) sum = folded_by_block<SumOf>(parts, sum) / T(n);
  dot = folded_by_block<SumOf>(parts, dot) / T(n);
  for (unsigned i = threadIdx.x; i < n; i += kRowThreads) {
    const T weighted = gamma ? widen(g[i]) * gamma[i] : widen(g[i]);
    const T normal = (widen(x[i]) - (kCentered ? mean : T(0))) * scale;
    put(dx + i, scale * (weighted - sum - normal * dot));
  }
}

/// Sums the rows of `updates` (count x inner) whose index is that of row `j`, in their order, if j is the
/// first of them: each row of `sums` is one block's. Sums run in `Sum`.
template <typename Sum, typename T, typename Index>
ISOCHRON_SCALAR void scatter_add_row(const T* updates, const Index* indices, T* sums, unsigned count,
                                     unsigned extent, unsigned j, unsigned long long inner) {
  __shared__ unsigned matches[kRowThreads];
  const Index index = indices[j];
  unsigned earlier = 0;
  for (unsigned i = threadIdx.x; i < j; i += kRowThreads) earlier |= indices[i] == index;
  if (folded_by_block<MaximumOf>(matches, earlier)) return;
  T* const to = sums + checked_index(index, extent, "scatter_add") * inner;
  for (unsigned long long columns = 0; columns < inner; columns += kRowThreads) {
    const unsigned long long c = columns + threadIdx.x;
    Sum sum = 0;
    for (unsigned begin = j; begin < count; begin += kRowThreads) {
      const unsigned i = begin + threadIdx.x;
      matches[threadIdx.x] = i < count && indices[i] == index;
      __syncthreads();
      for (unsigned m = 0; m < kRowThreads && c < inner; ++m) {
        if (matches[m]) sum += widen(updates[(begin + m) * inner + c]);
      }
      __syncthreads();
    }
    if (c < inner) to[c] = Store<T>::of(sum);
  }
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
