// Mean and variance of the columns of a (rows, columns) tensor in one pass. Comes after element_prelude() in
// the compiled source. T is the type of computation, float or double. A thread sums differences from its
// first number, which stays accurate if the mean is large compared with the deviation. Threads and blocks
// combine their results in a fixed order (Chan et al. 1979, "Updating formulae and a pairwise algorithm for
// computing sample variances").
#ifndef ISOCHRON_OPS_CUDA_MOMENTS_TEXT_H_
#define ISOCHRON_OPS_CUDA_MOMENTS_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// The moments of `count` numbers: their mean, and the sum of squared deviations from it.
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

/// Combines the moments of the kAlong threads of each column; the first of them gets the result.
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

/// A block has kRowThreads / kAlong columns, whose rows are divided among gridDim.y blocks. `left`
/// (gridDim.y, columns) holds the result of each of these. `done` counts the finished ones, with one number
/// per block of columns; it is 0 before and after.
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
