// Buffer: the storage of eager tensors, and `empty`, which creates every tensor with its own content.
#pragma once

#include <string_view>

#include "isochron/core/tensor/tensor.h"
#include "isochron/memory/allocators/allocator.h"

namespace isochron {

/// Bytes from an allocator, freed when the last reference is dropped. The object itself is in the same block,
/// in front of its bytes, so a buffer is one allocation. The buffer remembers its allocator, which must
/// outlive it.
class Buffer final : public Storage {
 public:
  /// Content unspecified, address a multiple of kCpuAlignment. Throws kOutOfMemory.
  static Ref<Storage> create(Allocator& allocator, size_t bytes, std::string_view tag);
  Allocator& allocator() const { return *allocator_; }
  std::string owner() const override { return "the next write to its buffer"; }

 private:
  Buffer(Allocator& allocator, std::byte* data, size_t bytes)
      : Storage(data, bytes), allocator_(&allocator) {}
  ~Buffer() override = default;
  void destroy() override;

  Allocator* allocator_;
};

/// The allocator of this thread: that of the innermost AllocatorScope, otherwise the process default.
Allocator& default_allocator();
/// Replaces the process default (a PoolAllocator that grows on demand) and returns the previous one.
/// `allocator` must outlive every buffer that it makes.
Allocator& set_default_allocator(Allocator& allocator);

/// While it lives, `default_allocator()` of this thread is `allocator`. Scopes nest; other threads aren't
/// affected.
class AllocatorScope {
 public:
  explicit AllocatorScope(Allocator& allocator);
  ~AllocatorScope();
  AllocatorScope(const AllocatorScope&) = delete;
  AllocatorScope& operator=(const AllocatorScope&) = delete;

 private:
  Allocator* previous_;
};

/// `bytes` bytes from `default_allocator()`. Throws kOutOfMemory.
Ref<Storage> allocate_buffer(size_t bytes, std::string_view tag = "tensor");

/// A contiguous tensor of unspecified content from `default_allocator()`. Throws kOutOfMemory, kOverflow.
Tensor empty(const TensorSpec& spec, std::string_view tag = "tensor");

}  // namespace isochron
