#include "isochron/memory/allocators/buffer.h"

#include <atomic>
#include <new>

#include "isochron/core/telemetry/counters.h"
#include "isochron/memory/allocators/pool.h"
#include "isochron/memory/allocators/static_allocator.h"

namespace isochron {
namespace {

constexpr size_t kBufferHeaderBytes = kCpuAlignment;

/// Approximates what an allocator counts as in use for a buffer, including rounding and a header.
int64_t counted_bytes(size_t block_bytes) {
  return static_cast<int64_t>(((block_bytes + (kCpuAlignment - 1)) & ~(kCpuAlignment - 1)) + kCpuAlignment);
}

constinit thread_local Allocator* t_scoped_allocator = nullptr;

std::atomic<Allocator*>& process_default() {
  static std::atomic<Allocator*> instance{&static_allocator()};
  return instance;
}

}  // namespace

Allocator& static_allocator() {
  static Allocator& instance = *new PoolAllocator;
  return instance;
}

Ref<Storage> Buffer::create(Allocator& allocator, size_t bytes, std::string_view tag) {
  static_assert(sizeof(Buffer) <= kBufferHeaderBytes);
  if (bytes > SIZE_MAX - kBufferHeaderBytes)
    throw_out_of_memory("buffer", bytes, tag, kNoByteLimit, allocator);
  auto* block = static_cast<std::byte*>(allocator.allocate(bytes + kBufferHeaderBytes, tag));
  count_own_bytes(counted_bytes(bytes + kBufferHeaderBytes));
  return Ref<Storage>(new (block) Buffer(allocator, block + kBufferHeaderBytes, bytes));
}

void Buffer::destroy() {
  Allocator& allocator = *allocator_;
  const size_t block_bytes = size_bytes() + kBufferHeaderBytes;
  this->~Buffer();
  count_own_bytes(-counted_bytes(block_bytes));
  allocator.deallocate(this, block_bytes);
}

Allocator& default_allocator() {
  if (t_scoped_allocator != nullptr) return *t_scoped_allocator;
  return *process_default().load(std::memory_order_acquire);
}

Allocator& set_default_allocator(Allocator& allocator) {
  return *process_default().exchange(&allocator, std::memory_order_acq_rel);
}

AllocatorScope::AllocatorScope(Allocator& allocator) : previous_(t_scoped_allocator) {
  t_scoped_allocator = &allocator;
}
AllocatorScope::~AllocatorScope() { t_scoped_allocator = previous_; }

Ref<Storage> allocate_buffer(size_t bytes, std::string_view tag) {
  return Buffer::create(default_allocator(), bytes, tag);
}

Tensor empty(const TensorSpec& spec, std::string_view tag) {
  return Tensor::over(allocate_buffer(spec.size_bytes(), tag), spec);
}

}  // namespace isochron
