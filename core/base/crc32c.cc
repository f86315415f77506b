#include "isochron/core/base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <climits>

namespace isochron {

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min<size_t>(bytes.size(), INT_MAX));
    // The function only reads; its declaration lacks the const.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data()));
    crc = crc32_iscsi(data, static_cast<int>(piece.size()), crc);
    bytes = bytes.subspan(piece.size());
  }
  return ~crc;
}

}  // namespace isochron
