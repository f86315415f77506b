// The memory that all pipelines of the process may hold together (finished elements, buffers with their
// handles, shuffles' buffers, what map functions make on the pipelines' threads, caches), and what a call
// that reads a whole file may take: a few megabytes of a compressed file can become gigabytes.
//
// Not counted: what the system keeps of files that are read (the page cache, which it gives up when memory is
// short), readers' buffers of fixed size, tensors once they are given, states while they are written, and the
// threads' stacks.
#pragma once

#include <cstddef>
#include <utility>

#include "isochron/memory/allocators/allocator.h"

namespace isochron::data {

/// A quarter of the memory that was free when it was first asked for (limits of the control group respected),
/// unless `set_memory_budget` or the environment's ISOCHRON_MEMORY_BUDGET (bytes, or as 512MB and 8GiB) said
/// otherwise. Throws kInvalidArgument for a variable that says something else.
size_t memory_budget_bytes();
/// From now on; what is held already stays. A pipeline or reader that would exceed it throws kOutOfMemory.
void set_memory_budget(size_t bytes);
/// Held by pipelines now.
size_t memory_in_use_bytes();

/// Where pipelines take their memory from. Throws kOutOfMemory beyond the budget.
Allocator& pipeline_allocator();

/// Memory that doesn't come from `pipeline_allocator` and counts as if it did; given back with the object.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  explicit MemoryCharge(size_t bytes) { add(bytes); }
  MemoryCharge(MemoryCharge&& other) noexcept : bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryCharge& operator=(MemoryCharge&&) = delete;
  ~MemoryCharge();
  /// Throws kOutOfMemory beyond the budget, and then nothing has changed.
  void add(size_t bytes);

 private:
  size_t bytes_ = 0;
};

/// What a reader holds while it reads a file into memory, counted before it is asked for; given back with the
/// object, when the caller has the result. Allocates nothing.
class ReadMemory {
 public:
  /// `where`: the file, for messages; `instead`: what reads such a file piece by piece, empty where nothing
  /// does. Both must outlive the object.
  explicit ReadMemory(std::string_view where, std::string_view instead = {})
      : where_(where), instead_(instead) {}
  ReadMemory(const ReadMemory&) = delete;
  ReadMemory& operator=(const ReadMemory&) = delete;
  ~ReadMemory();
  /// From now on so many bytes in all. Throws kOutOfMemory beyond the budget, and then nothing has changed.
  void hold(size_t bytes);
  /// So many more. Throws as `hold`.
  void add(size_t bytes);

 private:
  std::string_view where_, instead_;
  size_t bytes_ = 0;
};

/// What a block of the heap takes beside its content.
inline constexpr size_t kHeapBlockBytes = 16;

/// Memory that this process could still take: what the system has available, or what the control group
/// leaves, whichever is less.
size_t available_memory_bytes();

}  // namespace isochron::data
