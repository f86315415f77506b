#include "isochron/memory/allocators/pool.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

#include "isochron/core/base/checked.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/core/telemetry/sealed.h"
#include "isochron/memory/allocators/ledger.h"
#include "isochron/memory/allocators/system_memory.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace isochron {

// Header of a block; its bytes follow. The blocks of a chunk are contiguous and end with a header-only block
// kEnd.
struct alignas(64) PoolAllocator::Block {
  enum class State : uint8_t { kFree, kCached, kUsed, kEnd };

  size_t bytes;            // of the block, this header included; a multiple of 64
  size_t requested_bytes;  // kUsed only
  Block* before;           // the block that ends where this one starts; null for the first block of a chunk
  Block* next_free;        // kFree and kCached only
  Block* previous_free;    // kFree only
  State state;
  uint8_t tag_length;
  char tag[22];

  std::byte* data() { return reinterpret_cast<std::byte*>(this) + kHeaderBytes; }
  Block* after() { return reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(this) + bytes); }
  static Block* of(void* pointer) {
    return reinterpret_cast<Block*>(static_cast<std::byte*>(pointer) - kHeaderBytes);
  }
};

PoolAllocator::PoolAllocator(const PoolOptions& options)
    : next_chunk_bytes_(options.initial_bytes), options_(options) {
  static_assert(sizeof(Block) == kHeaderBytes);
  require(options.initial_bytes > 0 && options.initial_bytes <= options.max_bytes,
          ErrorCode::kInvalidArgument, "pool", "initial_bytes {} must lie in [1, max_bytes {}]",
          options.initial_bytes, options.max_bytes);
  internal::enter_ledger(*this);
}

PoolAllocator::~PoolAllocator() {
  internal::leave_ledger(*this);
  assert(stats_.live_allocations == 0 && "a pool must outlive what it handed out");
  for (const Chunk& chunk : chunks_) {
    ASAN_UNPOISON_MEMORY_REGION(chunk.first, chunk.bytes);
    system_free(chunk.first, chunk.bytes);
  }
}

void PoolAllocator::set_memory_growth(bool grow_on_demand) {
  std::lock_guard lock(lock_);
  require(stats_.total_allocations == 0 && chunks_.empty(), ErrorCode::kInvalidArgument, "set_memory_growth",
          "the pool has served {} allocations already; set memory growth before the first tensor is made",
          stats_.total_allocations);
  options_.grow_on_demand = grow_on_demand;
}

void* PoolAllocator::allocate(size_t bytes, std::string_view tag) {
  // No request near the end of the range can succeed; failing here keeps the arithmetic below free of
  // wrap-around.
  if (bytes > SIZE_MAX / 4) throw_out_of_memory("pool", bytes, tag, options_.max_bytes, *this);
  const size_t block_bytes = align_up(std::max<size_t>(bytes, 1) + kHeaderBytes, kCpuAlignment);
  size_t grown_bytes = 0;
  int64_t started_ns = 0;
  void* result = nullptr;
  {
    std::lock_guard lock(lock_);
    if (block_bytes <= kCachedLimitBytes) {
      if (Block* block = cached_[block_bytes / 64]) [[likely]] {
        cached_[block_bytes / 64] = block->next_free;
        return hand_out(block, bytes, tag);
      }
    }
    Block* block = take_fitting(block_bytes);
    if (block == nullptr) {
      flush_cached();
      block = take_fitting(block_bytes);
    }
    if (block == nullptr) {
      started_ns = now_ns();
      if (grow(block_bytes)) {
        grown_bytes = chunks_.back().bytes;
        block = take_fitting(block_bytes);
      }
    }
    if (block != nullptr) {
      result = hand_out(block, bytes, tag);
    } else {
      ++stats_.retries;  // throw_out_of_memory() counts it in Counter::kMemoryRetries
    }
  }
  if (grown_bytes != 0) {
    emit({EventKind::kPoolGrowth, "pool",
          fmt::format("took a chunk of {} bytes from the system", grown_bytes), started_ns,
          now_ns() - started_ns});
  }
  if (result == nullptr) throw_out_of_memory("pool", bytes, tag, options_.max_bytes, *this);
  return result;
}

void* PoolAllocator::hand_out(Block* block, size_t bytes, std::string_view tag) {
  block->state = Block::State::kUsed;
  block->requested_bytes = bytes;
  block->tag_length = static_cast<uint8_t>(std::min(tag.size(), sizeof(block->tag)));
  std::memcpy(block->tag, tag.data(), block->tag_length);
  stats_.on_allocate(bytes, block->bytes);
  count(Counter::kBytesInUse, static_cast<int64_t>(block->bytes));
  note_made(Made::kAllocation, bytes, tag);
  ASAN_UNPOISON_MEMORY_REGION(block->data(), bytes);
  return block->data();
}

void PoolAllocator::deallocate(void* pointer, size_t bytes) noexcept {
  Block* block = Block::of(pointer);
  std::lock_guard lock(lock_);
  assert(block->state == Block::State::kUsed && block->requested_bytes == bytes);
  ASAN_POISON_MEMORY_REGION(block->data(), block->bytes - kHeaderBytes);
  stats_.on_free(bytes, block->bytes);
  count(Counter::kBytesInUse, -static_cast<int64_t>(block->bytes));
  if (block->bytes <= kCachedLimitBytes) {
    block->state = Block::State::kCached;
    block->next_free = cached_[block->bytes / 64];
    cached_[block->bytes / 64] = block;
  } else {
    merge_and_insert(block);
  }
}

// Sizes below 16 units of 64 bytes have one bin each; above, every power of two is split into 16 bins.
PoolAllocator::Bin PoolAllocator::bin_of(size_t block_bytes) {
  const size_t units = block_bytes / 64;
  if (units < kSecondLevels) return {0, static_cast<int>(units)};
  const int first = std::bit_width(units) - 4;
  return {first, static_cast<int>((units >> (first - 1)) - kSecondLevels)};
}

PoolAllocator::Block* PoolAllocator::take_fitting(size_t block_bytes) {
  Block* block = find_fitting(block_bytes);
  if (block == nullptr) return nullptr;
  remove_free(block);
  split(block, block_bytes);
  return block;
}

PoolAllocator::Block* PoolAllocator::find_fitting(size_t block_bytes) const {
  const Bin bin = bin_of(block_bytes);
  // The block's own bin may hold smaller blocks; check a few of them for the tightest fit.
  constexpr int kLooked = 8;
  Block* block = free_[bin.first][bin.second];
  for (int i = 0; i < kLooked && block != nullptr; ++i, block = block->next_free) {
    if (block->bytes >= block_bytes) return block;
  }
  // Any block of a higher bin fits.
  int first = bin.first;
  uint32_t seconds =
      bin.second + 1 < kSecondLevels ? second_bits_[first] >> (bin.second + 1) << (bin.second + 1) : 0;
  if (seconds == 0) {
    const uint64_t firsts = first_bits_ >> (first + 1) << (first + 1);
    if (firsts != 0) {
      first = std::countr_zero(firsts);
      seconds = second_bits_[first];
    }
  }
  if (seconds != 0) return free_[first][std::countr_zero(seconds)];
  // No higher bin has a block: search the rest of the own bin.
  while (block != nullptr && block->bytes < block_bytes) block = block->next_free;
  return block;
}

void PoolAllocator::split(Block* block, size_t block_bytes) {
  const size_t rest = block->bytes - block_bytes;
  if (rest < 2 * kHeaderBytes) return;  // too small for a header and the smallest content
  block->bytes = block_bytes;
  Block* tail = block->after();
  ASAN_UNPOISON_MEMORY_REGION(tail, kHeaderBytes);
  new (tail) Block{};
  tail->bytes = rest;
  tail->before = block;
  tail->after()->before = tail;
  insert_free(tail);
}

void PoolAllocator::merge_and_insert(Block* block) {
  if (Block* after = block->after(); after->state == Block::State::kFree) {
    remove_free(after);
    block->bytes += after->bytes;
    ASAN_POISON_MEMORY_REGION(after, kHeaderBytes);
  }
  if (Block* before = block->before; before != nullptr && before->state == Block::State::kFree) {
    remove_free(before);
    before->bytes += block->bytes;
    ASAN_POISON_MEMORY_REGION(block, kHeaderBytes);
    block = before;
  }
  block->after()->before = block;
  insert_free(block);
}

void PoolAllocator::insert_free(Block* block) {
  const Bin bin = bin_of(block->bytes);
  Block*& head = free_[bin.first][bin.second];
  block->state = Block::State::kFree;
  block->previous_free = nullptr;
  block->next_free = head;
  if (head != nullptr) head->previous_free = block;
  head = block;
  first_bits_ |= uint64_t{1} << bin.first;
  second_bits_[bin.first] = static_cast<uint16_t>(second_bits_[bin.first] | 1u << bin.second);
}

void PoolAllocator::remove_free(Block* block) {
  const Bin bin = bin_of(block->bytes);
  Block*& head = free_[bin.first][bin.second];
  if (block->next_free != nullptr) block->next_free->previous_free = block->previous_free;
  if (block->previous_free != nullptr) block->previous_free->next_free = block->next_free;
  if (head != block) return;
  head = block->next_free;
  if (head != nullptr) return;
  second_bits_[bin.first] = static_cast<uint16_t>(second_bits_[bin.first] & ~(1u << bin.second));
  if (second_bits_[bin.first] == 0) first_bits_ &= ~(uint64_t{1} << bin.first);
}

void PoolAllocator::flush_cached() {
  for (Block*& head : cached_) {
    while (head != nullptr) {
      Block* block = head;
      head = block->next_free;
      merge_and_insert(block);
    }
  }
}

bool PoolAllocator::grow(size_t block_bytes) {
  if (!options_.grow_on_demand && !chunks_.empty()) return false;
  const size_t needed = block_bytes + kHeaderBytes;  // and the end block
  if (!options_.grow_on_demand) {
    return needed <= options_.initial_bytes && add_chunk(options_.initial_bytes & ~(kCpuAlignment - 1));
  }
  if (needed > options_.max_bytes - stats_.reserved_bytes && release_free_chunks() > 0) {
    stats_.retry();
  }
  const size_t room = (options_.max_bytes - stats_.reserved_bytes) & ~(kCpuAlignment - 1);
  if (needed > room) return false;
  const size_t wanted = std::max(needed, std::min(align_up(next_chunk_bytes_, kCpuAlignment), room));
  if (!add_chunk(wanted) && !add_chunk(needed)) {
    if (release_free_chunks() == 0 || !add_chunk(needed)) return false;
    stats_.retry();
  }
  next_chunk_bytes_ =
      std::max(options_.initial_bytes, std::min(next_chunk_bytes_ * 2, options_.max_chunk_bytes));
  return true;
}

bool PoolAllocator::add_chunk(size_t chunk_bytes) {
  chunks_.reserve(chunks_.size() + 1);
  void* memory = system_allocate(chunk_bytes);
  if (memory == nullptr) return false;
  Block* first = new (memory) Block{};
  first->bytes = chunk_bytes - kHeaderBytes;
  Block* end = new (first->after()) Block{};
  end->before = first;
  end->state = Block::State::kEnd;
  ASAN_POISON_MEMORY_REGION(first->data(), first->bytes - kHeaderBytes);
  chunks_.push_back({first, chunk_bytes});
  insert_free(first);
  stats_.reserved_bytes += chunk_bytes;
  ++stats_.system_allocations;
  return true;
}

size_t PoolAllocator::release_free_chunks() {
  size_t released = 0;
  std::erase_if(chunks_, [&](const Chunk& chunk) {
    if (chunk.first->state != Block::State::kFree || chunk.first->bytes != chunk.bytes - kHeaderBytes)
      return false;
    remove_free(chunk.first);
    ASAN_UNPOISON_MEMORY_REGION(chunk.first, chunk.bytes);
    system_free(chunk.first, chunk.bytes);
    released += chunk.bytes;
    return true;
  });
  stats_.reserved_bytes -= released;
  return released;
}

size_t PoolAllocator::trim() {
  const int64_t started_ns = now_ns();
  size_t released = 0;
  {
    std::lock_guard lock(lock_);
    flush_cached();
    released = release_free_chunks();
    next_chunk_bytes_ = options_.initial_bytes;
  }
  if (released != 0) {
    emit({EventKind::kPoolTrim, "pool", fmt::format("gave {} bytes back to the system", released), started_ns,
          now_ns() - started_ns});
  }
  return released;
}

AllocatorStats PoolAllocator::stats() const {
  std::lock_guard lock(lock_);
  AllocatorStats stats = stats_;
  for (const Chunk& chunk : chunks_) {
    for (Block* block = chunk.first; block->state != Block::State::kEnd; block = block->after()) {
      if (block->state == Block::State::kUsed) continue;
      stats.free_bytes += block->bytes - kHeaderBytes;
      stats.largest_free_bytes = std::max(stats.largest_free_bytes, block->bytes - kHeaderBytes);
    }
  }
  return stats;
}

std::vector<TagUsage> PoolAllocator::usage_by_tag() const {
  std::map<std::string, TagUsage, std::less<>> tags;
  {
    std::lock_guard lock(lock_);
    for (const Chunk& chunk : chunks_) {
      for (Block* block = chunk.first; block->state != Block::State::kEnd; block = block->after()) {
        if (block->state != Block::State::kUsed) continue;
        const std::string_view tag(block->tag, block->tag_length);
        auto found = tags.find(tag);
        if (found == tags.end()) found = tags.emplace(tag, TagUsage{}).first;
        found->second.bytes += block->requested_bytes;
        ++found->second.allocations;
      }
    }
  }
  std::vector<TagUsage> result;
  for (auto& [tag, usage] : tags) result.push_back({tag, usage.bytes, usage.allocations});
  std::stable_sort(result.begin(), result.end(),
                   [](const TagUsage& a, const TagUsage& b) { return a.bytes > b.bytes; });
  return result;
}

}  // namespace isochron
