// The seed of the process: `random::set_seed` (ops/random/random.h) gives it, and whatever draws random
// numbers and has no seed of its own takes a stream derived from it: docs/reproducibility.md lists them.
#pragma once

#include <cstdint>
#include <string_view>

namespace isochron {

struct ProcessSeed {
  uint64_t value = 0;
  uint64_t calls = 0;  // of set_process_seed so far; 0: nobody gave a seed
};
ProcessSeed process_seed();
/// For `random::set_seed`. Any thread.
void set_process_seed(uint64_t seed);

/// A seed for the stream of this name; streams of different names or seeds are independent.
uint64_t derived_seed(uint64_t seed, std::string_view stream);
/// What the stream of this name begins with: derived from the seed of the process, or 0 where nobody gave
/// one.
uint64_t default_seed(std::string_view stream);

}  // namespace isochron
