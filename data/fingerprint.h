// Fingerprint: a hash (FNV-1a) of what describes a dataset, to tell another one's state or snapshot by.
#pragma once

#include <cstdint>
#include <string_view>

namespace isochron::data {

class Fingerprint {
 public:
  Fingerprint& add(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) hash_ = (hash_ ^ (value >> shift & 0xff)) * 0x100000001b3u;
    return *this;
  }
  Fingerprint& add(int64_t value) { return add(static_cast<uint64_t>(value)); }
  Fingerprint& add(std::string_view text) {
    add(static_cast<uint64_t>(text.size()));
    for (char c : text) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return *this;
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace isochron::data
