// Batches on their way to a device: page-locked memory and the device's own, each in a few fixed slots, and a
// stream for the copies, so that the next batch travels while the device computes on this one.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "isochron/memory/cuda/pinned_block.h"
#include "isochron/memory/cuda/transfer_stats.h"

namespace isochron::cuda {

/// Not for several threads at once.
class TransferRing {
 public:
  static constexpr size_t kSlots = 2;

  /// A batch has parts of these sizes, in bytes. All memory is taken now. Throws kOutOfMemory.
  TransferRing(std::shared_ptr<Gpu> gpu, std::span<const size_t> part_bytes);
  ~TransferRing();
  TransferRing(const TransferRing&) = delete;
  TransferRing& operator=(const TransferRing&) = delete;

  /// Takes a batch; a part that needs no copy is null. Work that is put in the device's stream from now on
  /// finds the batch at the returned addresses. A large part in page-locked memory (pinned_block.h) is copied
  /// from there, and the copy is noted in its block. The memory of other parts may be reused when this
  /// returns; neighboring parts are one copy. Waits only until the step kSlots batches before is done: the
  /// host runs ahead no further.
  std::span<std::byte* const> begin(std::span<const std::byte* const> parts);
  /// Where the parts of a batch in each slot are, for what must know it beforehand.
  std::span<std::byte* const> addresses(size_t slot) const { return slots_[slot].parts; }
  /// Call this when all work that reads the newest batch has been put in the device's stream.
  void end();
  /// Of the batches so far but for the newest kSlots, which may be under way.
  const TransferStats& stats() const { return stats_; }

 private:
  struct Slot {
    std::unique_ptr<PinnedBlock> pinned;
    Ref<Storage> device;
    std::vector<std::byte*> parts;  // on the device
  };
  /// Timed. One more of them than slots, so that a step's end outlives the next one's copy.
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
  std::vector<size_t> offsets_;  // of the parts, and where the last one ends
  std::vector<size_t> part_bytes_;
  std::vector<PinnedBlock*> blocks_;  // of the newest batch's parts that are copied from where they are
  std::vector<Slot> slots_;
  std::vector<Marks> marks_;
  int64_t batches_ = 0, retired_ = 0;
  TransferStats stats_;
};

}  // namespace isochron::cuda
