// Allocator: the source of memory. Implementations: NaiveAllocator (the system, request by request),
// PoolAllocator (the default), ArenaAllocator (one block, bump and reset). Adaptors in adaptors.h wrap any of
// them and may be stacked. The idea of small composable adaptors with one conformance suite comes from RMM
// (RAPIDS Memory Manager).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isochron {

/// Every allocation starts at a multiple of this: a cache line, and the widest vector.
inline constexpr size_t kCpuAlignment = 64;
/// For allocators without a limit.
inline constexpr size_t kNoByteLimit = SIZE_MAX;

/// The state of an allocator at one moment. All sizes are in bytes.
struct AllocatorStats {
  size_t in_use_bytes = 0;        // handed out, with rounding and headers
  size_t requested_bytes = 0;     // bytes requested by the callers, over the live allocations
  size_t reserved_bytes = 0;      // held from the system
  size_t peak_in_use_bytes = 0;   // highest in_use_bytes so far
  size_t free_bytes = 0;          // usable in blocks that are reserved and not in use
  size_t largest_free_bytes = 0;  // the largest request that would need nothing from the system
  int64_t live_allocations = 0;
  int64_t total_allocations = 0;   // successful `allocate` calls so far
  int64_t system_allocations = 0;  // blocks taken from the system so far
  int64_t retries = 0;             // times the system refused, or gave only after free memory was given back

  /// Counts one more live allocation of `requested` bytes in a block of `block` bytes.
  void on_allocate(size_t requested, size_t block);
  /// Counts one live allocation less.
  void on_free(size_t requested, size_t block);
  /// Counts one more retry, also in Counter::kMemoryRetries.
  void retry();
  /// 1 - largest_free / free: 0 if all free memory is one block, near 1 if it is in many small pieces.
  double fragmentation() const {
    return free_bytes == 0 ? 0.0
                           : 1.0 - static_cast<double>(largest_free_bytes) / static_cast<double>(free_bytes);
  }
};

struct TagUsage {
  std::string tag;
  size_t bytes = 0;
  int64_t allocations = 0;
};

/// Source of 64-byte aligned bytes. Every member may be called from several threads at once. An allocator
/// must outlive its allocations.
class Allocator {
 public:
  Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  virtual ~Allocator() = default;

  /// Returns at least `bytes` bytes of unspecified content, aligned to kCpuAlignment; never null, also for 0
  /// bytes. `tag` describes their use; it is copied if it is kept. If it throws kOutOfMemory, nothing has
  /// changed.
  virtual void* allocate(size_t bytes, std::string_view tag) = 0;
  /// Frees a pointer from this allocator's `allocate`; `bytes` is the requested size.
  virtual void deallocate(void* pointer, size_t bytes) noexcept = 0;
  /// Returns unused memory to the system, and returns the number of bytes released.
  virtual size_t trim() = 0;
  virtual AllocatorStats stats() const = 0;
  /// Requested bytes and counts by tag over the live allocations, largest first; empty if tags are not kept.
  virtual std::vector<TagUsage> usage_by_tag() const { return {}; }
};

/// The first few of `usage` for an error text: "'tensor' 4096 in 3, 'weights' 128 in 1"; "no tags kept" when
/// empty.
std::string describe_usage(const std::vector<TagUsage>& usage);

/// Throws kOutOfMemory with the request, the limit, the memory in use in `allocator` by tag, and its largest
/// free block.
[[noreturn]] void throw_out_of_memory(std::string_view where, size_t bytes, std::string_view tag,
                                      size_t limit_bytes, const Allocator& allocator);

}  // namespace isochron
