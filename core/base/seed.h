// The seed of the process, set by `random::set_seed` (ops/random/random.h). Code that draws random numbers
// and has no seed of its own uses a stream derived from it; docs/reproducibility.md lists these streams.
#pragma once

#include <cstdint>
#include <string_view>

namespace isochron {

struct ProcessSeed {
  uint64_t value = 0;
  uint64_t calls = 0;  // calls of set_process_seed so far; 0: no seed was set
};
ProcessSeed process_seed();
/// For `random::set_seed`. Any thread may call it.
void set_process_seed(uint64_t seed);

/// A seed for the stream of this name; streams of different names or seeds are independent.
uint64_t derived_seed(uint64_t seed, std::string_view stream);
/// The seed of the stream of this name: derived from the seed of the process, or 0 if no seed was set.
uint64_t default_seed(std::string_view stream);

}  // namespace isochron
