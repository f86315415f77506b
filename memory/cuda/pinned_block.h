// A block of page-locked host memory, for batches: a device copies from it by itself while the threads
// continue.
#pragma once

#include <memory>

#include "isochron/memory/cuda/gpu.h"

namespace isochron::cuda {

class PinnedBlock {
 public:
  /// Content unspecified. Throws kOutOfMemory.
  PinnedBlock(std::shared_ptr<Gpu> gpu, size_t bytes);
  /// Waits for the device.
  ~PinnedBlock();
  PinnedBlock(const PinnedBlock&) = delete;
  PinnedBlock& operator=(const PinnedBlock&) = delete;

  /// The block that holds these bytes, for copies to `gpu`; null if there is none. Any thread may call this.
  /// The block must stay alive while the returned pointer is used.
  static PinnedBlock* holding(const std::byte* data, size_t bytes, const Gpu& gpu);

  std::byte* data() const { return data_; }
  size_t size_bytes() const { return bytes_; }

  /// Notes that copies from this block have been enqueued in `stream`. Call it from one thread at a time, and
  /// not during `wait`.
  void note_copies(Stream stream);
  /// Waits until the noted copies are done; then the memory may be written again. May be called from any
  /// thread, even if the device is lost.
  void wait() noexcept;

 private:
  const std::shared_ptr<Gpu> gpu_;
  const size_t bytes_;
  std::byte* data_ = nullptr;
  Event copied_ = Event::kNone;
  bool copies_ = false;  // copies were noted and not yet waited for
};

}  // namespace isochron::cuda
