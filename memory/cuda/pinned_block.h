// A block of the host's memory that is page-locked, for batches: a device copies from it by itself, while
// threads go on.
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

  /// The one that holds these bytes, for copies to `gpu`; null where none does. Any thread may ask. The block
  /// must be alive as long as what is returned is used.
  static PinnedBlock* holding(const std::byte* data, size_t bytes, const Gpu& gpu);

  std::byte* data() const { return data_; }
  size_t size_bytes() const { return bytes_; }

  /// Copies from here have been put in `stream`. By one thread at a time, and not during `wait`.
  void note_copies(Stream stream);
  /// Waits until the copies that were noted are done, after which the memory may be written again: any
  /// thread, also with a device that is lost.
  void wait() noexcept;

 private:
  const std::shared_ptr<Gpu> gpu_;
  const size_t bytes_;
  std::byte* data_ = nullptr;
  Event copied_ = Event::kNone;
  bool copies_ = false;  // noted, and not yet waited for
};

}  // namespace isochron::cuda
