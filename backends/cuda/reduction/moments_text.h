// Mean and variance of columns in one reading of (rows, columns); behind element_prelude() in their text. T
// is what is computed with, float or double. A thread sums distances from its first number, so that little is
// lost where the mean is large beside the deviation; threads and blocks join what they have in one order
// (Chan et al. 1979, "Updating formulae and a pairwise algorithm for computing sample variances").
#ifndef ISOCHRON_OPS_CUDA_MOMENTS_TEXT_H_
#define ISOCHRON_OPS_CUDA_MOMENTS_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// Of `count` numbers: their mean, and the sum of the squares of their distances from it.
template <typename T>
struct MomentsOf {
  T count, mean, squares;

  ISOCHRON_INLINE void join(const MomentsOf& other) {
    if (other.count == T(0)) return;
    const T all = count + other.count, share = other.count / all, distance = other.mean - mean;
    mean = ScalarMath<T>::mul_add(distance, share, mean);
    squares += ScalarMath<T>::mul_add(distance * distance, count * share, other.squares);
    count = all;
  }
};

/// What the kAlong threads of each column have, joined: the first of them has all.
template <unsigned kAlong, typename T>
ISOCHRON_SCALAR void join_threads(MomentsOf<T>* parts, MomentsOf<T> own, unsigned along, unsigned across) {
  MomentsOf<T>& mine = parts[across * kAlong + along];
  mine = own;
  __syncthreads();
  for (unsigned half = kAlong / 2; half > 0; half /= 2) {
    if (along < half) mine.join(parts[across * kAlong + along + half]);
    __syncthreads();
  }
}

/// A block has kRowThreads / kAlong columns, whose rows gridDim.y blocks share. `left` (gridDim.y, columns):
/// for what each of those has; `done`: counts them, a number a block of columns, 0 before and after.
template <unsigned kAlong, typename T, typename S, typename M>
ISOCHRON_SCALAR void column_moments(const S* x, unsigned rows, unsigned columns, M* mean, M* variance,
                                    MomentsOf<T>* left, unsigned* done) {
  constexpr unsigned kAcross = kRowThreads / kAlong;
  __shared__ MomentsOf<T> parts[kRowThreads];
  __shared__ bool last;
  const unsigned along = threadIdx.x / kAcross, across = threadIdx.x % kAcross;
  const unsigned column = blockIdx.x * kAcross + across, first = blockIdx.y * kAlong + along;
  MomentsOf<T> own = {0, 0, 0};
  if (column < columns && first < rows) {
    const T base = widen(x[first * static_cast<unsigned long long>(columns) + column]);
    T sum = 0;
    ISOCHRON_UNROLL_BY(8)
    for (unsigned row = first; row < rows; row += kAlong * gridDim.y) {
      const T distance = widen(x[row * static_cast<unsigned long long>(columns) + column]) - base;
      sum += distance;
      own.squares = ScalarMath<T>::mul_add(distance, distance, own.squares);
      own.count += T(1);
    }
    own.mean = base + sum / own.count;
    own.squares = MaximumOf::of(own.squares - sum * (sum / own.count), T(0));
  }
  join_threads<kAlong>(parts, own, along, across);
  if (gridDim.y > 1) {
    if (along == 0 && column < columns)
      left[blockIdx.y * static_cast<unsigned long long>(columns) + column] = parts[across * kAlong];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(done + blockIdx.x, 1u) == gridDim.y - 1;
    __syncthreads();
    if (!last) return;
    if (threadIdx.x == 0) done[blockIdx.x] = 0;
    own = {0, 0, 0};
    for (unsigned part = along; column < columns && part < gridDim.y; part += kAlong) {
      const volatile MomentsOf<T>& other = left[part * static_cast<unsigned long long>(columns) + column];
      own.join({other.count, other.mean, other.squares});
    }
    join_threads<kAlong>(parts, own, along, across);
  }
  if (along > 0 || column >= columns) return;
  const MomentsOf<T>& all = parts[across * kAlong];
  if (mean) put(mean + column, all.mean);
  if (variance) put(variance + column, all.squares / all.count);
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
