#include "isochron/memory/allocators/adaptors.h"

#include <algorithm>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/counters.h"

namespace isochron {

void* TrackingAllocator::allocate(size_t bytes, std::string_view tag) {
  void* pointer = nullptr;
  try {
    pointer = upstream_.allocate(bytes, tag);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory || !upstream_.usage_by_tag().empty()) throw;
    fail(ErrorCode::kOutOfMemory, "tracking", "{} (in use by tag: {})", error.what(),
         describe_usage(usage_by_tag()));
  }
  try {
    std::lock_guard lock(mutex_);
    auto entry = tags_.find(tag);
    if (entry == tags_.end()) entry = tags_.emplace(tag, TagUsage{std::string(tag)}).first;
    live_.emplace(pointer, entry);
    entry->second.bytes += bytes;
    ++entry->second.allocations;
  } catch (...) {
    upstream_.deallocate(pointer, bytes);
    throw;
  }
  return pointer;
}

void TrackingAllocator::deallocate(void* pointer, size_t bytes) noexcept {
  {
    std::lock_guard lock(mutex_);
    const auto live = live_.find(pointer);
    const auto entry = live->second;
    live_.erase(live);
    entry->second.bytes -= bytes;
    if (--entry->second.allocations == 0) tags_.erase(entry);
  }
  upstream_.deallocate(pointer, bytes);
}

std::vector<TagUsage> TrackingAllocator::usage_by_tag() const {
  std::vector<TagUsage> result;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [tag, usage] : tags_) result.push_back(usage);
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const TagUsage& a, const TagUsage& b) { return a.bytes > b.bytes; });
  return result;
}

void LimitingAllocator::refuse(size_t bytes, std::string_view tag) const {
  throw_out_of_memory("limit", bytes, tag, limit_bytes_, upstream_);
}

bool LimitingAllocator::try_claim(size_t bytes) noexcept {
  size_t live = live_bytes_;
  do {
    const size_t limit = limit_bytes_;
    if (live > limit || bytes > limit - live) return false;
  } while (!live_bytes_.compare_exchange_weak(live, live + bytes));
  return true;
}

void LimitingAllocator::claim(size_t bytes, std::string_view tag) {
  if (!try_claim(bytes)) refuse(bytes, tag);
}

void* LimitingAllocator::allocate(size_t bytes, std::string_view tag) {
  claim(bytes, tag);
  try {
    return upstream_.allocate(bytes, tag);
  } catch (...) {
    release(bytes);
    throw;
  }
}

void LimitingAllocator::deallocate(void* pointer, size_t bytes) noexcept {
  upstream_.deallocate(pointer, bytes);
  release(bytes);
}

void* FailingAllocator::allocate(size_t bytes, std::string_view tag) {
  const int64_t call = ++calls_;
  require(call != failing_, ErrorCode::kOutOfMemory, "failing",
          "allocation {} ({} bytes of '{}') was told to fail", call, bytes, tag);
  return upstream_.allocate(bytes, tag);
}

LoggingAllocator::LoggingAllocator(Allocator& upstream, std::ostream& out, int64_t max_rows)
    : AllocatorAdaptor(upstream), out_(out), max_rows_(max_rows) {
  out_ << "sequence,op,bytes,tag,address_id\n";
}

void* LoggingAllocator::allocate(size_t bytes, std::string_view tag) {
  void* pointer = nullptr;
  try {
    pointer = upstream_.allocate(bytes, tag);
  } catch (...) {
    std::lock_guard lock(mutex_);
    write_row("fail", bytes, tag, 0);
    throw;
  }
  try {
    std::lock_guard lock(mutex_);
    live_.insert_or_assign(pointer, Live{ids_ + 1, std::string(tag)});
    write_row("allocate", bytes, tag, ++ids_);
  } catch (...) {
    upstream_.deallocate(pointer, bytes);
    throw;
  }
  return pointer;
}

void LoggingAllocator::deallocate(void* pointer, size_t bytes) noexcept {
  {
    std::lock_guard lock(mutex_);
    const auto live = live_.find(pointer);
    write_row("deallocate", bytes, live->second.tag, live->second.id);
    live_.erase(live);
  }
  upstream_.deallocate(pointer, bytes);
}

void LoggingAllocator::write_row(std::string_view op, size_t bytes, std::string_view tag, int64_t id) {
  if (rows_ >= max_rows_) {
    count(Counter::kDropped, 1);
    return;
  }
  out_ << ++rows_ << ',' << op << ',' << bytes << ',';
  if (tag.find_first_of(",\"\n\r") == std::string_view::npos) {
    out_ << tag;
  } else {
    out_ << '"';
    for (char c : tag) out_ << (c == '"' ? "\"\"" : std::string_view(&c, 1));
    out_ << '"';
  }
  out_ << ',' << id << '\n';
}

}  // namespace isochron
