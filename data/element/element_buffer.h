// ElementBuffer: memory for one element that is filled again and again: a batch of the pipeline, or what a
// source that gives elements one after the other gave last.
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
  /// `layout` may have extents that vary. It must outlive the buffer. `gpu`: the device that elements are
  /// copied to, from page-locked memory as far as the system gives that; null for ordinary memory.
  explicit ElementBuffer(const Layout& layout, std::shared_ptr<cuda::Gpu> gpu = nullptr);

  /// Memory for tensor `index` with `shape`, which must fit the layout. What lay there before is stale;
  /// copies of it to the device are waited for. Asks for new memory only where the tensor is larger than all
  /// before it. Throws kOutOfMemory, kOverflow.
  std::byte* room(int index, const Shape& shape);
  /// Memory for tensor `index`, whose shape the layout fixes.
  std::byte* room(int index);
  /// Takes a copy of an element of the same layout. Throws kShapeMismatch for one of another,
  /// kInvalidArgument for strided tensors; `where` names the stage.
  void copy(const Element& element, std::string_view where);

  /// What was written last.
  const Element& element() const { return element_; }
  /// Ends its time: reading handles on it throws kStale from now on.
  void retire();
  const Layout& layout() const { return *layout_; }

  void save(StateWriter& state) const;
  void restore(StateReader& state);

 private:
  class BufferStorage;
  static const size_t kTensorBytes;
  void require_fits(size_t index, const Shape& shape) const;

  Tensor& handle_for(size_t index, const TensorSpec& spec);

  /// Handles that are kept for shapes that come again; a further shape takes the oldest one that nobody else
  /// has.
  static constexpr size_t kMaxShapes = 8;

  MemoryCharge charge_;  // for all below, and the buffer itself
  const Layout* layout_;
  std::vector<Ref<Storage>> storages_;
  std::vector<std::vector<Tensor>> shapes_;  // for each tensor, one handle a shape seen, newest last
  Element element_;
};

}  // namespace isochron::data
