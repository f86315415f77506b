// Counts every allocation of the process by interposing malloc and its relatives, and tells sealed sections
// (core/telemetry/sealed.h) of allocations, threads and file handles (pthread_create, open and its
// relatives). Linked into the command and into tests that need it, never into the library; absent under
// sanitizers, which interpose themselves. A user's program has it by linking isochron::allocation_counter and
// calling allocations_counted().
#pragma once

#include <cstdint>

namespace isochron {

/// False under sanitizers: then the counts stay 0 and mean nothing.
bool allocations_counted();
/// Number of blocks allocated so far, on all threads. Allocations inside calls of other libraries
/// (core/base/library_call.h) are not counted.
int64_t heap_allocations();
int64_t library_allocations();
/// While set, any allocation that isn't a library's prints a backtrace and aborts. Use this to find the
/// allocation that a count shows.
void abort_on_allocation(bool on);

}  // namespace isochron
