#include "isochron/data/element/element_buffer.h"

#include <algorithm>
#include <cstring>

#include "isochron/data/element/pipeline_memory.h"
#include "isochron/data/element/stacking.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/cuda/pinned_block.h"

namespace isochron::data {

namespace {

/// A block that counts as memory of the pipeline's allocator.
struct ChargedBlock {
  ChargedBlock(std::shared_ptr<cuda::Gpu> gpu, size_t bytes) : charge(bytes), block(std::move(gpu), bytes) {}
  MemoryCharge charge;
  cuda::PinnedBlock block;
};

}  // namespace

/// Memory that grows; its tensors use the front of it.
class ElementBuffer::BufferStorage final : public Storage {
 public:
  explicit BufferStorage(std::shared_ptr<cuda::Gpu> gpu) : Storage(nullptr, 0), gpu_(std::move(gpu)) {}
  void wait_for_copies() noexcept {
    if (pinned_) pinned_->block.wait();
  }
  void reserve(size_t bytes) {
    if (bytes <= size_bytes() && (memory_ || pinned_)) return;
    if (gpu_ && pin(bytes)) return;
    memory_ = Buffer::create(pipeline_allocator(), bytes, "element");
    pinned_.reset();
    rebind(memory_->data(), bytes);
  }
  bool overwritten() const override { return true; }
  std::string owner() const override { return "the next element of its dataset"; }

 private:
  /// False if the system has no such memory; the copy then uses other memory.
  bool pin(size_t bytes) {
    try {
      pinned_ = std::make_unique<ChargedBlock>(gpu_, bytes);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kOutOfMemory) throw;
      gpu_.reset();
      return false;
    }
    rebind(pinned_->block.data(), bytes);
    return true;
  }

  std::shared_ptr<cuda::Gpu> gpu_;
  Ref<Storage> memory_;
  std::unique_ptr<ChargedBlock> pinned_;  // instead, for copies to gpu_
};

// The overhead of a tensor in a buffer: the storage, its entries in lists, and the pool's header and
// rounding.
constexpr size_t kPoolBlockBytes = 2 * kCpuAlignment;
const size_t ElementBuffer::kTensorBytes = sizeof(BufferStorage) + kHeapBlockBytes + sizeof(Ref<Storage>) +
                                           sizeof(std::vector<Tensor>) + kPoolBlockBytes;
// The overhead of each handle to it.
constexpr size_t kHandleBytes = sizeof(TensorImpl) + kHeapBlockBytes + sizeof(Tensor);

ElementBuffer::ElementBuffer(const Layout& layout, std::shared_ptr<cuda::Gpu> gpu)
    : charge_(sizeof(ElementBuffer) + 2 * kHeapBlockBytes + layout.names.size() * kTensorBytes),
      layout_(&layout),
      shapes_(layout.names.size()) {
  storages_.reserve(layout.names.size());
  for (const std::string& name : layout.names) {
    storages_.push_back(make_ref<BufferStorage>(gpu));
    element_.add(name, Tensor());
  }
}

std::byte* ElementBuffer::room(int index, const Shape& shape) {
  const auto at = static_cast<size_t>(index);
  if (at >= storages_.size()) [[unlikely]]
    fail(ErrorCode::kOutOfRange, "element", "position {} is outside [0, {})", index, storages_.size());
  auto* storage = static_cast<BufferStorage*>(storages_[at].get());
  storage->next_generation();
  storage->wait_for_copies();
  Tensor& tensor = element_[index];
  if (tensor.defined() && tensor.shape() == shape) {
    tensor.refresh();
    return tensor.raw();
  }
  std::vector<Tensor>& known = shapes_[at];
  const auto found = std::ranges::find_if(known, [&](const Tensor& other) { return other.shape() == shape; });
  if (found != known.end()) {
    tensor = found->refreshed();
    return tensor.raw();
  }
  require_fits(at, shape);
  const TensorSpec spec{layout_->specs[at].dtype, shape};
  storage->reserve(spec.size_bytes());
  tensor = handle_for(at, spec).refreshed();
  return tensor.raw();
}

/// A handle to tensor `index` for a shape that it hasn't had, or had too long ago.
Tensor& ElementBuffer::handle_for(size_t index, const TensorSpec& spec) {
  std::vector<Tensor>& known = shapes_[index];
  if (known.size() == kMaxShapes) {
    element_[static_cast<int>(index)] = Tensor();
    const auto old =
        std::ranges::find_if(known, [](const Tensor& handle) { return handle.impl()->unique(); });
    if (old != known.end()) {
      TensorImpl& impl = *old->impl();
      impl.spec = spec;
      impl.strides = contiguous_strides(spec.shape);
      impl.elems = spec.shape.elems();
      std::rotate(old, old + 1, known.end());
      return known.back();
    }
    known.erase(known.begin());
  }
  if (known.size() == known.capacity()) {
    // The vector doubles its capacity; its present entries have been charged already.
    const size_t more = std::max<size_t>(1, known.size());
    charge_.add(more * kHandleBytes + (known.empty() ? kHeapBlockBytes : 0));
    known.reserve(known.size() + more);
  }
  return known.emplace_back(Tensor::over(storages_[index], spec));
}

std::byte* ElementBuffer::room(int index) {
  const auto at = static_cast<size_t>(index);
  if (at >= storages_.size()) [[unlikely]]
    fail(ErrorCode::kOutOfRange, "element", "position {} is outside [0, {})", index, storages_.size());
  return room(index, layout_->specs[at].shape);
}

void ElementBuffer::require_fits(size_t index, const Shape& shape) const {
  const Shape& declared = layout_->specs[index].shape;
  bool fits = declared.rank() == shape.rank();
  for (int axis = 0; fits && axis < shape.rank(); ++axis) {
    fits = declared[axis] == kAnyExtent || declared[axis] == shape[axis];
  }
  require(fits, ErrorCode::kShapeMismatch, "element", "'{}' is declared {}, got {}", layout_->names[index],
          declared.str(), shape.str());
}

void ElementBuffer::retire() {
  for (const Ref<Storage>& storage : storages_) storage->next_generation();
}

void ElementBuffer::copy(const Element& element, std::string_view where) {
  if (!layout_->matches(element)) {
    fail(ErrorCode::kShapeMismatch, where, "expected {}, got {}", layout_->str(), element.str());
  }
  for (int i = 0; i < element.size(); ++i) {
    require_contiguous(element, i, where);
    copy_tensor(element, i, room(i, element[i].shape()), where);
  }
}

void ElementBuffer::save(StateWriter& state) const {
  for (int i = 0; i < element_.size(); ++i) {
    const Tensor& tensor = element_[i];
    for (int64_t extent : tensor.shape()) state.put(extent);
    state.put_bytes({tensor.raw(), tensor.size_bytes()});
  }
}

void ElementBuffer::restore(StateReader& state) {
  for (size_t i = 0; i < storages_.size(); ++i) {
    TensorSpec spec = layout_->specs[i];
    for (int64_t& extent : spec.shape) {
      const int64_t read = state.get_between(0, INT64_MAX, "an extent");
      if (extent != kAnyExtent && extent != read) state.refuse("an element of this dataset");
      extent = read;
    }
    const auto bytes = state.get_bytes();
    if (bytes.size() != spec.size_bytes()) state.refuse("an element's bytes");
    std::byte* to = room(static_cast<int>(i), spec.shape);
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  }
}

}  // namespace isochron::data
