// PoolAllocator: the default allocator. Blocks are cut from chunks taken from the system and merged when they
// are freed.
//
// Two layers. In front, one list per 64-byte size class up to 16 KiB keeps freed small blocks unmerged, so
// that eager tensors of the same size are allocated and freed in a few nanoseconds. Behind it, two-level
// segregated fit (Masmano, Ripoll, Crespo, Real: "TLSF: a new dynamic memory allocator for real-time
// systems", ECRTS 2004) finds a fitting block, splits and merges in constant time. A block's 64-byte header
// holds its size, its neighbor and its tag, so that "in use by tag" costs nothing until it is queried.
#pragma once

#include <array>
#include <vector>

#include "isochron/memory/allocators/allocator.h"
#include "isochron/memory/allocators/spin_lock.h"

namespace isochron {

struct PoolOptions {
  size_t initial_bytes = size_t{1} << 20;     // taken at first use
  bool grow_on_demand = true;                 // false: no chunk is added after the first
  size_t max_bytes = kNoByteLimit;            // reserved never exceeds this
  size_t max_chunk_bytes = size_t{64} << 20;  // chunks double up to this; a larger request gets its own
};

class PoolAllocator final : public Allocator {
 public:
  /// Takes nothing from the system yet. Throws kInvalidArgument unless 0 < initial_bytes <= max_bytes.
  explicit PoolAllocator(const PoolOptions& options = {});
  ~PoolAllocator() override;

  /// Succeeds whenever a free block fits, if necessary after merging cached small blocks. Otherwise takes a
  /// chunk from the system and emits kPoolGrowth. The chunk's pages are touched immediately, while other
  /// threads wait: 0.2 ms per MiB on some machines, 2 to 4 ms per MiB on some virtual machines.
  void* allocate(size_t bytes, std::string_view tag) override;
  void deallocate(void* pointer, size_t bytes) noexcept override;
  /// Returns wholly free chunks to the system. Emits kPoolTrim.
  size_t trim() override;
  AllocatorStats stats() const override;
  /// Tags as kept in the block headers: their first 22 characters.
  std::vector<TagUsage> usage_by_tag() const override;

  /// Switches growth on demand. Throws kInvalidArgument once the pool has been used, because its memory has
  /// been laid out by then.
  void set_memory_growth(bool grow_on_demand);

 private:
  struct Block;
  struct Chunk {
    Block* first;
    size_t bytes;
  };
  static constexpr size_t kHeaderBytes = 64;
  static constexpr size_t kCachedLimitBytes = size_t{16} << 10;  // block size, header included
  static constexpr int kSecondLevels = 16;
  static constexpr int kFirstLevels = 56;

  struct Bin {
    int first;
    int second;
  };
  static Bin bin_of(size_t block_bytes);

  void* hand_out(Block* block, size_t bytes, std::string_view tag);
  Block* take_fitting(size_t block_bytes);
  Block* find_fitting(size_t block_bytes) const;
  void split(Block* block, size_t block_bytes);
  void merge_and_insert(Block* block);
  void insert_free(Block* block);
  void remove_free(Block* block);
  void flush_cached();
  bool grow(size_t block_bytes);
  bool add_chunk(size_t chunk_bytes);
  size_t release_free_chunks();

  mutable SpinLock lock_;
  std::array<Block*, kCachedLimitBytes / 64 + 1> cached_{};
  uint64_t first_bits_ = 0;
  std::array<uint16_t, kFirstLevels> second_bits_{};
  std::array<std::array<Block*, kSecondLevels>, kFirstLevels> free_{};
  std::vector<Chunk> chunks_;
  AllocatorStats stats_;  // free and largest free are filled in by stats()
  size_t next_chunk_bytes_;
  PoolOptions options_;
};

}  // namespace isochron
