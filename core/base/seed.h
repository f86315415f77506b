// The seed of the process, set by `random::set_seed` (ops/random/random.h). Code that draws random numbers
// and has no seed of its own uses a stream derived from it; docs/reproducibility.md lists these streams.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

namespace isochron {

struct ProcessSeed {
  uint64_t value = 0;
  uint64_t calls = 0;  // calls of set_process_seed so far; 0: no seed was set
};
/// The seed that this thread has set, if it isn't the main thread and has set one; otherwise the seed that
/// any thread has set last.
ProcessSeed process_seed();
/// For `random::set_seed`. Any thread may call it.
void set_process_seed(uint64_t seed);
bool is_main_thread();
/// Whether this thread isn't the main thread and has set a seed.
bool thread_has_seed();

/// A seed for the stream of this name; streams of different names or seeds are independent.
uint64_t derived_seed(uint64_t seed, std::string_view stream);
/// The seed of the stream of this name: derived from the seed of the process, or 0 if no seed was set.
uint64_t default_seed(std::string_view stream);

/// While it exists, random ops of this thread that name no generator draw the numbers that belong to one
/// dataset element. These are the same whichever thread makes the element and however many elements are made
/// ahead.
class ElementDraws {
 public:
  /// The stage that makes the element, its branch of the pipeline (data/element/branch.h), the epoch, and the
  /// element's number in that stage.
  ElementDraws(uint64_t stage, uint64_t branch, uint64_t epoch, uint64_t element)
      : stage_(stage),
        branch_(branch),
        epoch_(epoch),
        element_(element),
        outer_(std::exchange(t_current, this)) {}
  ElementDraws(const ElementDraws&) = delete;
  ElementDraws& operator=(const ElementDraws&) = delete;
  ~ElementDraws() { t_current = outer_; }
  /// The innermost ElementDraws of this thread; null if there is none.
  static const ElementDraws* current() { return t_current; }
  /// The element's seed, derived from the seed of the process. Computed at each call, because few maps draw
  /// random numbers.
  uint64_t seed() const;
  uint64_t branch() const { return branch_; }
  /// Whether this is the first call.
  bool first_draw() const { return std::exchange(first_, false); }

 private:
  inline static constinit thread_local const ElementDraws* t_current = nullptr;

  uint64_t stage_, branch_, epoch_, element_;
  const ElementDraws* outer_;
  mutable bool first_ = true;
};

}  // namespace isochron
