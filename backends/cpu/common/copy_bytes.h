// Copying from a tensor to one that may be written over it.
#pragma once

#include <cstddef>
#include <cstring>

namespace isochron::ops {

/// Nothing where they are the same memory, or there is nothing to copy.
inline void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

}  // namespace isochron::ops
