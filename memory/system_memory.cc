#include "isochron/memory/system_memory.h"

#include <cstdlib>

#include "isochron/core/counters.h"
#include "isochron/memory/allocator.h"

namespace isochron {

size_t system_block_bytes(size_t bytes) noexcept {
  if (bytes == 0) return kCpuAlignment;
  return (bytes + (kCpuAlignment - 1)) & ~(kCpuAlignment - 1);  // wraps to 0 at the very end of the range
}

void* system_allocate(size_t bytes) noexcept {
  const size_t block = system_block_bytes(bytes);
  if (block == 0) return nullptr;
  void* pointer = std::aligned_alloc(kCpuAlignment, block);
  if (pointer == nullptr) return nullptr;
  count(Counter::kSystemAllocations, 1);
  count(Counter::kBytesReserved, static_cast<int64_t>(block));
  return pointer;
}

void system_free(void* pointer, size_t bytes) noexcept {
  std::free(pointer);
  count(Counter::kBytesReserved, -static_cast<int64_t>(system_block_bytes(bytes)));
}

}  // namespace isochron
