// Room that is resident from the beginning: what is only reserved becomes so page by page as it is filled,
// and looks like memory that grows.
#pragma once

#include <cstddef>
#include <string>

namespace isochron {

/// As text.reserve(bytes), and touches it.
inline void reserve_resident(std::string& text, size_t bytes) {
  if (text.capacity() >= bytes) return;
  const size_t size = text.size();
  text.resize(bytes);
  text.resize(size);
}

}  // namespace isochron
