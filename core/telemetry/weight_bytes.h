// Bytes of checkpoints and weights that were written, and by which thread, so that a step that waits for a
// save can be distinguished from a step that runs while a save is in progress.
#pragma once

#include <cstdint>

#include "isochron/core/telemetry/counters.h"

namespace isochron {

namespace internal {
inline thread_local int64_t t_weight_bytes = 0;
}

/// Counts `bytes` as written, in Counter::kWeightBytes and for the calling thread.
inline void count_weight_bytes(int64_t bytes) {
  count(Counter::kWeightBytes, bytes);
  internal::t_weight_bytes += bytes;
}
/// The bytes that the calling thread has written.
inline int64_t weight_bytes_of_this_thread() { return internal::t_weight_bytes; }

}  // namespace isochron
