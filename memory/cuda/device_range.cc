#include "isochron/memory/cuda/device_range.h"

#include <algorithm>
#include <utility>

#include "isochron/core/base/checked.h"
#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/counters.h"

namespace isochron::cuda {
namespace {

size_t rounded(size_t bytes, size_t granularity) {
  const size_t wanted = std::max<size_t>(bytes, 1);
  require(wanted <= SIZE_MAX / 2, ErrorCode::kOutOfMemory, "cuda", "no device has addresses for {} bytes",
          bytes);
  return (wanted + granularity - 1) / granularity * granularity;
}

}  // namespace

DeviceRange::DeviceRange(std::shared_ptr<Context> context, size_t capacity_bytes)
    : context_(std::move(context)),
      granularity_bytes_(context_->granularity()),
      capacity_bytes_(rounded(capacity_bytes, granularity_bytes_)),
      base_(context_->reserve(capacity_bytes_)) {}

DeviceRange::~DeviceRange() {
  try {
    shrink(0);
    context_->release(base_, capacity_bytes_);
  } catch (const Error&) {  // the device is lost, and its memory with it
  }
}

void DeviceRange::grow(size_t bytes) {
  if (bytes <= mapped_bytes_) return;
  require(!sealed_, ErrorCode::kSealed, "cuda", "device memory would grow from {} to {} bytes after sealing",
          mapped_bytes_, bytes);
  require(bytes <= capacity_bytes_, ErrorCode::kOutOfMemory, "cuda",
          "{} bytes of a range that was reserved for {}", bytes, capacity_bytes_);
  const size_t more = rounded(bytes - mapped_bytes_, granularity_bytes_);
  chunks_.reserve(chunks_.size() + 1);
  const PhysicalMemory memory = context_->create(more);
  try {
    context_->map(base_ + mapped_bytes_, more, memory);
  } catch (...) {
    context_->destroy(memory);
    throw;
  }
  chunks_.push_back({memory, more});
  mapped_bytes_ += more;
  count(Counter::kDeviceBytesReserved, static_cast<int64_t>(more));
}

size_t DeviceRange::shrink(size_t bytes) {
  const size_t before = mapped_bytes_;
  while (!chunks_.empty() && mapped_bytes_ - chunks_.back().bytes >= bytes) {
    const Chunk chunk = chunks_.back();
    context_->unmap(base_ + mapped_bytes_ - chunk.bytes, chunk.bytes);
    chunks_.pop_back();
    mapped_bytes_ -= chunk.bytes;
    count(Counter::kDeviceBytesReserved, -static_cast<int64_t>(chunk.bytes));
    context_->destroy(chunk.memory);
  }
  return before - mapped_bytes_;
}

}  // namespace isochron::cuda
