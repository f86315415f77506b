// The threads of a team, asked for where their absence can still be told: OpenMP's library ends the process
// where it gets none.
#pragma once

#include <cstddef>
#include <string_view>

namespace isochron {

/// Makes the team with which the calling thread opens parallel regions of `threads` threads, unless it has
/// one of that size. Throws kOutOfMemory where the system has no room for as many, or no memory for their
/// stacks. Within a region it does nothing. Costs one comparison once the team is there.
void make_team(int threads);

/// Calls `body(context)` on each of `threads` threads and returns when all calls have: the one place where a
/// parallel region is opened. `body` must not throw.
void run_on_team(int threads, void (*body)(void*), void* context);

/// Throws kOutOfMemory unless `bytes` of address space can be had now: before a library is entered that can't
/// do without them, or fails for want of them in ways of its own. Costs two system calls.
void require_address_space(size_t bytes, std::string_view where);

}  // namespace isochron
