// a[i] += b[i] over bytes. All sums over ranks and micro-batches use this addition.
#pragma once

#include <cstddef>

namespace isochron::comm {

/// `bytes` is a multiple of sizeof(T). The arrays don't overlap.
template <typename T>
void add_numbers(std::byte* a, const std::byte* b, size_t bytes) {
  T* const __restrict to = reinterpret_cast<T*>(a);
  const T* const __restrict from = reinterpret_cast<const T*>(b);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) to[i] += from[i];
}

}  // namespace isochron::comm
