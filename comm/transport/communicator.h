// Communicator: moves bytes between the processes (ranks) that train together. Implementations: MPI
// (comm/mpi/mpi_communicator.cc, a module that is loaded only under a launcher), threads of one process for
// tests (thread_communicator.h), and adaptors around another communicator (adaptors.h). Programs use
// comm::Group (comm/group/group.h), which is the only caller of a communicator.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "isochron/core/tensor/dtype.h"

namespace isochron::comm {

/// Bytes cut into one slice per rank. All slices are as long as the first, except the last ones, which may be
/// shorter or empty.
struct Slices {
  size_t total_bytes = 0;
  size_t slice_bytes = 0;  // ranks * slice_bytes >= total_bytes

  size_t begin(int rank) const { return std::min(total_bytes, static_cast<size_t>(rank) * slice_bytes); }
  size_t bytes(int rank) const { return begin(rank + 1) - begin(rank); }
  /// Slices whose length is a multiple of `unit` bytes, except for the last non-empty one.
  static Slices of(size_t total_bytes, int ranks, size_t unit) {
    const size_t units = (total_bytes + unit - 1) / unit;
    const auto count = static_cast<size_t>(ranks);
    return {total_bytes, (units + count - 1) / count * unit};
  }
};

/// How long the slices of other ranks took to arrive, measured from the beginning of the call and summed over
/// all all_gather calls so far that moved data. If such a call follows another collective, all ranks enter it
/// at about the same time, so that these times show differences between the links.
struct Arrivals {
  int64_t calls = 0;
  std::vector<int64_t> total_ns;  // for each rank, 0 for this one; empty if the transport doesn't measure it
};

/// The collective calls. Every rank makes the same calls in the same order with equal sizes. A call returns
/// when its memory may be used again. Only one thread makes calls, one at a time. After the first call of a
/// kind, calls of that kind allocate nothing from our allocators. If the transport fails, calls throw
/// kCommunication; after that only `abort` may be called.
class Communicator {
 public:
  virtual ~Communicator() = default;
  /// Counted from 0.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// For messages, such as "Open MPI 4.1.4".
  virtual std::string description() const = 0;

  /// Sends slice r of `data` to rank r, and receives this rank's slice from each rank r at `received` + r *
  /// slice_bytes. This rank's own slice stays in `data` and isn't copied. `received` doesn't overlap `data`.
  virtual void all_to_all(const std::byte* data, std::byte* received, const Slices& slices) = 0;
  /// Sends slice r of `data` from rank r to all other ranks, in place.
  virtual void all_gather(std::byte* data, const Slices& slices) = 0;
  /// Sums over all ranks, in place, in an order that the transport chooses. f32, f64 or i64.
  virtual void all_reduce(std::byte* data, int64_t count, DType dtype) = 0;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;
  virtual void barrier() = 0;
  virtual Arrivals arrivals() const { return {}; }

  /// Ends all ranks with this exit status, as far as the transport can.
  [[noreturn]] virtual void abort(int exit_status) = 0;
  /// If a call is waiting for other ranks, makes that call end all ranks, as far as the transport can. Any
  /// thread may call this.
  virtual void abort_call(int /*exit_status*/) {}
};

}  // namespace isochron::comm
