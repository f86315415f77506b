// FNV-1a: a hash of 64 bits for telling things apart, not for keeping anybody out. Its values are kept in
// files, so it stays as it is.
#pragma once

#include <cstdint>
#include <string_view>

namespace isochron {

inline constexpr uint64_t kHashOfNothing = 0xcbf29ce484222325u;

/// The hash of what `hash` is of, followed by `byte`.
constexpr uint64_t hash_more(uint64_t hash, unsigned char byte) { return (hash ^ byte) * 0x100000001b3u; }
constexpr uint64_t hash_more(uint64_t hash, std::string_view text) {
  for (char c : text) hash = hash_more(hash, static_cast<unsigned char>(c));
  return hash;
}

}  // namespace isochron
