// Interpolation along an axis. Comes after interpolation_weights.h and rows_text.h in the compiled source. A
// table has room for `width` weights per interpolated element.
#ifndef ISOCHRON_OPS_CUDA_INTERPOLATION_TEXT_H_
#define ISOCHRON_OPS_CUDA_INTERPOLATION_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// `count` elements from `begin` on.
struct Span {
  unsigned begin, count;
};

/// Row `r` of a table, by one thread.
template <typename S>
ISOCHRON_SCALAR void write_weights(const InterpolationAxis& axis, long long r, unsigned width, Span* spans,
                                   S* weights) {
  const InterpolationRow row = axis.row(r);
  spans[r] = {static_cast<unsigned>(row.begin), static_cast<unsigned>(row.count)};
  for (long long k = 0; k < row.count; ++k) weights[r * width + k] = static_cast<S>(axis.weight(row, k));
}

/// The block's row of a table, whose weights sum to 1.
template <typename S>
ISOCHRON_SCALAR void write_normalized_weights(const InterpolationAxis& axis, unsigned width, Span* spans,
                                              S* weights) {
  __shared__ double parts[kRowThreads];
  const long long r = blockIdx.x;
  const InterpolationRow row = axis.row(r);
  double total = 0;
  for (long long k = threadIdx.x; k < row.count; k += kRowThreads) total += axis.weight(row, k);
  total = folded_by_block<SumOf>(parts, total);
  for (long long k = threadIdx.x; k < row.count; k += kRowThreads)
    weights[r * width + k] = static_cast<S>(axis.weight(row, k) / total);
  if (threadIdx.x == 0) spans[r] = {static_cast<unsigned>(row.begin), static_cast<unsigned>(row.count)};
}

/// The first of `rows` spans that ends behind element `e`, or that begins behind it; neither ever decreases.
ISOCHRON_SCALAR unsigned first_behind(const Span* spans, unsigned rows, unsigned e, bool begins) {
  unsigned low = 0, high = rows;
  while (low < high) {
    const unsigned middle = low + (high - low) / 2;
    if (spans[middle].begin + (begins ? 0 : spans[middle].count) > e) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Which rows take from element `e`.
ISOCHRON_SCALAR Span rows_that_take(const Span* spans, unsigned rows, unsigned e) {
  const unsigned begin = first_behind(spans, rows, e, false);
  return {begin, first_behind(spans, rows, e, true) - begin};
}

/// From elements at `x`, `inner` apart.
template <typename S, typename T>
ISOCHRON_SCALAR S interpolated(const T* x, unsigned long long inner, Span span, const S* weights) {
  S sum = 0;
  for (unsigned k = 0; k < span.count; ++k) sum += weights[k] * widen(x[(span.begin + k) * inner]);
  return sum;
}

/// What goes back to element `e`, from the rows that take from it.
template <typename S, typename T>
ISOCHRON_SCALAR S interpolated_back(const T* x, unsigned long long inner, unsigned e, Span rows,
                                    const Span* spans, unsigned width, const S* weights) {
  S sum = 0;
  for (unsigned r = rows.begin; r < rows.begin + rows.count; ++r)
    sum += weights[static_cast<unsigned long long>(r) * width + (e - spans[r].begin)] * widen(x[r * inner]);
  return sum;
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
