// Creates the threads of a team at a point where a failure can still be reported. The OpenMP library would
// end the process if it couldn't create them.
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

/// Throws kOutOfMemory unless `bytes` of address space are available now. Call this before entering a library
/// that, without that space, would end the process or fail with an error of its own. Costs two system calls.
void require_address_space(size_t bytes, std::string_view where);

}  // namespace isochron
