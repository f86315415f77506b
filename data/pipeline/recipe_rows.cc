#include "isochron/data/pipeline/recipe_rows.h"

#include <algorithm>
#include <cstring>

#include "isochron/data/element/stacking.h"
#include "isochron/data/pipeline/sharding.h"

namespace isochron::data {

bool RecipeRows::possible(const Recipe& recipe) {
  // Rows have no passes, so an order that differs from pass to pass needs a stream. Seeking must also be
  // cheap.
  for (const OrderStage& stage : recipe.order) {
    if (stage.kind == OrderStage::kPermute && stage.shuffle.reshuffle) return false;
  }
  return recipe.seekable && recipe.rows && recipe.size >= 0 && recipe.results().size() == 1 &&
         recipe.results()[kFull].fixed();
}

RecipeRows::Reader::Reader(const Recipe& recipe)
    : order(make_order(recipe, nullptr)),
      builder(recipe, recipe.levels.size() - 1, nullptr, true),
      indices(static_cast<size_t>(recipe.levels.back().rows)) {}

/// A reader that is at this row, if there is one.
std::unique_ptr<RecipeRows::Reader> RecipeRows::take_reader(uint64_t epoch, int64_t row) const {
  const std::scoped_lock lock(mutex_);
  if (idle_.empty()) return std::make_unique<Reader>(*recipe_);
  auto found = std::ranges::find_if(
      idle_, [&](const auto& reader) { return reader->epoch == epoch && reader->next == row; });
  if (found == idle_.end()) found = idle_.end() - 1;
  std::swap(*found, idle_.back());
  auto reader = std::move(idle_.back());
  idle_.pop_back();
  return reader;
}

void RecipeRows::read(const Position& position, std::span<std::byte* const> into) const {
  const uint64_t epoch = position.epoch;
  const int64_t row = position.row;
  auto reader = take_reader(epoch, row);
  if (reader->epoch != epoch || reader->next != row) reader->order->seek(epoch, row);
  reader->epoch = epoch;
  reader->next = -1;  // unknown, should the rest throw
  const int64_t rows = reader->order->next(reader->indices.data());
  const std::span<const int64_t> indices(reader->indices.data(), static_cast<size_t>(rows));
  Position place = map_position(*recipe_, position);
  place.row = indices[0];
  const Element& element = reader->builder.fill(indices, place);
  for (size_t i = 0; i < into.size(); ++i) copy_tensor(element, static_cast<int>(i), into[i], "dataset");
  reader->builder.retire();
  reader->next = row + 1;
  const std::scoped_lock lock(mutex_);
  idle_.push_back(std::move(reader));
}

}  // namespace isochron::data
