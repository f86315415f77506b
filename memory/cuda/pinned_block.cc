#include "isochron/memory/cuda/pinned_block.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

#include "isochron/core/base/error.h"

namespace isochron::cuda {
namespace {

/// All blocks of the process, by the address of their first byte.
struct Blocks {
  std::mutex mutex;
  std::map<const std::byte*, PinnedBlock*, std::less<>> all;
};
Blocks& blocks() {
  static auto* const blocks = new Blocks;  // never destroyed: tensors may outlive everything
  return *blocks;
}

}  // namespace

PinnedBlock::PinnedBlock(std::shared_ptr<Gpu> gpu, size_t bytes)
    : gpu_(std::move(gpu)), bytes_(std::max<size_t>(bytes, 1)) {
  Context& context = gpu_->context();
  copied_ = context.create_event(false);
  try {
    data_ = static_cast<std::byte*>(context.allocate_pinned(bytes_));
  } catch (...) {
    context.destroy(copied_);
    throw;
  }
  gpu_->note_pinned(static_cast<int64_t>(bytes_));
  const std::scoped_lock lock(blocks().mutex);
  blocks().all.emplace(data_, this);
}

PinnedBlock::~PinnedBlock() {
  wait();
  {
    const std::scoped_lock lock(blocks().mutex);
    blocks().all.erase(data_);
  }
  gpu_->note_pinned(-static_cast<int64_t>(bytes_));
  try {
    gpu_->synchronize();  // the driver would wait for the device anyway
    gpu_->context().free_pinned(data_);
    gpu_->context().destroy(copied_);
  } catch (const Error&) {  // the device is lost, and with it everything on it
  }
}

PinnedBlock* PinnedBlock::holding(const std::byte* data, size_t bytes, const Gpu& gpu) {
  const std::scoped_lock lock(blocks().mutex);
  auto found = blocks().all.upper_bound(data);
  if (found == blocks().all.begin()) return nullptr;
  PinnedBlock* const block = (--found)->second;
  const auto offset = static_cast<size_t>(data - block->data());
  const bool within = offset <= block->size_bytes() && bytes <= block->size_bytes() - offset;
  return within && block->gpu_.get() == &gpu ? block : nullptr;
}

void PinnedBlock::note_copies(Stream stream) {
  Context& context = gpu_->context();
  if (copies_) context.wait(stream, copied_);  // of another stream, it may be
  context.record(copied_, stream);
  copies_ = true;
}

void PinnedBlock::wait() noexcept {
  if (!copies_) return;
  copies_ = false;
  try {
    if (!gpu_->context().done(copied_)) gpu_->context().synchronize(copied_);
  } catch (const Error&) {  // later work on the device reports the error
  }
}

}  // namespace isochron::cuda
