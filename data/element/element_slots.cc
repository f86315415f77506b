#include "isochron/data/element/element_slots.h"

#include <bit>

namespace isochron::data {

ElementSlots::Place ElementSlots::place_of(int64_t number) {
  const auto chunk = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(number / kFirstChunk + 1)) - 1);
  return {chunk, static_cast<size_t>(number - kFirstChunk * ((int64_t{1} << chunk) - 1))};
}

ElementSlots::Slot& ElementSlots::at(int64_t number) const {
  const Place place = place_of(number);
  return *chunks_[place.chunk][place.index];
}

int64_t ElementSlots::take() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) {
    const Place place = place_of(count_);
    auto& chunk = chunks_[place.chunk];
    const auto size = static_cast<size_t>(kFirstChunk << place.chunk);
    if (!chunk) chunk = std::make_unique<std::unique_ptr<Slot>[]>(size);
    chunk[place.index] = std::make_unique<Slot>(layout_);
    free_.reserve(static_cast<size_t>(kFirstChunk) * ((size_t{2} << place.chunk) - 1));  // all of them
    return count_++;
  }
  const int64_t number = free_.back();
  free_.pop_back();
  return number;
}

void ElementSlots::give_back(std::span<const int64_t> numbers) {
  const std::scoped_lock lock(mutex_);
  for (int64_t number : numbers) {
    if (number == kNoRow) continue;
    at(number).buffer.retire();
    free_.push_back(number);
  }
}

}  // namespace isochron::data
