#include "isochron/memory/cuda/transfer_ring.h"

#include <algorithm>
#include <cstring>

#include "isochron/core/base/checked.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/counters.h"

namespace isochron::cuda {
namespace {

/// For smaller parts, copying through the slot's memory costs the thread no more than enqueuing one more
/// copy.
constexpr size_t kMinDirectBytes = size_t{64} << 10;

std::vector<size_t> offsets_of(std::span<const size_t> part_bytes) {
  std::vector<size_t> offsets(1, 0);
  for (const size_t bytes : part_bytes)
    offsets.push_back(checked_add(offsets.back(), align_up(bytes, kDeviceAlignment)));
  return offsets;
}

}  // namespace

TransferRing::TransferRing(std::shared_ptr<Gpu> gpu, std::span<const size_t> part_bytes)
    : gpu_(std::move(gpu)),
      stream_(gpu_->context().create_stream(true)),
      offsets_(offsets_of(part_bytes)),
      part_bytes_(part_bytes.begin(), part_bytes.end()),
      blocks_(part_bytes.size()),
      slots_(kSlots),
      marks_(kSlots + 1) {
  const size_t bytes = slot_bytes();
  Context& context = gpu_->context();
  try {
    for (Slot& slot : slots_) {
      slot.device = gpu_->allocate(bytes, "batches");
      slot.pinned = std::make_unique<PinnedBlock>(gpu_, bytes);
      for (size_t p = 0; p < part_bytes.size(); ++p) slot.parts.push_back(slot.device->data() + offsets_[p]);
    }
    gpu_->synchronize();  // pending work may still use the earlier content of these blocks
    for (Marks& marks : marks_) {
      for (Event* event : {&marks.begun, &marks.copied, &marks.used}) *event = context.create_event(true);
    }
  } catch (...) {
    release();
    throw;
  }
}

TransferRing::~TransferRing() { release(); }

void TransferRing::release() {
  Context& context = gpu_->context();
  try {
    context.synchronize(stream_);
    gpu_->synchronize();
    for (const Marks& marks : marks_) {
      for (const Event event : {marks.begun, marks.copied, marks.used})
        if (event != Event::kNone) context.destroy(event);
    }
    for (Slot& slot : slots_) slot.pinned.reset();
    context.destroy(stream_);
  } catch (const Error&) {  // the device is lost, and with it everything on it
  }
}

std::span<std::byte* const> TransferRing::begin(std::span<const std::byte* const> parts) {
  require(parts.size() == part_bytes_.size(), ErrorCode::kInvalidArgument, "transfer",
          "a batch of {} parts, expected {}", parts.size(), part_bytes_.size());
  Context& context = gpu_->context();
  // Retires each batch once, even if a batch is begun again after a failure.
  for (; retired_ + static_cast<int64_t>(kSlots) <= batches_; ++retired_) retire(retired_);
  Slot& slot = slots_[static_cast<size_t>(batches_) % kSlots];
  Marks& marks = marks_of(batches_);
  marks.bytes = 0;
  for (size_t p = 0; p < parts.size(); ++p) {
    blocks_[p] = block_of(parts[p], p);
    if (parts[p] != nullptr && blocks_[p] == nullptr && part_bytes_[p] > 0)
      std::memcpy(slot.pinned->data() + offsets_[p], parts[p], part_bytes_[p]);
  }
  context.record(marks.begun, stream_);  // excludes what the host has copied before
  for (size_t p = 0; p < parts.size();) {
    size_t end = p + 1;
    if (blocks_[p] != nullptr) {
      marks.bytes += copy_from_block(parts[p], p, slot);
    } else if (parts[p] != nullptr) {
      while (end < parts.size() && parts[end] != nullptr && blocks_[end] == nullptr) ++end;
      marks.bytes += copy_staged(p, end, slot);
    }
    p = end;
  }
  context.record(marks.copied, stream_);
  context.wait(gpu_->stream(), marks.copied);
  return slot.parts;
}

/// The block of a part that is worth a separate copy; otherwise null.
PinnedBlock* TransferRing::block_of(const std::byte* part, size_t index) const {
  const size_t bytes = part_bytes_[index];
  return part == nullptr || bytes < kMinDirectBytes ? nullptr : PinnedBlock::holding(part, bytes, *gpu_);
}

size_t TransferRing::copy_from_block(const std::byte* part, size_t index, const Slot& slot) {
  const size_t bytes = part_bytes_[index];
  gpu_->context().copy_to_device(reinterpret_cast<uintptr_t>(slot.parts[index]), part, bytes, stream_);
  blocks_[index]->note_copies(stream_);
  return bytes;
}

/// Copies the parts [first, end) from the slot's page-locked memory.
size_t TransferRing::copy_staged(size_t first, size_t end, const Slot& slot) {
  const size_t bytes = offsets_[end - 1] + part_bytes_[end - 1] - offsets_[first];
  if (bytes > 0) {
    gpu_->context().copy_to_device(reinterpret_cast<uintptr_t>(slot.parts[first]),
                                   slot.pinned->data() + offsets_[first], bytes, stream_);
  }
  return bytes;
}

void TransferRing::end() {
  gpu_->context().record(marks_of(batches_).used, gpu_->stream());
  ++batches_;
}

/// Waits until a batch has been used, and records the cost of its copy.
void TransferRing::retire(int64_t batch) {
  Context& context = gpu_->context();
  const Marks& marks = marks_of(batch);
  if (!context.done(marks.used)) {
    const int64_t began_ns = now_ns();
    context.synchronize(marks.used);
    stats_.waited_ns += static_cast<double>(now_ns() - began_ns);
  }
  ++stats_.transfers;
  stats_.bytes += static_cast<int64_t>(marks.bytes);
  stats_.copy_ns += context.elapsed_ns(marks.begun, marks.copied);
  count(Counter::kTransferBytes, static_cast<int64_t>(marks.bytes));
  if (batch == 0) return;
  // The device had finished the step before and was waiting for this batch. If the copy began later than
  // that, it had waited for the host; that time isn't a cost of the copy.
  const Event step_before = marks_of(batch - 1).used;
  const double idle_ns = context.elapsed_ns(step_before, marks.copied);
  const double exposed_ns = std::clamp(idle_ns, 0.0, context.elapsed_ns(marks.begun, marks.copied));
  stats_.exposed_ns += exposed_ns;
  count(Counter::kExposedCopyNs, static_cast<int64_t>(exposed_ns));
}

}  // namespace isochron::cuda
