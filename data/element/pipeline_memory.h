// The memory budget: what all pipelines of the process may hold together (finished elements, buffers with
// their handles, shuffle buffers, memory that map functions allocate on the pipelines' threads, caches). It
// also limits a call that reads a whole file: a few megabytes of a compressed file can become gigabytes.
//
// Not counted: the system's page cache of files that are read (released when memory is short), readers'
// buffers of fixed size, tensors after they are returned to the caller, states while they are written, and
// the threads' stacks.
#pragma once

#include <cstddef>
#include <utility>

#include "isochron/memory/allocators/allocator.h"

namespace isochron::data {

/// The budget. By default, it is a quarter of the memory that was free at the first call (within the limits
/// of the control group). `set_memory_budget` or the environment variable ISOCHRON_MEMORY_BUDGET (a number of
/// bytes, or a size such as 512MB or 8GiB) sets another value. Throws kInvalidArgument if the variable has
/// any other form.
size_t memory_budget_bytes();
/// Sets the budget from now on; memory held already stays. A pipeline or reader that would exceed the budget
/// throws kOutOfMemory.
void set_memory_budget(size_t bytes);
/// The bytes that pipelines hold now.
size_t memory_in_use_bytes();

/// The allocator of pipelines. Throws kOutOfMemory beyond the budget.
Allocator& pipeline_allocator();

/// Memory that doesn't come from `pipeline_allocator` but counts as if it did. The destructor gives it back
/// to the budget.
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

/// The memory of a reader while it reads a file. It is counted before it is allocated. The destructor returns
/// it to the budget, when the caller has the result. Allocates nothing itself.
class ReadMemory {
 public:
  /// `where`: the file, for messages; `instead`: a way to read such a file piece by piece, empty if there is
  /// none. Both must outlive the object.
  explicit ReadMemory(std::string_view where, std::string_view instead = {})
      : where_(where), instead_(instead) {}
  ReadMemory(const ReadMemory&) = delete;
  ReadMemory& operator=(const ReadMemory&) = delete;
  ~ReadMemory();
  /// Sets the total to `bytes`. Throws kOutOfMemory beyond the budget; the total then stays as it was.
  void hold(size_t bytes);
  /// Adds `bytes` to the total. Throws like `hold`.
  void add(size_t bytes);

 private:
  std::string_view where_, instead_;
  size_t bytes_ = 0;
};

/// The overhead of a block on the heap.
inline constexpr size_t kHeapBlockBytes = 16;

/// Memory that this process could still take: what the system has available, or what the control group
/// leaves, whichever is less.
size_t available_memory_bytes();

}  // namespace isochron::data
