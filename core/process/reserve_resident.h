// Makes reserved memory resident at once. Otherwise it becomes resident page by page as it is filled, which
// looks like growth.
#pragma once

#include <cstddef>
#include <string>

namespace isochron {

/// Like text.reserve(bytes), but also touches the memory.
inline void reserve_resident(std::string& text, size_t bytes) {
  if (text.capacity() >= bytes) return;
  const size_t size = text.size();
  text.resize(bytes);
  text.resize(size);
}

}  // namespace isochron
