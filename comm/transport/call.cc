#include "isochron/comm/transport/call.h"

#include "isochron/core/base/checked.h"

namespace isochron::comm {

std::string_view call_kind_name(CallKind kind) {
  constexpr std::string_view kNames[kCallKindCount] = {"all_to_all", "all_gather", "all_reduce", "broadcast",
                                                       "barrier"};
  return kNames[static_cast<int>(kind)];
}

Call Call::all_to_all(const Slices& slices) {
  return {.kind = CallKind::kAllToAll, .bytes = slices.total_bytes, .slice_bytes = slices.slice_bytes};
}

Call Call::all_gather(const Slices& slices) {
  return {.kind = CallKind::kAllGather, .bytes = slices.total_bytes, .slice_bytes = slices.slice_bytes};
}

Call Call::all_reduce(int64_t count, DType dtype) {
  require(count >= 0, ErrorCode::kInvalidArgument, "comm", "all_reduce of {} elements; expected at least 0",
          count);
  require(dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kI64, ErrorCode::kInvalidArgument,
          "comm", "all_reduce adds f32, f64 or i64, not {}; convert the data first", dtype_name(dtype));
  return {.kind = CallKind::kAllReduce,
          .dtype = dtype,
          .bytes = checked_mul(static_cast<size_t>(count), dtype_size(dtype), "comm")};
}

Call Call::broadcast(size_t bytes, int root) {
  return {.kind = CallKind::kBroadcast, .root = root, .bytes = bytes};
}

std::string Call::text() const {
  const std::string_view name = call_kind_name(kind);
  switch (kind) {
    case CallKind::kAllToAll:
    case CallKind::kAllGather:
      return fmt::format("{} of {} bytes in slices of {}", name, bytes, slice_bytes);
    case CallKind::kAllReduce:
      return fmt::format("{} of {} {}", name, bytes / dtype_size(dtype), dtype_name(dtype));
    case CallKind::kBroadcast:
      return fmt::format("{} of {} bytes from rank {}", name, bytes, root);
    case CallKind::kBarrier:
      break;
  }
  return std::string(name);
}

Traffic traffic_of(const Call& call, int rank, int size) {
  Traffic traffic;
  const auto add = [&](size_t sent, size_t received) {
    traffic.bytes_sent += static_cast<int64_t>(sent);
    traffic.bytes_received += static_cast<int64_t>(received);
    traffic.messages_sent += sent > 0;
    traffic.messages_received += received > 0;
  };
  const int64_t others = size - 1;
  Slices slices{call.bytes, call.slice_bytes};
  switch (call.kind) {
    case CallKind::kAllReduce:
      slices = Slices::of(call.bytes, size, dtype_size(call.dtype));
      [[fallthrough]];
    case CallKind::kAllToAll:
    case CallKind::kAllGather:
      for (int peer = 0; peer < size; ++peer) {
        if (peer == rank) continue;
        if (call.kind != CallKind::kAllGather) add(slices.bytes(peer), slices.bytes(rank));
        if (call.kind != CallKind::kAllToAll) add(slices.bytes(rank), slices.bytes(peer));
      }
      break;
    case CallKind::kBroadcast:
      if (rank != call.root) {
        add(0, call.bytes);
      } else {
        for (int64_t i = 0; i < others; ++i) add(call.bytes, 0);
      }
      break;
    case CallKind::kBarrier:
      traffic.messages_sent = traffic.messages_received = others;
      break;
  }
  return traffic;
}

}  // namespace isochron::comm
