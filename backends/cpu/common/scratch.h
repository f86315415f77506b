// Memory helpers for a kernel's threads: scratch memory divided into parts, and prefetching of rows.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isochron::ops {

/// Divides memory into consecutive parts, each aligned to a cache line.
class Scratch {
 public:
  explicit Scratch(std::byte* memory) : at_(memory) {}
  template <typename T>
  T* take(int64_t count) {
    std::byte* const part = at_ + (-reinterpret_cast<uintptr_t>(at_) & 63);
    at_ = part + static_cast<size_t>(count) * sizeof(T);
    return reinterpret_cast<T*>(part);
  }

 private:
  std::byte* at_;
};

/// Prefetches a row of `count` elements that will be read soon. Useful if the row is so far from the previous
/// ones that the hardware prefetcher doesn't predict it.
template <typename E>
inline void fetch_row(const E* row, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(E);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(row + i, 0, 2);
}

}  // namespace isochron::ops
