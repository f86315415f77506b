// Kernels of the debugging ops. Comes after rows_text.h in the compiled source.
#ifndef ISOCHRON_OPS_CUDA_DEBUG_TEXT_H_
#define ISOCHRON_OPS_CUDA_DEBUG_TEXT_H_

/// A part of a line on standard output.
#ifdef __CUDACC_RTC__
#define ISOCHRON_PRINT(...) printf(__VA_ARGS__)
#else
#define ISOCHRON_PRINT(...) __builtin_printf(__VA_ARGS__)
#endif

namespace isochron {
namespace ops {
namespace element {

/// The elements that are NaN or infinite: the first of them, and their number.
struct NotFinite {
  unsigned long long first, count;
};
struct AllNotFinite {
  ISOCHRON_SCALAR NotFinite of(NotFinite a, NotFinite b) {
    return {b.first < a.first ? b.first : a.first, a.count + b.count};
  }
};

/// Copies the block's elements of `x`, unless `y` is the same memory. Returns those that aren't finite.
template <typename T>
ISOCHRON_SCALAR NotFinite copy_and_look(const T* x, T* y, unsigned long long elems) {
  __shared__ NotFinite parts[kRowThreads];
  NotFinite own = {elems, 0};
  const unsigned long long stride = gridDim.x * static_cast<unsigned long long>(kRowThreads);
  for (unsigned long long i = blockIdx.x * static_cast<unsigned long long>(kRowThreads) + threadIdx.x;
       i < elems; i += stride) {
    const T element = x[i];
    if (x != y) y[i] = element;
    const auto number = widen(element);
    if (!(number - number == 0)) own = AllNotFinite::of(own, {i, 1});
  }
  return folded_by_block<AllNotFinite>(parts, own);
}

/// Combines the findings of `count` blocks.
ISOCHRON_SCALAR NotFinite found_by_blocks(const NotFinite* found, unsigned count, unsigned long long elems) {
  __shared__ NotFinite parts[kRowThreads];
  NotFinite own = {elems, 0};
  for (unsigned i = threadIdx.x; i < count; i += kRowThreads) own = AllNotFinite::of(own, found[i]);
  return folded_by_block<AllNotFinite>(parts, own);
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
