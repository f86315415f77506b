// The resident set by owner: every resident byte of the process is assigned to one owner. The data come from
// the mappings of the process (/proc/self/smaps), from malloc's statistics, and from the caller's allocators.
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isochron::observe {

/// The memory of the caller's allocators, in bytes. The caller supplies it because `observe` doesn't depend
/// on `memory`.
struct OwnMemory {
  int64_t planned = 0;   // plans' arenas, in use
  int64_t in_use = 0;    // all memory in use, including arenas
  int64_t reserved = 0;  // held from the system
  int64_t mapped = 0;    // part of `reserved` in separate, resident mappings; the rest comes from malloc
};

/// Resident bytes; each byte is counted once.
struct ResidentSet {
  int64_t total = 0;           // as the system counts it
  int64_t planned = 0;         // plans' arenas
  int64_t tensors = 0;         // other memory of our allocators that is in use
  int64_t pool_slack = 0;      // held by our allocators and not in use
  int64_t heap = 0;            // malloc's, in use
  int64_t heap_slack = 0;      // malloc's, free
  int64_t program = 0;         // code and data of the program and its libraries
  int64_t generated_code = 0;  // code that was generated at run time
  int64_t mapped_files = 0;    // data files mapped, shared memory
  int64_t stacks = 0;          // of all threads
  int64_t device = 0;          // memory of an accelerator that is part of the host's memory; 0 on a CPU
  int64_t unexplained = 0;     // the rest; negative if owners claim more than is resident (swapped out)

  bool operator==(const ResidentSet&) const = default;
};

/// A part of a ResidentSet: its name in JSON, its description for people, and the member. resident_parts()
/// returns all parts except `total`, in order.
struct ResidentPart {
  std::string_view name;
  std::string_view words;
  int64_t ResidentSet::*bytes;
};
const std::vector<ResidentPart>& resident_parts();

/// malloc's statistics (mallinfo2).
struct HeapTotals {
  int64_t in_use = 0;  // in its arenas
  int64_t mapped = 0;  // in mappings of their own
};

/// Reads the resident set. Takes 1 to 5 ms (1.2 ms with 90 MB resident), and allocates. All 0 if
/// /proc/self/smaps is missing.
ResidentSet read_resident_set(const OwnMemory& own);

namespace internal {
/// The same for a given text of smaps. `resident(begin, end)` returns the number of resident bytes of a part
/// of a mapping. `stack_bytes`: the maximum size of a thread's stack.
ResidentSet reconcile(std::istream& smaps, const OwnMemory& own, const HeapTotals& heap, uint64_t stack_bytes,
                      const std::function<int64_t(uint64_t begin, uint64_t end)>& resident);
}  // namespace internal

}  // namespace isochron::observe
