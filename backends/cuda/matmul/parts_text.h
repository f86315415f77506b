// Adds up sums that were computed in parts (split-K). Comes after element_prelude() in the compiled source.
#ifndef ISOCHRON_OPS_CUDA_PARTS_TEXT_H_
#define ISOCHRON_OPS_CUDA_PARTS_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// The sums of `count` consecutive parts of `elems` elements each: `c(i, sum)` receives them. A block of
/// kPartThreads has kPartThreads / kSlices elements; its slices, of every kSlices-th part, are added in their
/// order.
template <unsigned kSlices, typename Sum, typename C>
ISOCHRON_SCALAR void add_parts(const Sum* parts, unsigned count, unsigned long long elems, const C& c) {
  constexpr unsigned kElems = kPartThreads / kSlices;
  __shared__ Sum slices[kSlices][kElems];
  const unsigned x = threadIdx.x % kElems, y = threadIdx.x / kElems;
  const unsigned long long i = blockIdx.x * static_cast<unsigned long long>(kElems) + x;
  Sum sum = 0;
  if (i < elems) {
    for (unsigned part = y; part < count; part += kSlices) sum += parts[part * elems + i];
  }
  slices[y][x] = sum;
  __syncthreads();
  if (y > 0 || i >= elems) return;
  for (unsigned slice = 1; slice < kSlices; ++slice) sum += slices[slice][x];
  c(i, sum);
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
