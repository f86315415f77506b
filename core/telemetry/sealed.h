// Sealed loops: after warm-up, it is an error if an iteration makes anything, and the error shows where the
// first object was made.
//
//   Seal seal;                               // after warm-up
//   for (int64_t step = 0; step < steps; ++step) {
//     {
//       SealedSection section(&seal);        // fetch, compute, read back
//       train(*batch);
//       ++batch;
//     }
//     seal.check("my loop", step);           // throws kSealed
//   }
//
// What counts: allocations (from our allocators, and from the heap), tensors, entries of gradient tapes,
// graph nodes, traces, plans, threads and file handles, made by the thread of the section or by the compute
// threads that work for it. Allocations that libraries such as oneDNN make inside their own calls
// (core/base/library_call.h) aren't counted, nor is anything that background threads make. The heap, threads
// and file handles are counted only if malloc, pthread_create and open are interposed
// (apps/allocation_counter.h), as in the command and in programs that link isochron::allocation_counter. The
// other kinds are always counted.
//
// A section costs two writes to thread-local memory. Outside a section, code that makes something tests one
// pointer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "isochron/core/text/stack_trace.h"

namespace isochron {

/// Kinds of objects, from the least to the most informative one: a trace, for example, also creates nodes,
/// tensors and allocations.
enum class Made : int { kAllocation, kTensor, kTapeEntry, kNode, kFile, kThread, kPlan, kTrace, kCount };
inline constexpr int kMadeCount = static_cast<int>(Made::kCount);

/// "heap allocation", "graph node", ...
std::string_view made_name(Made what);

/// Records what was made in sections, with a stack trace of the first object of each kind. Uses fixed memory,
/// allocated at construction.
class Seal {
 public:
  Seal();
  Seal(const Seal&) = delete;
  Seal& operator=(const Seal&) = delete;

  bool broken() const { return broken_.load(std::memory_order_relaxed); }
  /// Throws kSealed if anything was made in a section since the last check. The error names `where`, `step`,
  /// the kinds and their counts, and shows the stack trace of the first object of the most informative kind.
  /// Call this outside sections.
  void check(std::string_view where, int64_t step) {
    if (broken()) [[unlikely]]
      report(where, step);
  }

  /// Called by code that makes something, on any thread of a section.
  void note(Made what, size_t bytes, std::string_view tag) noexcept;

 private:
  struct Record {
    std::atomic<int64_t> count{0};
    std::atomic<int64_t> bytes{0};
    size_t first_bytes = 0;
    std::array<char, 32> first_tag{};
    StackTrace first;
  };
  [[noreturn]] void report(std::string_view where, int64_t step);

  std::atomic<bool> broken_{false};
  std::array<Record, kMadeCount> records_;
};

namespace internal {
inline thread_local Seal* t_seal = nullptr;
void note_made(Made what, size_t bytes, std::string_view tag) noexcept;
}  // namespace internal

/// Called by code that makes something. `tag`: what an allocation is for.
inline void note_made(Made what, size_t bytes = 0, std::string_view tag = {}) noexcept {
  if (internal::t_seal != nullptr) [[unlikely]]
    internal::note_made(what, bytes, tag);
}

/// While a SealedSection exists, anything that this thread makes breaks `seal`. If `seal` is null, nothing is
/// checked.
class [[nodiscard]] SealedSection {
 public:
  explicit SealedSection(Seal* seal) : outer_(internal::t_seal) { internal::t_seal = seal; }
  ~SealedSection() { internal::t_seal = outer_; }
  SealedSection(const SealedSection&) = delete;
  SealedSection& operator=(const SealedSection&) = delete;

 private:
  Seal* outer_;
};

/// A scope within a section for work that may allocate (callbacks, logs, checkpoints).
class [[nodiscard]] UnsealedScope {
 public:
  UnsealedScope() : section_(nullptr) {}

 private:
  SealedSection section_;
};

}  // namespace isochron
