// Counts every allocation of the process by interposing malloc and related functions. Reports allocations,
// new threads and opened files (pthread_create, open and related functions) to sealed sections
// (core/telemetry/sealed.h). It is linked into the command and into tests that need it, but not into the
// library. It is absent under sanitizers, which interpose the same functions. A user's program can link
// isochron::allocation_counter and call allocations_counted().
#pragma once

#include <cstdint>

namespace isochron {

/// False under sanitizers; the counts then stay 0 and have no meaning.
bool allocations_counted();
/// Number of blocks allocated so far, on all threads. Allocations inside calls of other libraries
/// (core/base/library_call.h) are not counted.
int64_t heap_allocations();
int64_t library_allocations();
/// While set, any allocation that isn't a library's prints a backtrace and aborts. Use this to find the
/// allocation that a count shows.
void abort_on_allocation(bool on);

}  // namespace isochron
