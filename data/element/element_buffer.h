// ElementBuffer: memory for one element that is reused again and again: for a batch of the pipeline, or for
// the latest element of a stream source.
#pragma once

#include <memory>
#include <vector>

#include "isochron/data/element/layout.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/data/element/state.h"

namespace isochron::cuda {
class Gpu;
}

namespace isochron::data {

class ElementBuffer {
 public:
  /// `layout` may have extents that vary. It must outlive the buffer. `gpu`: the device to which elements
  /// are copied; the memory is then page-locked if the system supports it. Null: ordinary memory.
  explicit ElementBuffer(const Layout& layout, std::shared_ptr<cuda::Gpu> gpu = nullptr);

  /// Memory for tensor `index` with `shape`, which must fit the layout. Waits for copies of the previous
  /// content to the device; handles on that content become stale. Allocates only if the tensor is larger than
  /// any before it. Throws kOutOfRange for an index beyond the layout, kShapeMismatch for a shape that
  /// doesn't fit it, kOutOfMemory, kOverflow.
  std::byte* room(int index, const Shape& shape);
  /// Memory for tensor `index`, whose shape the layout fixes.
  std::byte* room(int index);
  /// Copies an element of the same layout. Throws kShapeMismatch for another layout and kInvalidArgument for
  /// strided tensors; `where` names the stage.
  void copy(const Element& element, std::string_view where);

  /// What was written last.
  const Element& element() const { return element_; }
  /// Ends the element's validity: from now on, reading handles to it throws kStale.
  void retire();
  const Layout& layout() const { return *layout_; }

  void save(StateWriter& state) const;
  void restore(StateReader& state);

 private:
  class BufferStorage;
  static const size_t kTensorBytes;
  void require_fits(size_t index, const Shape& shape) const;

  Tensor& handle_for(size_t index, const TensorSpec& spec);

  /// How many handles per tensor are kept for recurring shapes. A further shape reuses the oldest handle
  /// that nobody else holds.
  static constexpr size_t kMaxShapes = 8;

  MemoryCharge charge_;  // for all below, and the buffer itself
  const Layout* layout_;
  std::vector<Ref<Storage>> storages_;
  std::vector<std::vector<Tensor>> shapes_;  // for each tensor, one handle per shape seen, newest last
  Element element_;
};

}  // namespace isochron::data
