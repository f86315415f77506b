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

/// While it lives, random ops of this thread that name no generator draw the numbers of one element of a
/// dataset: whichever thread makes the element, and however many are made ahead, they are the same.
class ElementDraws {
 public:
  /// The stage that makes the element, the epoch, and the element's number in that stage.
  ElementDraws(uint64_t stage, uint64_t epoch, uint64_t element);
  ElementDraws(const ElementDraws&) = delete;
  ElementDraws& operator=(const ElementDraws&) = delete;
  ~ElementDraws();
  /// The innermost of this thread; null outside.
  static const ElementDraws* current();
  /// Of the element; derived from the seed of the process.
  uint64_t seed() const { return seed_; }
  /// Another one for each object of this class on this thread, from 1.
  uint64_t number() const { return number_; }

 private:
  uint64_t seed_;
  uint64_t number_;
  const ElementDraws* outer_;
};

}  // namespace isochron
