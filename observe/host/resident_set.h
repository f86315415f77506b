// The resident set by owner, so that every byte that the system counts for the process has a name: read off
// the mappings of the process (/proc/self/smaps) and off what malloc and the caller's own allocators say of
// themselves.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isochron::observe {

/// What the caller's allocators hold. Bytes; `observe` can't ask them itself.
struct OwnMemory {
  int64_t planned = 0;   // plans' arenas, in use
  int64_t in_use = 0;    // all that is handed out, arenas included
  int64_t reserved = 0;  // held from the system
  int64_t mapped = 0;    // of these, in mappings of their own, which are resident; the rest comes from malloc
};

/// Bytes, all of them resident and none counted twice.
struct ResidentSet {
  int64_t total = 0;           // as the system counts it
  int64_t planned = 0;         // plans' arenas
  int64_t tensors = 0;         // other memory of our allocators that is in use
  int64_t pool_slack = 0;      // held by our allocators and not in use
  int64_t heap = 0;            // malloc's, in use
  int64_t heap_slack = 0;      // malloc's, free
  int64_t program = 0;         // code and data of the program and its libraries
  int64_t generated_code = 0;  // made while running
  int64_t mapped_files = 0;    // data files mapped, shared memory
  int64_t stacks = 0;          // of all threads
  int64_t device = 0;          // of an accelerator that lies in the host's memory: none on a CPU
  int64_t unexplained = 0;     // the rest; below 0 where owners claim more than there is (swapped out)

  bool operator==(const ResidentSet&) const = default;
};

/// Name, as in the JSON, words for people, and member of each part of a ResidentSet, in order, but for
/// `total`.
struct ResidentPart {
  std::string_view name;
  std::string_view words;
  int64_t ResidentSet::*bytes;
};
const std::vector<ResidentPart>& resident_parts();

/// What malloc says of itself (mallinfo2).
struct HeapTotals {
  int64_t in_use = 0;  // in its arenas
  int64_t mapped = 0;  // in mappings of their own
};

/// Reads all of it, in 1 to 5 ms (1.2 with 90 MB resident); allocates. All zero where there is no smaps.
ResidentSet read_resident_set(const OwnMemory& own);

namespace internal {
/// The same of a given text of smaps. `resident(begin, end)` tells how many bytes of a part of a mapping are
/// resident; `stack_bytes` is how long a thread's stack may become.
ResidentSet reconcile(std::istream& smaps, const OwnMemory& own, const HeapTotals& heap, uint64_t stack_bytes,
                      const std::function<int64_t(uint64_t begin, uint64_t end)>& resident);
}  // namespace internal

}  // namespace isochron::observe
