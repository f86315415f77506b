#include "isochron/data/item_store.h"

#include "isochron/data/dataset.h"

namespace isochron::data {

int64_t ItemStore::take() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) {
    all_.push_back(std::make_unique<Held>(layout_));
    free_.reserve(all_.capacity());
    return reinterpret_cast<int64_t>(all_.back().get());
  }
  const int64_t number = free_.back();
  free_.pop_back();
  return number;
}

void ItemStore::give_back(std::span<const int64_t> numbers) {
  const std::scoped_lock lock(mutex_);
  for (int64_t number : numbers) {
    if (number == kNoRow) continue;
    at(number).item.retire();
    free_.push_back(number);
  }
}

}  // namespace isochron::data
