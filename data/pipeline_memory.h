// The memory that all pipelines of the process may hold together: finished elements, items, what map
// functions make on the pipelines' threads, caches.
#pragma once

#include <cstddef>

#include "isochron/memory/allocator.h"

namespace isochron::data {

/// A quarter of the memory that was free when it was first asked for (limits of the control group respected),
/// unless `set_memory_budget` said otherwise.
size_t memory_budget_bytes();
/// From now on; what is held already stays. A pipeline that would exceed it throws kOutOfMemory.
void set_memory_budget(size_t bytes);
/// Held by pipelines now.
size_t memory_in_use_bytes();

/// Where pipelines take their memory from. Throws kOutOfMemory beyond the budget.
Allocator& pipeline_allocator();

/// Memory that this process could still take: what the system has available, or what the control group
/// leaves, whichever is less.
size_t available_memory_bytes();

}  // namespace isochron::data
