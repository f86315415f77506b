// Counts every allocation of the process by interposing malloc. Linked into the command and into tests that
// need it, never into the library; absent under sanitizers, which interpose themselves.
#pragma once

#include <cstdint>

namespace isochron::apps {

/// False under sanitizers: then the counts stay 0 and mean nothing.
bool allocations_counted();
/// Blocks ever allocated, those made inside other libraries' calls apart (core/library_call.h).
int64_t heap_allocations();
int64_t library_allocations();

}  // namespace isochron::apps
