// Fingerprint: a hash (core/base/hash.h) of what describes a dataset. It shows whether a state or snapshot
// belongs to another dataset.
#pragma once

#include <cstdint>
#include <string_view>

#include "isochron/core/base/hash.h"

namespace isochron::data {

class Fingerprint {
 public:
  Fingerprint& add(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash_ = hash_more(hash_, static_cast<unsigned char>(value >> shift));
    }
    return *this;
  }
  Fingerprint& add(int64_t value) { return add(static_cast<uint64_t>(value)); }
  Fingerprint& add(std::string_view text) {
    add(static_cast<uint64_t>(text.size()));
    hash_ = hash_more(hash_, text);
    return *this;
  }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = kHashOfNothing;
};

}  // namespace isochron::data
