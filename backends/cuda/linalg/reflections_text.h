// QR factorization by Householder reflections, by the kRowThreads threads of a block. Comes after
// matrix_text.h. The reflections of a panel are applied together, as 1 - V T V^T (the compact WY form of
// Schreiber and Van Loan, 1989).
#ifndef ISOCHRON_OPS_CUDA_REFLECTIONS_TEXT_H_
#define ISOCHRON_OPS_CUDA_REFLECTIONS_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// The working memory of the factorization of a matrix (m, n).
template <typename T>
struct Reflections {
  Strided<T> v;         // (m, kPanel)
  Strided<T> t, gram;   // (kPanel, kPanel)
  Strided<T> products;  // (kPanel, n)
  Strided<T> more;      // (kPanel, n)
  T* factors;           // of all reflections

  /// Lays the members out in `scratch`, which has kPanel (m + 2 kPanel + 2 n) + min(m, n) elements
  /// (prepare_qr_cuda in linalg.cc).
  ISOCHRON_SCALAR Reflections in(T* scratch, unsigned m, unsigned n) {
    Reflections r;
    r.v = {scratch, kPanel, 1};
    r.t = {r.v.at + static_cast<unsigned long long>(m) * kPanel, kPanel, 1};
    r.gram = {r.t.at + kPanel * kPanel, kPanel, 1};
    r.products = {r.gram.at + kPanel * kPanel, n, 1};
    r.more = {r.products.at + static_cast<unsigned long long>(n) * kPanel, n, 1};
    r.factors = r.more.at + static_cast<unsigned long long>(n) * kPanel;
    return r;
  }
};

/// The reflection of the first column of A (rows, any): its first element becomes beta, what is below the
/// vector behind its leading 1. Returns its factor, 0 where there is nothing to reflect. Waits for what was
/// written of the column before.
template <typename T>
ISOCHRON_SCALAR T make_reflection(double* parts, Strided<T> a, unsigned rows) {
  __syncthreads();
  const double alpha = *a.at;
  double largest = 0;
  for (unsigned i = 1 + threadIdx.x; i < rows; i += kRowThreads)
    largest = MaximumOf::of(largest, ScalarMath<double>::abs(a(i, 0)));
  largest = folded_by_block<MaximumOf>(parts, largest);
  if (largest == 0) return 0;
  // Squares of what is divided by the scale neither overflow nor vanish.
  const double scale = MaximumOf::of(largest, ScalarMath<double>::abs(alpha)), first = alpha / scale;
  double squares = 0;
  for (unsigned i = 1 + threadIdx.x; i < rows; i += kRowThreads) {
    const double x = a(i, 0) / scale;
    squares += x * x;
  }
  squares = folded_by_block<SumOf>(parts, squares) + first * first;
  const bool negative = alpha < 0 || (alpha == 0 && 1 / alpha < 0);
  const double length = scale * ScalarMath<double>::sqrt(squares), beta = negative ? length : -length;
  for (unsigned i = 1 + threadIdx.x; i < rows; i += kRowThreads)
    a(i, 0) = static_cast<T>(a(i, 0) / (alpha - beta));
  if (threadIdx.x == 0) *a.at = static_cast<T>(beta);
  return static_cast<T>((beta - alpha) / beta);
}

/// B (rows, columns) = H B, for at most kPanel columns and the reflection that `v` has behind its leading 1.
template <typename T>
ISOCHRON_SCALAR void reflect(T (&sums)[kPanelRows][kPanel], Strided<T> v, T factor, Strided<T> b,
                             unsigned rows, unsigned columns) {
  const unsigned lane = threadIdx.x % kPanel, group = threadIdx.x / kPanel;
  __syncthreads();
  if (lane < columns) {
    T sum = group == 0 ? b(0, lane) : T(0);
    for (unsigned i = 1 + group; i < rows; i += kPanelRows) sum += v(i, 0) * b(i, lane);
    sums[group][lane] = sum;
  }
  __syncthreads();
  if (lane >= columns) return;
  T sum = 0;
  for (unsigned g = 0; g < kPanelRows; ++g) sum += sums[g][lane];
  sum *= factor;
  if (group == 0) b(0, lane) -= sum;
  for (unsigned i = 1 + group; i < rows; i += kPanelRows) b(i, lane) -= sum * v(i, 0);
}

/// V and T of the reflections whose vectors lie below the diagonal of A (rows, count).
template <typename T>
ISOCHRON_SCALAR void join_reflections(MatrixTiles<T>& tiles, const Reflections<T>& r, Strided<T> a,
                                      unsigned rows, unsigned count, const T* factors) {
  __syncthreads();
  for (unsigned i = threadIdx.x / kPanel; i < rows; i += kPanelRows) {
    const unsigned c = threadIdx.x % kPanel;
    if (c < count) r.v(i, c) = i > c ? a(i, c) : T(i == c ? 1 : 0);
  }
  multiply(tiles, r.v.transposed(), r.v, r.gram, count, count, rows, false);
  __syncthreads();
  const unsigned p = threadIdx.x;
  for (unsigned c = 0; p < count && c < count; ++c) {
    T sum = 0;
    for (unsigned s = p; s < c; ++s) sum += r.t(p, s) * r.gram(s, c);
    r.t(p, c) = p < c ? -factors[c] * sum : (p == c ? factors[c] : T(0));
  }
}

/// B (rows, columns) = (1 - V T V^T) B, or with T^T.
template <typename T>
ISOCHRON_SCALAR void reflect_by_panel(MatrixTiles<T>& tiles, const Reflections<T>& r, bool transposed,
                                      Strided<T> b, unsigned rows, unsigned columns, unsigned count) {
  multiply(tiles, r.v.transposed(), b, r.products, count, columns, rows, false);
  multiply(tiles, transposed ? r.t.transposed() : r.t, r.products, r.more, count, columns, count, false);
  multiply(tiles, r.v, r.more, b, rows, columns, count, true);
}

/// A = Q R with LAPACK's signs, a (m, n) overwritten, q (m, k), r (k, n), k = min(m, n) > 0.
template <typename T>
ISOCHRON_SCALAR void factor_qr(MatrixTiles<T>& tiles, T* at, T* scratch, unsigned m, unsigned n, T* q_at,
                               T* r_at) {
  __shared__ double parts[kRowThreads];
  __shared__ T sums[kPanelRows][kPanel];
  const unsigned k = m < n ? m : n;
  const Strided<T> a = {at, n, 1}, q = {q_at, k, 1};
  const Reflections<T> reflections = Reflections<T>::in(scratch, m, n);
  for (unsigned first = 0; first < k; first += kPanel) {
    const unsigned count = k - first < kPanel ? k - first : kPanel, behind = first + count;
    for (unsigned c = first; c < behind; ++c) {
      const T factor = make_reflection(parts, a.from(c, c), m - c);
      if (threadIdx.x == 0) reflections.factors[c] = factor;
      if (factor != T(0) && c + 1 < behind)
        reflect(sums, a.from(c, c), factor, a.from(c, c + 1), m - c, behind - c - 1);
    }
    if (behind == n) break;
    join_reflections(tiles, reflections, a.from(first, first), m - first, count, reflections.factors + first);
    reflect_by_panel(tiles, reflections, true, a.from(first, behind), m - first, n - behind, count);
  }
  __syncthreads();
  for (unsigned i = threadIdx.x / kPanel; i < k; i += kPanelRows) {
    for (unsigned j = threadIdx.x % kPanel; j < n; j += kPanel)
      r_at[i * static_cast<unsigned long long>(n) + j] = j < i ? T(0) : a(i, j);
  }
  for (unsigned i = threadIdx.x / kPanel; i < m; i += kPanelRows) {
    for (unsigned j = threadIdx.x % kPanel; j < k; j += kPanel) q(i, j) = T(i == j ? 1 : 0);
  }
  for (unsigned end = k; end > 0;) {  // columns before a panel's are still those of the unit matrix
    const unsigned first = (end - 1) / kPanel * kPanel;
    join_reflections(tiles, reflections, a.from(first, first), m - first, end - first,
                     reflections.factors + first);
    reflect_by_panel(tiles, reflections, false, q.from(first, first), m - first, k - first, end - first);
    end = first;
  }
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
