// Memory of a kernel's thread, given out in parts.
#pragma once

#include <cstddef>
#include <cstdint>

namespace isochron::ops {

/// Parts of `memory`, one after the other, each aligned to a cache line.
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

}  // namespace isochron::ops
