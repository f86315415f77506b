// Copies a tensor to another one that may share its memory.
#pragma once

#include <cstddef>
#include <cstring>

namespace isochron::ops {

/// Does nothing if both are the same memory or there is nothing to copy.
inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace isochron::ops
