// Transfers batches to a device through page-locked memory and device memory, each in a few fixed slots.
// Copies have a stream of their own, so the next batch is copied while the device computes on the current
// one.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "isochron/memory/cuda/pinned_block.h"
#include "isochron/memory/cuda/transfer_stats.h"

namespace isochron::cuda {

/// Not thread-safe.
class TransferRing {
 public:
  static constexpr size_t kSlots = 2;

  /// A batch has parts of these sizes, in bytes. Takes all memory immediately. Throws kOutOfMemory.
  TransferRing(std::shared_ptr<Gpu> gpu, std::span<const size_t> part_bytes);
  ~TransferRing();
  TransferRing(const TransferRing&) = delete;
  TransferRing& operator=(const TransferRing&) = delete;

  /// Takes a batch; a part that needs no copy is null. Work that is enqueued in the device's stream after
  /// this call finds the batch at the returned addresses. A large part in page-locked memory (pinned_block.h)
  /// is copied directly, and the copy is noted in its block. The memory of other parts may be reused when
  /// this returns; neighboring parts are copied together. Waits only until the step kSlots batches earlier is
  /// done, so the host is never further ahead than that.
  std::span<std::byte* const> begin(std::span<const std::byte* const> parts);
  /// The addresses of a batch's parts in a slot, for code that needs them in advance.
  std::span<std::byte* const> addresses(size_t slot) const { return slots_[slot].parts; }
  /// Call this when all work that reads the newest batch has been enqueued in the device's stream.
  void end();
  /// The statistics of all batches so far except the newest kSlots, which may still be in progress.
  const TransferStats& stats() const { return stats_; }

 private:
  struct Slot {
    std::unique_ptr<PinnedBlock> pinned;
    Ref<Storage> device;
    std::vector<std::byte*> parts;  // on the device
  };
  /// Timed events. There is one set more than there are slots, so that the end of a step outlives the next
  /// step's copy.
  struct Marks {
    Event begun = Event::kNone, copied = Event::kNone, used = Event::kNone;
    size_t bytes = 0;
  };
  Marks& marks_of(int64_t batch) { return marks_[static_cast<size_t>(batch) % marks_.size()]; }
  PinnedBlock* block_of(const std::byte* part, size_t index) const;
  size_t copy_from_block(const std::byte* part, size_t index, const Slot& slot);
  size_t copy_staged(size_t first, size_t end, const Slot& slot);
  void retire(int64_t batch);
  size_t slot_bytes() const { return std::max<size_t>(offsets_.back(), 1); }
  void release();

  const std::shared_ptr<Gpu> gpu_;
  const Stream stream_;
  std::vector<size_t> offsets_;  // of the parts, and the end of the last part
  std::vector<size_t> part_bytes_;
  std::vector<PinnedBlock*> blocks_;  // of the newest batch's parts that are copied directly
  std::vector<Slot> slots_;
  std::vector<Marks> marks_;
  int64_t batches_ = 0, retired_ = 0;
  TransferStats stats_;
};

}  // namespace isochron::cuda
