// A collective call as data: adaptors record it, ranks compare it, and its cost on a link is derived from it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "isochron/comm/transport/communicator.h"

namespace isochron::comm {

enum class CallKind : uint8_t { kAllToAll, kAllGather, kAllReduce, kBroadcast, kBarrier };
inline constexpr int kCallKindCount = 5;

/// "all_to_all".
std::string_view call_kind_name(CallKind kind);

/// One call, without its buffers. Matching calls are equal on all ranks.
struct Call {
  CallKind kind = CallKind::kBarrier;
  DType dtype = DType::kU8;  // of all_reduce
  int root = 0;              // of broadcast
  size_t bytes = 0;          // of the whole data
  size_t slice_bytes = 0;    // of all_to_all and all_gather

  static Call all_to_all(const Slices& slices);
  static Call all_gather(const Slices& slices);
  /// Throws kInvalidArgument for a negative count or a dtype that isn't f32, f64 or i64.
  static Call all_reduce(int64_t count, DType dtype);
  static Call broadcast(size_t bytes, int root);
  static Call barrier() { return {}; }

  bool operator==(const Call&) const = default;
  /// "all_gather of 64 bytes in slices of 32".
  std::string text() const;
};

/// What a rank sends and receives if every rank sends directly to every other rank. An all_reduce counts as
/// an all_to_all of slices and an all_gather of their sums. A barrier counts as an empty message to each
/// rank.
struct Traffic {
  int64_t messages_sent = 0;
  int64_t messages_received = 0;
  int64_t bytes_sent = 0;
  int64_t bytes_received = 0;
};
Traffic traffic_of(const Call& call, int rank, int size);

}  // namespace isochron::comm
