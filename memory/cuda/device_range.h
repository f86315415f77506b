// A range of device addresses that is reserved once; memory is mapped at its front. It grows in place: its
// content keeps its addresses, so nothing that was captured must be captured again. Used for the arena of a
// plan and for the memory of a pool.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "isochron/core/cuda/driver.h"

namespace isochron::cuda {

class DeviceRange {
 public:
  /// Reserves addresses for `capacity_bytes`, rounded up to what the device maps at once; takes no memory.
  /// Throws kOutOfMemory.
  DeviceRange(std::shared_ptr<Context> context, size_t capacity_bytes);
  /// The device must be done with it.
  ~DeviceRange();
  DeviceRange(const DeviceRange&) = delete;
  DeviceRange& operator=(const DeviceRange&) = delete;

  DevicePtr base() const { return base_; }
  size_t capacity_bytes() const { return capacity_bytes_; }
  /// Of the front; any part of it may be used.
  size_t mapped_bytes() const { return mapped_bytes_; }
  /// Memory for at least the first `bytes`; nothing to do where there is. Throws kOutOfMemory, also beyond
  /// the capacity, and kSealed once sealed; nothing has changed then.
  void grow(size_t bytes);
  /// Gives back whole chunks beyond the first `bytes`; returns how many bytes went. The device must be done
  /// with them.
  size_t shrink(size_t bytes);
  /// From now on `grow` throws kSealed instead of taking memory.
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
