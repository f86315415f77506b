// Counts every heap allocation of the process: malloc and its relatives, and through them operator new.
// Linking count_allocations.cc into a program interposes them; under a sanitizer, which has an allocator of
// its own, nothing is counted.
#pragma once

#include <cstdint>

namespace isochron {

/// False under a sanitizer.
bool allocations_counted();
/// Calls of malloc, calloc, realloc, aligned_alloc, posix_memalign and memalign since the program began, on
/// all threads.
int64_t allocation_count();
/// While set, an allocation prints a backtrace address list and aborts: to find the one that a count shows.
void abort_on_allocation(bool on);

}  // namespace isochron
