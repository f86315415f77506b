// Allocator: where bytes come from. Implementations: NaiveAllocator (the system, request by request),
// PoolAllocator (the default), ArenaAllocator (one block, bump and reset). Adaptors in adaptors.h wrap any of
// them and may be stacked. The idea of small composable adaptors under one conformance suite is that of RMM
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

/// What an allocator holds at one moment. All sizes in bytes.
struct AllocatorStats {
  size_t in_use_bytes = 0;        // handed out, with rounding and headers
  size_t requested_bytes = 0;     // what the callers asked for, over the live allocations
  size_t reserved_bytes = 0;      // held from the system
  size_t peak_in_use_bytes = 0;   // highest in_use_bytes so far
  size_t free_bytes = 0;          // usable in blocks that are reserved and not in use
  size_t largest_free_bytes = 0;  // the largest request that would need nothing from the system
  int64_t live_allocations = 0;
  int64_t total_allocations = 0;   // successful `allocate` calls so far
  int64_t system_allocations = 0;  // blocks taken from the system so far
  int64_t retries = 0;             // times the system refused, or gave only after free memory was given back

  /// One more live allocation of `requested` bytes, that takes `block`.
  void take(size_t requested, size_t block);
  /// One less.
  void give(size_t requested, size_t block);
  /// One more retry, which Counter::kMemoryRetries counts too.
  void retry();
  /// 1 - largest_free / free: 0 when all that is free is one block, near 1 when it is crumbs.
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

/// Source of 64-byte aligned bytes. Every member may be called from several threads at once.
/// An allocator must outlive what it handed out.
class Allocator {
 public:
  Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  virtual ~Allocator() = default;

  /// At least `bytes` bytes of unspecified content, aligned to kCpuAlignment; never null, also for 0 bytes.
  /// `tag` says what they are for; it is copied where it is kept. Throws kOutOfMemory and then nothing has
  /// changed.
  virtual void* allocate(size_t bytes, std::string_view tag) = 0;
  /// Gives back a pointer from `allocate` of this allocator, with the size that was asked for.
  virtual void deallocate(void* pointer, size_t bytes) noexcept = 0;
  /// Gives memory that nobody uses back to the system; returns how many bytes went.
  virtual size_t trim() = 0;
  virtual AllocatorStats stats() const = 0;
  /// Bytes asked for and counts by tag over the live allocations, largest first; empty where tags are not
  /// kept.
  virtual std::vector<TagUsage> usage_by_tag() const { return {}; }
};

/// The first few of `usage` for an error text: "'tensor' 4096 in 3, 'weights' 128 in 1"; "no tags kept" when
/// empty.
std::string describe_usage(const std::vector<TagUsage>& usage);

/// Throws kOutOfMemory with the request, the limit, what `allocator` has in use, by tag, and its largest free
/// block.
[[noreturn]] void throw_out_of_memory(std::string_view where, size_t bytes, std::string_view tag,
                                      size_t limit_bytes, const Allocator& allocator);

}  // namespace isochron
