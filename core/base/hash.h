// FNV-1a: a 64-bit hash to distinguish data, not for security. Its values are stored in files, so it must not
// change.
#pragma once

#include <cstdint>
#include <string_view>

namespace isochron {

inline constexpr uint64_t kHashOfNothing = 0xcbf29ce484222325u;

/// Extends `hash`, the hash of some bytes, by `byte`.
constexpr uint64_t hash_more(uint64_t hash, unsigned char byte) { return (hash ^ byte) * 0x100000001b3u; }
constexpr uint64_t hash_more(uint64_t hash, std::string_view text) {
  for (char c : text) hash = hash_more(hash, static_cast<unsigned char>(c));
  return hash;
}

}  // namespace isochron
