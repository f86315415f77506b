// The threads of a team, requested at a point where their absence can still be reported: OpenMP's library
// ends the process if it can't get them.
#pragma once

#include <cstddef>
#include <string_view>

namespace isochron {

/// Creates the team with which the calling thread opens parallel regions of `threads` threads, unless it has
/// one of that size. Throws kOutOfMemory if the system can't provide that many threads, or memory for their
/// stacks. Within a region it does nothing. Costs one comparison once the team exists.
void make_team(int threads);

/// Calls `body(context)` on each of `threads` threads and returns when all calls have: the one place where a
/// parallel region is opened. `body` must not throw.
void run_on_team(int threads, void (*body)(void*), void* context);

/// Throws kOutOfMemory unless `bytes` of address space are available now. Call it before entering a library
/// that can't do without them, or that fails in its own way without them. Costs two system calls.
void require_address_space(size_t bytes, std::string_view where);

}  // namespace isochron
