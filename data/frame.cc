#include "isochron/data/frame.h"

#include <cstring>

#include "isochron/memory/buffer.h"

namespace isochron::data {

/// A row of a source tensor: bytes of another storage, moved from row to row.
class Frame::RowStorage final : public Storage {
 public:
  explicit RowStorage(Ref<Storage> source, size_t row_bytes)
      : Storage(nullptr, row_bytes), source_(std::move(source)) {}
  void point_at(std::byte* row) { rebind(row, size_bytes()); }
  std::string owner() const override { return "the next element of its dataset"; }

 private:
  Ref<Storage> source_;
};

/// The memory of one tensor of a batch slot.
class Frame::BatchStorage final : public Storage {
 public:
  explicit BatchStorage(Ref<Storage> memory)
      : Storage(memory->data(), memory->size_bytes()), memory_(std::move(memory)) {}
  std::string owner() const override { return "the next batch of its dataset"; }

 private:
  Ref<Storage> memory_;
};

Frame::Frame(const Recipe& recipe, size_t level) : recipe_(recipe), level_(recipe.levels[level]) {
  if (level == 0) {
    make_row_views();
  } else {
    child_ = std::make_unique<Frame>(recipe, level - 1);
    make_batch_views();
  }
  for (Form form : {kFull, kOdd}) {
    for (size_t i = 0; i < views_[form].size(); ++i)
      inputs_[form].add(level_.inputs[form].names[i], views_[form][i]);
  }
}

void Frame::make_row_views() {
  const Signature& specs = level_.inputs[kFull].specs;
  for (size_t i = 0; i < specs.size(); ++i) {
    Ref<Storage> source = recipe_.sources[static_cast<int>(i)].storage();
    storages_.push_back(make_ref<RowStorage>(std::move(source), specs[i].size_bytes()));
    views_[kFull].push_back(Tensor::over(storages_[i], specs[i]));
  }
}

void Frame::make_batch_views() {
  const Signature& full = level_.inputs[kFull].specs;
  const Signature& odd = level_.inputs[kOdd].specs;
  for (size_t i = 0; i < full.size(); ++i) {
    storages_.push_back(make_ref<BatchStorage>(allocate_buffer(full[i].size_bytes(), "batch")));
    views_[kFull].push_back(Tensor::over(storages_[i], full[i]));
  }
  for (size_t i = 0; i < odd.size(); ++i) views_[kOdd].push_back(Tensor::over(storages_[i], odd[i]));
}

const Element& Frame::fill(std::span<const int64_t> key, const Position& position) {
  if (!child_) {
    point_at_row(key[0]);
  } else if (child_->child_ || !child_->level_.maps.empty()) {
    stack_children(key, position);
  } else {
    gather_rows(key);
  }
  const Form form = static_cast<int64_t>(key.size()) == level_.rows ? kFull : kOdd;
  for (size_t i = 0; i < views_[form].size(); ++i)
    inputs_[form][static_cast<int>(i)] = views_[form][i].refreshed();
  if (level_.maps.empty()) return inputs_[form];
  result_ = inputs_[form];
  for (const MapStage& map : level_.maps) {
    result_ = call_map(map, std::move(result_), position, key[0]);
    if (!map.results[form].matches(result_)) {
      fail(ErrorCode::kShapeMismatch, fmt::format("map (stage {})", map.number),
           "element {} of epoch {}, row {}: expected {}, got {}; a map function gives every element the same "
           "names and "
           "signature",
           position.element, position.epoch, key[0], map.results[form].str(), result_.str());
    }
  }
  return result_;
}

void Frame::retire() {
  for (const Ref<Storage>& storage : storages_) storage->next_generation();
}

void Frame::point_at_row(int64_t row) {
  for (size_t i = 0; i < storages_.size(); ++i) {
    std::byte* base = recipe_.sources[static_cast<int>(i)].raw();
    static_cast<RowStorage*>(storages_[i].get())
        ->point_at(base + static_cast<size_t>(row) * storages_[i]->size_bytes());
  }
}

void Frame::gather_rows(std::span<const int64_t> rows) {
  for (size_t i = 0; i < storages_.size(); ++i) {
    const std::byte* base = recipe_.sources[static_cast<int>(i)].raw();
    const size_t row_bytes = child_->storages_[i]->size_bytes();
    std::byte* to = storages_[i]->data();
    for (int64_t row : rows) {
      std::memcpy(to, base + static_cast<size_t>(row) * row_bytes, row_bytes);
      to += row_bytes;
    }
  }
}

void Frame::stack_children(std::span<const int64_t> key, const Position& position) {
  const auto child_rows = static_cast<size_t>(child_->level_.rows);
  for (size_t n = 0; n * child_rows < key.size(); ++n) {
    child_->retire();
    const Element& child = child_->fill(key.subspan(n * child_rows, child_rows), position);
    for (size_t i = 0; i < storages_.size(); ++i) {
      const Tensor& tensor = child[static_cast<int>(i)];
      require(tensor.contiguous(), ErrorCode::kInvalidArgument, "batch",
              "'{}' of a mapped element is strided; return contiguous() from the map function",
              level_.inputs[kFull].names[i]);
      std::memcpy(storages_[i]->data() + n * tensor.size_bytes(), tensor.raw(), tensor.size_bytes());
    }
  }
}

}  // namespace isochron::data
