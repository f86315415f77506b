#include "isochron/memory/allocators/system_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "isochron/core/telemetry/counters.h"
#include "isochron/memory/allocators/allocator.h"

namespace isochron {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;

/// Blocks of at least this size are mapped separately. Sanitizers see only the heap, so with them all blocks
/// stay on it.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kMappedBytes = SIZE_MAX;
#else
constexpr size_t kMappedBytes = size_t{1} << 20;
#endif

std::atomic<size_t> g_mapped_bytes{0};

size_t page_bytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

size_t mapped_bytes(size_t block) { return (block + (page_bytes() - 1)) & ~(page_bytes() - 1); }

/// Touches all pages now; false if the memory isn't available.
bool touch(std::byte* memory, size_t bytes) {
#ifdef MADV_POPULATE_WRITE
  if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return true;
  if (errno == ENOMEM) return false;
#endif
  for (size_t at = 0; at < bytes; at += page_bytes()) *static_cast<volatile std::byte*>(memory + at) = {};
  return true;
}

void* map(size_t block) {
  const size_t bytes = mapped_bytes(block);
  const size_t spare = bytes >= kHugePageBytes ? kHugePageBytes - page_bytes() : 0;  // to align it with
  void* mapping = mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  std::byte* begin = static_cast<std::byte*>(mapping);
  if (spare > 0) {
    const size_t before = -reinterpret_cast<uintptr_t>(begin) & (kHugePageBytes - 1);
    if (before > 0) munmap(begin, before);
    begin += before;
    if (spare > before) munmap(begin + bytes, spare - before);
    madvise(begin, bytes, MADV_HUGEPAGE);  // a hint: without huge pages, small ones are used
  }
  if (touch(begin, bytes)) return begin;
  munmap(begin, bytes);
  return nullptr;
}

}  // namespace

size_t system_block_bytes(size_t bytes) noexcept {
  if (bytes == 0) return kCpuAlignment;
  return (bytes + (kCpuAlignment - 1)) & ~(kCpuAlignment - 1);  // wraps to 0 at the very end of the range
}

size_t system_mapped_bytes() noexcept { return g_mapped_bytes.load(std::memory_order_relaxed); }

void* system_allocate(size_t bytes) noexcept {
  const size_t block = system_block_bytes(bytes);
  if (block == 0 || block > SIZE_MAX / 2) return nullptr;
  void* pointer = block >= kMappedBytes ? map(block) : std::aligned_alloc(kCpuAlignment, block);
  if (pointer == nullptr) return nullptr;
  if (block >= kMappedBytes) g_mapped_bytes.fetch_add(mapped_bytes(block), std::memory_order_relaxed);
  count(Counter::kSystemAllocations, 1);
  count(Counter::kBytesReserved, static_cast<int64_t>(block));
  return pointer;
}

void system_free(void* pointer, size_t bytes) noexcept {
  if (pointer == nullptr) return;
  const size_t block = system_block_bytes(bytes);
  if (block >= kMappedBytes) {
    munmap(pointer, mapped_bytes(block));
    g_mapped_bytes.fetch_sub(mapped_bytes(block), std::memory_order_relaxed);
  } else {
    std::free(pointer);
  }
  count(Counter::kBytesReserved, -static_cast<int64_t>(block));
}

}  // namespace isochron
