// Device memory behind the common allocator interface, so that the adaptors of memory/allocators/adaptors.h
// provide limits, tags, logs and injected failures. The returned pointers are device addresses, which the
// host must not access.
//
// These allocators assume that their memory is used in one stream, or that the user has waited for the
// device. A freed block may be allocated again while the device still works on its old content. This is
// correct if the next user's work comes later in the same stream.
//
// Use DevicePool. The other two allocators exist for comparison with it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "isochron/memory/allocators/allocator.h"
#include "isochron/memory/cuda/device_range.h"

namespace isochron::cuda {

struct DevicePoolOptions {
  size_t initial_bytes = size_t{2} << 20;  // taken at first use
  bool grow_on_demand = true;              // false: no memory is added after the first
  size_t max_bytes = kNoByteLimit;         // reserved never exceeds this, nor the device's memory
};

/// Cuts blocks from one range, which grows in place by doubling. The smallest free block that fits is split,
/// and a freed block is merged with its free neighbors. The range is contiguous, so new memory is merged with
/// the free block at its end, and no chunk remains half used.
class DevicePool final : public Allocator {
 public:
  /// Takes no memory yet. Throws kInvalidArgument unless 0 < initial_bytes <= max_bytes.
  explicit DevicePool(std::shared_ptr<Context> context, const DevicePoolOptions& options = {});
  ~DevicePool() override;

  void* allocate(size_t bytes, std::string_view tag) override;
  void deallocate(void* pointer, size_t bytes) noexcept override;
  /// Returns the free memory at the end of the range to the device. The device must no longer use it.
  size_t trim() override;
  AllocatorStats stats() const override;
  std::vector<TagUsage> usage_by_tag() const override;
  /// After this call no memory is taken from the device: a request that doesn't fit throws kSealed.
  void seal() { range_.seal(); }

 private:
  struct Block {
    size_t bytes = 0;
    bool used = false;
    std::string tag = {};
    size_t requested_bytes = 0;
  };
  using Blocks = std::map<size_t, Block>;  // by offset

  /// Adds a free block and merges it with its free neighbors.
  void add_free(size_t offset, size_t bytes);
  Blocks::iterator fitting(size_t bytes);
  bool grow(size_t bytes);

  const std::shared_ptr<Context> context_;
  const DevicePoolOptions options_;
  DeviceRange range_;
  mutable std::mutex mutex_;
  Blocks blocks_;                                // cover all mapped memory
  std::set<std::pair<size_t, size_t>> by_size_;  // of the free blocks: bytes, offset
  AllocatorStats stats_;
};

/// Requests every block from the driver and keeps no free memory, to measure what this costs.
class DirectDeviceAllocator : public Allocator {
 public:
  ~DirectDeviceAllocator() override;
  void* allocate(size_t bytes, std::string_view tag) override;
  void deallocate(void* pointer, size_t bytes) noexcept override;
  size_t trim() override { return 0; }
  AllocatorStats stats() const override;

 protected:
  explicit DirectDeviceAllocator(std::shared_ptr<Context> context) : context_(std::move(context)) {}
  virtual DevicePtr allocate_block(size_t bytes) = 0;
  virtual void free_block(DevicePtr pointer) = 0;

  const std::shared_ptr<Context> context_;

 private:
  mutable std::mutex mutex_;
  AllocatorStats stats_;
};

/// cuMemAlloc and cuMemFree: both wait for the device, which is slow.
class NaiveDeviceAllocator final : public DirectDeviceAllocator {
 public:
  explicit NaiveDeviceAllocator(std::shared_ptr<Context> context)
      : DirectDeviceAllocator(std::move(context)) {}

 private:
  DevicePtr allocate_block(size_t bytes) override;
  void free_block(DevicePtr pointer) override { context_->free(pointer); }
};

/// The driver's own pool, ordered by `stream`.
class AsyncDeviceAllocator final : public DirectDeviceAllocator {
 public:
  AsyncDeviceAllocator(std::shared_ptr<Context> context, Stream stream)
      : DirectDeviceAllocator(std::move(context)), stream_(stream) {}
  /// Returns the pool's unused memory.
  size_t trim() override;
  /// `reserved_bytes` is what the pool holds.
  AllocatorStats stats() const override;

 private:
  DevicePtr allocate_block(size_t bytes) override { return context_->allocate_async(bytes, stream_); }
  void free_block(DevicePtr pointer) override { context_->free_async(pointer, stream_); }

  const Stream stream_;
};

}  // namespace isochron::cuda
