#include "isochron/memory/cuda/device_allocators.h"

#include <algorithm>
#include <cassert>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/sealed.h"

namespace isochron::cuda {
namespace {

void* pointer_of(DevicePtr address) { return reinterpret_cast<void*>(static_cast<uintptr_t>(address)); }
DevicePtr address_of(void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

/// The size of a block for `bytes`; 0 for more than any device has.
size_t block_bytes(size_t bytes) {
  if (bytes > SIZE_MAX / 4) return 0;
  return std::max(kDeviceAlignment, (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment);
}

void note_taken(AllocatorStats& stats, size_t bytes, size_t block) {
  stats.on_allocate(bytes, block);
  count(Counter::kDeviceBytesInUse, static_cast<int64_t>(block));
}
void note_given(AllocatorStats& stats, size_t bytes, size_t block) {
  stats.on_free(bytes, block);
  count(Counter::kDeviceBytesInUse, -static_cast<int64_t>(block));
}

[[noreturn]] void throw_device_out_of_memory(Context& context, size_t bytes, std::string_view tag,
                                             size_t limit_bytes, const Allocator& allocator) {
  const MemoryInfo info = context.memory_info();
  throw_out_of_memory(
      fmt::format("cuda:{}, {} of its {} bytes free", context.index(), info.free_bytes, info.total_bytes),
      bytes, tag, limit_bytes, allocator);
}

}  // namespace

DevicePool::DevicePool(std::shared_ptr<Context> context, const DevicePoolOptions& options)
    : context_(std::move(context)),
      options_(options),
      range_(context_, std::min(options.max_bytes, context_->properties().total_bytes)) {
  require(options.initial_bytes > 0 && options.initial_bytes <= options.max_bytes,
          ErrorCode::kInvalidArgument, "cuda",
          "a pool of {} bytes at first and {} at most; expected 0 < first <= most", options.initial_bytes,
          options.max_bytes);
}

DevicePool::~DevicePool() {
  assert(stats_.live_allocations == 0 && "an allocator must outlive what it handed out");
}

void DevicePool::add_free(size_t offset, size_t bytes) {
  auto next = blocks_.lower_bound(offset);
  if (next != blocks_.end() && !next->second.used && offset + bytes == next->first) {
    by_size_.erase({next->second.bytes, next->first});
    bytes += next->second.bytes;
    next = blocks_.erase(next);
  }
  if (next != blocks_.begin()) {
    const auto before = std::prev(next);
    if (!before->second.used && before->first + before->second.bytes == offset) {
      by_size_.erase({before->second.bytes, before->first});
      offset = before->first;
      bytes += before->second.bytes;
      blocks_.erase(before);
    }
  }
  blocks_[offset] = {bytes};
  by_size_.emplace(bytes, offset);
}

DevicePool::Blocks::iterator DevicePool::fitting(size_t bytes) {
  const auto found = by_size_.lower_bound({bytes, 0});
  return found == by_size_.end() ? blocks_.end() : blocks_.find(found->second);
}

bool DevicePool::grow(size_t bytes) {
  const size_t mapped = range_.mapped_bytes();
  if (mapped > 0 && !options_.grow_on_demand) return false;
  // The free block at the end is used too.
  const auto last = blocks_.empty() ? blocks_.end() : std::prev(blocks_.end());
  const size_t at_end = last == blocks_.end() || last->second.used ? 0 : last->second.bytes;
  const size_t least = mapped + bytes - at_end;
  if (least > range_.capacity_bytes()) return false;
  const size_t wanted = std::max({least, 2 * mapped, options_.initial_bytes});
  bool refused = false;
  for (const size_t size : {std::min(wanted, range_.capacity_bytes()), least}) {
    try {
      range_.grow(size);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      refused = true;
      continue;
    }
    ++stats_.system_allocations;
    count(Counter::kSystemAllocations, 1);
    if (refused) stats_.retry();
    add_free(mapped, range_.mapped_bytes() - mapped);
    return true;
  }
  return false;
}

void* DevicePool::allocate(size_t bytes, std::string_view tag) {
  note_made(Made::kAllocation, bytes, tag);
  const size_t block = block_bytes(bytes);
  {
    std::lock_guard lock(mutex_);
    auto found = block == 0 ? blocks_.end() : fitting(block);
    if (found == blocks_.end() && block > 0 && grow(block)) found = fitting(block);
    if (found != blocks_.end()) {
      const size_t offset = found->first, rest = found->second.bytes - block;
      by_size_.erase({found->second.bytes, offset});
      found->second = {block, true, std::string(tag), bytes};
      if (rest > 0) {
        blocks_[offset + block] = {rest};
        by_size_.emplace(rest, offset + block);
      }
      note_taken(stats_, bytes, block);
      return pointer_of(range_.base() + offset);
    }
    ++stats_.retries;  // the function that throws counts it in Counter::kMemoryRetries
  }
  throw_device_out_of_memory(*context_, bytes, tag, options_.max_bytes, *this);
}

void DevicePool::deallocate(void* pointer, size_t bytes) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address_of(pointer) - range_.base());
  assert(found != blocks_.end() && found->second.used && "not of this pool");
  const size_t block = found->second.bytes;
  note_given(stats_, bytes, block);
  const size_t offset = found->first;
  blocks_.erase(found);
  add_free(offset, block);
}

size_t DevicePool::trim() {
  std::lock_guard lock(mutex_);
  if (blocks_.empty()) return 0;
  const auto last = std::prev(blocks_.end());
  if (last->second.used) return 0;
  const size_t offset = last->first, bytes = last->second.bytes;
  const size_t gone = range_.shrink(offset);
  if (gone == 0) return 0;
  by_size_.erase({bytes, offset});
  blocks_.erase(last);
  if (gone < bytes) add_free(offset, bytes - gone);
  return gone;
}

AllocatorStats DevicePool::stats() const {
  std::lock_guard lock(mutex_);
  AllocatorStats stats = stats_;
  stats.reserved_bytes = range_.mapped_bytes();
  stats.free_bytes = stats.reserved_bytes - stats.in_use_bytes;
  stats.largest_free_bytes = by_size_.empty() ? 0 : by_size_.rbegin()->first;
  return stats;
}

std::vector<TagUsage> DevicePool::usage_by_tag() const {
  std::map<std::string, TagUsage> tags;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [offset, block] : blocks_) {
      if (!block.used) continue;
      TagUsage& usage = tags[block.tag];
      usage.tag = block.tag;
      usage.bytes += block.requested_bytes;
      ++usage.allocations;
    }
  }
  std::vector<TagUsage> result;
  for (auto& [name, usage] : tags) result.push_back(std::move(usage));
  std::stable_sort(result.begin(), result.end(),
                   [](const TagUsage& a, const TagUsage& b) { return a.bytes > b.bytes; });
  return result;
}

DirectDeviceAllocator::~DirectDeviceAllocator() {
  assert(stats_.live_allocations == 0 && "an allocator must outlive what it handed out");
}

void* DirectDeviceAllocator::allocate(size_t bytes, std::string_view tag) {
  note_made(Made::kAllocation, bytes, tag);
  const size_t block = block_bytes(bytes);
  DevicePtr address = 0;
  try {
    if (block > 0) address = allocate_block(block);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
  }
  if (address == 0) throw_device_out_of_memory(*context_, bytes, tag, kNoByteLimit, *this);
  std::lock_guard lock(mutex_);
  note_taken(stats_, bytes, block);
  count(Counter::kDeviceBytesReserved, static_cast<int64_t>(block));
  return pointer_of(address);
}

void DirectDeviceAllocator::deallocate(void* pointer, size_t bytes) noexcept {
  const size_t block = block_bytes(bytes);
  try {
    free_block(address_of(pointer));
  } catch (const Error&) {  // the device is lost, and its memory with it
  }
  std::lock_guard lock(mutex_);
  note_given(stats_, bytes, block);
  count(Counter::kDeviceBytesReserved, -static_cast<int64_t>(block));
}

DevicePtr NaiveDeviceAllocator::allocate_block(size_t bytes) {
  const DevicePtr taken = context_->allocate(bytes);
  count(Counter::kSystemAllocations, 1);
  return taken;
}

AllocatorStats DirectDeviceAllocator::stats() const {
  std::lock_guard lock(mutex_);
  AllocatorStats stats = stats_;
  stats.reserved_bytes = stats.in_use_bytes;
  stats.system_allocations = stats.total_allocations;
  return stats;
}

size_t AsyncDeviceAllocator::trim() {
  context_->synchronize(stream_);
  const size_t before = context_->pool_reserved_bytes();
  context_->pool_trim();
  return before - context_->pool_reserved_bytes();
}

AllocatorStats AsyncDeviceAllocator::stats() const {
  AllocatorStats stats = DirectDeviceAllocator::stats();
  stats.reserved_bytes = std::max(stats.in_use_bytes, context_->pool_reserved_bytes());
  return stats;
}

}  // namespace isochron::cuda
