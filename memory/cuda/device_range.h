// A range of device addresses that is reserved once. Memory is mapped at its start and grows in place:
// existing content keeps its addresses, so no captured graph has to be captured again. Used for the arena of
// a plan and for the memory of a pool.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "isochron/core/cuda/driver.h"

namespace isochron::cuda {

class DeviceRange {
 public:
  /// Reserves addresses for `capacity_bytes`, rounded up to the device's mapping granularity; takes no
  /// memory. Throws kOutOfMemory.
  DeviceRange(std::shared_ptr<Context> context, size_t capacity_bytes);
  /// The device must no longer use the range.
  ~DeviceRange();
  DeviceRange(const DeviceRange&) = delete;
  DeviceRange& operator=(const DeviceRange&) = delete;

  DevicePtr base() const { return base_; }
  size_t capacity_bytes() const { return capacity_bytes_; }
  /// The size of the mapped memory at the start; any part of it may be used.
  size_t mapped_bytes() const { return mapped_bytes_; }
  /// Maps memory for at least the first `bytes`; does nothing if they are already mapped. Throws
  /// kOutOfMemory, also beyond the capacity, and kSealed once sealed. If it throws, nothing has changed.
  void grow(size_t bytes);
  /// Returns whole chunks beyond the first `bytes` to the device, and returns the number of bytes released.
  /// The device must no longer use them.
  size_t shrink(size_t bytes);
  /// After this call, `grow` throws kSealed instead of taking memory.
  void seal() { sealed_ = true; }

 private:
  struct Chunk {
    PhysicalMemory memory;
    size_t bytes;
  };

  const std::shared_ptr<Context> context_;
  const size_t granularity_bytes_;
  const size_t capacity_bytes_;
  DevicePtr base_;
  size_t mapped_bytes_ = 0;
  bool sealed_ = false;
  std::vector<Chunk> chunks_;
};

}  // namespace isochron::cuda
