#include "isochron/data/pipeline/element_builder.h"

#include <algorithm>
#include <cstring>

#include "isochron/data/element/element_slots.h"
#include "isochron/data/element/stacking.h"
#include "isochron/memory/cuda/gpu.h"

namespace isochron::data {

/// A view of a row of a source in memory, which moves from row to row.
class ElementBuilder::RowStorage final : public Storage {
 public:
  RowStorage(std::shared_ptr<const RowSource> source, size_t row_bytes)
      : Storage(nullptr, row_bytes), source_(std::move(source)) {}
  void point_at(std::byte* row) { rebind(row, size_bytes()); }
  bool overwritten() const override { return true; }
  std::string owner() const override { return "the next element of its dataset"; }

 private:
  std::shared_ptr<const RowSource> source_;
};

namespace {

/// Allocates memory and handles in advance if shapes are known.
void take_room(ElementBuffer& buffer, const std::vector<Layout>& forms) {
  for (const Layout& layout : forms) {
    for (size_t i = 0; i < layout.specs.size(); ++i) {
      const Shape& shape = layout.specs[i].shape;
      if (!shape.contains(kAnyExtent)) buffer.room(static_cast<int>(i), shape);
    }
  }
}

/// The device for which `level` is made in page-locked memory: only elements of the last level, which are
/// delivered.
std::shared_ptr<cuda::Gpu> gpu_of(const Recipe& recipe, size_t level) {
  if (recipe.device.is_cpu() || level + 1 < recipe.levels.size()) return nullptr;
  return cuda::gpu(recipe.device);
}

}  // namespace

ElementBuilder::ElementBuilder(const Recipe& recipe, size_t level, const ElementSlots* slots, bool concurrent)
    : recipe_(recipe),
      slots_(slots),
      concurrent_(concurrent),
      level_(recipe.levels[level]),
      memory_(level_.memory, level_.maps.empty() ? gpu_of(recipe, level) : nullptr) {
  for (const MapStage& map : level_.maps) {
    const bool last = &map == &level_.maps.back();
    outputs_.push_back(
        map.into ? std::make_unique<ElementBuffer>(map.memory, last ? gpu_of(recipe, level) : nullptr)
                 : nullptr);
    if (map.into) take_room(*outputs_.back(), map.results);
  }
  if (level > 0) child_ = std::make_unique<ElementBuilder>(recipe, level - 1, slots, concurrent);
  if (recipe_.rows) {
    const size_t tensors = recipe.levels[0].memory.specs.size();
    for (size_t i = 0; i < tensors; ++i) bases_.push_back(recipe_.rows->first_row(static_cast<int>(i)));
    into_.resize(tensors);
  }
  if (std::ranges::find(bases_, nullptr) != bases_.end()) std::ranges::fill(bases_, nullptr);
  const bool in_memory = recipe_.rows && bases_[0] != nullptr;
  if (!child_ && in_memory) make_row_views();
  if (child_ || (recipe_.rows && !in_memory)) take_room(memory_, level_.inputs);
}

void ElementBuilder::make_row_views() {
  const Layout& layout = level_.inputs[kFull];
  for (size_t i = 0; i < layout.specs.size(); ++i) {
    row_storages_.push_back(make_ref<RowStorage>(recipe_.rows, layout.specs[i].size_bytes()));
    row_.add(layout.names[i], Tensor::over(row_storages_[i], layout.specs[i]));
  }
}

const Element& ElementBuilder::fill(std::span<const int64_t> indices, const Position& position) {
  const Element& input = make_input(indices, position);
  if (level_.maps.empty()) return input;
  const size_t form = level_.inputs.size() == 1 ? 0 : form_of(input);
  result_ = input;
  for (size_t i = 0; i < level_.maps.size(); ++i) {
    const MapStage& map = level_.maps[i];
    {
      std::unique_lock<std::mutex> turn;
      if (concurrent_ && map.one_at_a_time) turn = std::unique_lock(*map.one_at_a_time);
      call_map(map, result_, outputs_[i].get(), position);
    }
    if (!map.results[form].matches(result_)) {
      fail(ErrorCode::kShapeMismatch, fmt::format("map (stage {})", map.number),
           "element {} of epoch {}, row {}: expected {}, got {}; a map function gives every element the same "
           "names and signature; for extents that vary, give MapOptions::result with kAnyExtent",
           position.element, position.epoch, position.row, map.results[form].str(), result_.str());
    }
  }
  return result_;
}

void ElementBuilder::retire() {
  memory_.retire();
  for (const auto& output : outputs_) {
    if (output) output->retire();
  }
  for (const Ref<Storage>& storage : row_storages_) storage->next_generation();
}

const Element& ElementBuilder::make_input(std::span<const int64_t> indices, const Position& position) {
  if (child_) return stack(indices, position);
  if (recipe_.stream) return slots_->at(indices[0]).buffer.element();
  return read_row(position);
}

/// Reads a row to `into_`. An Error already names the file and the place in it.
void ElementBuilder::read_source(const Position& position) {
  try {
    recipe_.rows->read(position, into_);
  } catch (const Error&) {
    throw;
  } catch (...) {
    rethrow_in_stage("source", 0, position);
  }
}

const Element& ElementBuilder::read_row(const Position& position) {
  if (row_storages_.empty()) {
    for (size_t i = 0; i < into_.size(); ++i) into_[i] = memory_.room(static_cast<int>(i));
    read_source(position);
    return memory_.element();
  }
  for (size_t i = 0; i < row_storages_.size(); ++i) {
    auto* storage = static_cast<RowStorage*>(row_storages_[i].get());
    storage->point_at(recipe_.rows->first_row(static_cast<int>(i)) +
                      static_cast<size_t>(position.row) * storage->size_bytes());
    row_[static_cast<int>(i)].refresh();
  }
  return row_;
}

const Element& ElementBuilder::stack(std::span<const int64_t> indices, const Position& position) {
  const auto child_rows = static_cast<int64_t>(child_->level_.rows);
  int64_t elems = (static_cast<int64_t>(indices.size()) + child_rows - 1) / child_rows;
  if (level_.marks_valid) {
    while (indices[static_cast<size_t>((elems - 1) * child_rows)] == kNoRow) --elems;
    indices = indices.first(static_cast<size_t>(elems * child_rows));
  }
  const bool full = level_.marks_valid || elems == level_.batch_elems;
  const bool planned =
      full || (level_.inputs.size() > kPartial && level_.inputs[kPartial].specs[0].shape[0] == elems);
  require(planned, ErrorCode::kShapeMismatch, "batch",
          "a batch of {} elements instead of {}; the number of elements that the source yields differs from "
          "its size()",
          elems, level_.batch_elems);
  const Layout& layout = level_.inputs[full ? kFull : kPartial];
  if (!layout.fixed()) {
    stack_ragged(indices, position);
    return memory_.element();
  }
  for (size_t i = 0; i < layout.specs.size(); ++i) memory_.room(static_cast<int>(i), layout.specs[i].shape);
  if (recipe_.rows && !child_->child_ && child_->level_.maps.empty() && !level_.padded) {
    gather_rows(indices, position);
  } else {
    each_child(indices, position,
               [&](const Element& child, int64_t index) { place(child, index, indices, position); });
  }
  if (level_.marks_valid) mark_valid(elems);
  return memory_.element();
}

void ElementBuilder::gather_rows(std::span<const int64_t> rows, const Position& position) {
  const Element& batch = memory_.element();
  if (bases_[0] == nullptr) {
    for (size_t n = 0; n < rows.size(); ++n) {
      for (size_t i = 0; i < into_.size(); ++i) {
        const Tensor& tensor = batch[static_cast<int>(i)];
        into_[i] = tensor.raw() + n * (tensor.size_bytes() / static_cast<size_t>(tensor.extent(0)));
      }
      read_source(child_position(rows, position, static_cast<int64_t>(n)));
    }
    return;
  }
  for (size_t i = 0; i < bases_.size(); ++i) {
    const std::byte* base = recipe_.rows->first_row(static_cast<int>(i));
    const size_t row_bytes = recipe_.levels[0].inputs[kFull].specs[i].size_bytes();
    std::byte* to = batch[static_cast<int>(i)].raw();
    for (int64_t row : rows) {
      std::memcpy(to, base + static_cast<size_t>(row) * row_bytes, row_bytes);
      to += row_bytes;
    }
  }
}

/// Prefetches the beginning of a row, because in shuffled order the processor can't predict it.
void ElementBuilder::prefetch_row(int64_t row) const {
  constexpr size_t kLine = 64, kMaxBytes = 1024;
  for (size_t i = 0; i < bases_.size(); ++i) {
    const size_t row_bytes = recipe_.levels[0].inputs[kFull].specs[i].size_bytes();
    const std::byte* from = bases_[i] + static_cast<size_t>(row) * row_bytes;
    for (size_t at = 0; at < std::min(row_bytes, kMaxBytes); at += kLine) __builtin_prefetch(from + at);
  }
}

/// Makes the elements of a batch and passes each to `use` with its place.
template <typename Use>
void ElementBuilder::each_child(std::span<const int64_t> indices, const Position& position, Use use) {
  constexpr size_t kPrefetchedElems = 4;
  const bool in_memory = !bases_.empty() && bases_[0] != nullptr;
  const auto child_rows = static_cast<size_t>(child_->level_.rows);
  for (size_t at = 0, n = 0; at < indices.size(); at += child_rows, ++n) {
    const auto child_indices = indices.subspan(at, std::min(child_rows, indices.size() - at));
    child_->retire();
    if (const size_t ahead = at + kPrefetchedElems * child_rows;
        in_memory && ahead < indices.size() && indices[ahead] != kNoRow) {
      prefetch_row(indices[ahead]);
    }
    const auto index = static_cast<int64_t>(n);
    use(child_->fill(child_indices, child_position(indices, position, index)), index);
  }
}

/// The position of the `index`th element of a batch.
Position ElementBuilder::child_position(std::span<const int64_t> indices, const Position& position,
                                        int64_t index) const {
  const int64_t first = indices[static_cast<size_t>(index * child_->level_.rows)];
  return {position.epoch, position.element * level_.batch_elems + index,
          recipe_.stream ? slots_->at(first).row : first, position.branch};
}

/// Makes a batch whose extents are those of its largest elements.
void ElementBuilder::stack_ragged(std::span<const int64_t> indices, const Position& position) {
  const Layout& row = child_->level_.results()[kFull];
  int64_t elems = 0;
  each_child(indices, position, [&](const Element& child, int64_t index) {
    if (static_cast<size_t>(index) == ragged_.size()) ragged_.push_back(std::make_unique<ElementBuffer>(row));
    ragged_[static_cast<size_t>(index)]->copy(child, "padded_batch");
    elems = index + 1;
  });
  for (size_t i = 0; i < row.specs.size(); ++i) {
    Shape shape = level_.inputs[kFull].specs[i].shape;
    if (!level_.marks_valid) shape[0] = elems;
    for (int axis = 1; axis < shape.rank(); ++axis) {
      if (shape[axis] != kAnyExtent) continue;
      shape[axis] = 0;
      for (int64_t n = 0; n < elems; ++n) {
        const Tensor& tensor = ragged_[static_cast<size_t>(n)]->element()[static_cast<int>(i)];
        shape[axis] = std::max(shape[axis], tensor.extent(axis - 1));
      }
    }
    memory_.room(static_cast<int>(i), shape);
  }
  for (int64_t n = 0; n < elems; ++n) {
    place(ragged_[static_cast<size_t>(n)]->element(), n, indices, position);
  }
  if (level_.marks_valid) {
    const int last = memory_.element().size() - 1;
    memory_.room(last, level_.inputs[kFull].specs[static_cast<size_t>(last)].shape);
    mark_valid(elems);
  }
}

/// Copies an element to its place in the batch.
void ElementBuilder::place(const Element& child, int64_t index, std::span<const int64_t> indices,
                           const Position& position) {
  for (int i = 0; i < child.size(); ++i) {
    const Tensor& tensor = child[i];
    require_contiguous(child, i, "batch");
    const Tensor& batch = memory_.element()[i];
    const size_t place_bytes = batch.size_bytes() / static_cast<size_t>(batch.extent(0));
    std::byte* to = batch.raw() + static_cast<size_t>(index) * place_bytes;
    if (!level_.padded) {
      std::memcpy(to, tensor.raw(), place_bytes);
    } else {
      const Shape place_shape(batch.shape().span().subspan(1));
      try {
        copy_padded(tensor, place_shape, level_.padding[static_cast<size_t>(i)], to, child.name(i));
      } catch (...) {
        rethrow_in_stage("padded_batch", level_.number, child_position(indices, position, index));
      }
    }
  }
}

/// Pads a partial batch with zeros and marks them in its last tensor.
void ElementBuilder::mark_valid(int64_t elems) {
  const Element& batch = memory_.element();
  for (int i = 0; i < batch.size(); ++i) {
    const Tensor& tensor = batch[i];
    const int64_t used = tensor.elems() / level_.batch_elems * elems;
    std::byte* const rest = tensor.raw() + static_cast<size_t>(used) * dtype_size(tensor.dtype());
    const bool is_mask = i + 1 == batch.size();
    if (is_mask) std::memset(tensor.raw(), 1, static_cast<size_t>(used));
    const double padding = level_.padded && !is_mask ? level_.padding[static_cast<size_t>(i)] : 0;
    fill_with_padding(tensor.dtype(), padding, rest, tensor.elems() - used);
  }
}

size_t ElementBuilder::form_of(const Element& element) const {
  const std::vector<Layout>& forms = level_.inputs;
  for (size_t form = 0; form + 1 < forms.size(); ++form) {
    if (forms[form].matches(element)) return form;
  }
  return forms.size() - 1;
}

}  // namespace isochron::data
