#include "isochron/data/pipeline/shuffle_order.h"

#include <algorithm>
#include <numeric>

#include "isochron/data/element/branch.h"
#include "isochron/data/element/interrupt.h"

namespace isochron::data {

OrderStage in_this_branch(OrderStage stage) {
  stage.shuffle.seed = seed_in_branch(stage.shuffle.seed.value_or(0), stage.seeded, BranchScope::current());
  return stage;
}

uint64_t shuffle_stream(const OrderStage& stage, uint64_t epoch) {
  return (stage.shuffle.reshuffle ? epoch : 0) ^ (stage.salt << 48);
}

uint64_t Draws::below(uint64_t place, uint64_t bound) {
  if (const uint64_t number = place / 2; number != block_number_) {
    block_ = philox4x32({static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32),
                         static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                        {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    block_number_ = number;
  }
  const size_t at = place % 2 * 2;
  const uint64_t word = uint64_t{block_[at]} << 32 | block_[at + 1];
  return static_cast<uint64_t>(static_cast<unsigned __int128>(word) * bound >> 64);
}

ShuffledOrder::ShuffledOrder(std::unique_ptr<SamplingOrder> input, const OrderStage& stage)
    : OrderOver(std::move(input)),
      stage_(in_this_branch(stage)),
      capacity_(static_cast<size_t>(stage.elems)) {
  // A stream may be far shorter than its buffer.
  grow(stage.input_size < 0 ? std::min(capacity_, kFirstPlaces) : capacity_);
}

void ShuffledOrder::grow(size_t places) {
  charge_.add((places - lengths_.size()) * sizeof(int64_t) * static_cast<size_t>(1 + stage_.rows));
  lengths_.resize(places);
  order_.resize(places * static_cast<size_t>(stage_.rows));
}

void ShuffledOrder::begin(uint64_t epoch) {
  for (size_t i = 0; i < filled_; ++i) input_->drop(indices_at(i), lengths_[i]);
  filled_ = 0;
  drawn_ = 0;
  draws_ = Draws(stage_.shuffle.seed.value_or(0), shuffle_stream(stage_, epoch));
}

void ShuffledOrder::restart(uint64_t epoch) {
  begin(epoch);
  input_->restart(epoch);
}

/// Before the first draw.
void ShuffledOrder::fill() {
  for (; filled_ < capacity_; ++filled_) {
    throw_if_interrupted();
    if (filled_ == lengths_.size()) grow(std::min(capacity_, 2 * filled_));
    lengths_[filled_] = input_->next(indices_at(filled_));
    if (lengths_[filled_] == 0) break;
  }
}

int64_t ShuffledOrder::next(int64_t* indices) {
  if (drawn_ == 0 && filled_ < capacity_) fill();
  if (filled_ == 0) return 0;
  const auto place = static_cast<size_t>(draws_.below(drawn_, filled_));
  const bool full = filled_ == capacity_;
  int64_t length = full ? input_->next(indices) : 0;  // of the indices that come in its place
  ++drawn_;
  if (length > 0) {
    std::swap_ranges(indices, indices + stage_.rows, indices_at(place));
    std::swap(length, lengths_[place]);
  } else {
    length = lengths_[place];
    std::copy_n(indices_at(place), length, indices);
    fill_gap(place);
  }
  return length;
}

/// Fills a gap with the last element, because the input has no further one.
void ShuffledOrder::fill_gap(size_t place) {
  --filled_;
  std::copy_n(indices_at(filled_), lengths_[filled_], indices_at(place));
  lengths_[place] = lengths_[filled_];
}

/// The positions, in the input's order, of the buffer's elements after `draws` draws.
std::vector<int64_t> ShuffledOrder::held_after(int64_t draws) {
  const auto buffer = static_cast<int64_t>(capacity_);
  // While the input lasts, draw t replaces the element that it takes with input element number buffer + t.
  // The last draw at a place therefore determines its content.
  const int64_t refilled =
      stage_.input_size == kInfinite ? draws : std::min(draws, stage_.input_size - buffer);
  std::vector<int64_t> held(capacity_, -1);
  size_t unknown = held.size();
  for (int64_t t = refilled - 1; t >= 0 && unknown > 0; --t) {
    int64_t& place = held[draws_.below(static_cast<uint64_t>(t), held.size())];
    if (place >= 0) continue;
    place = buffer + t;
    --unknown;
  }
  for (size_t i = 0; i < held.size(); ++i) {
    if (held[i] < 0) held[i] = static_cast<int64_t>(i);
  }
  for (int64_t t = refilled; t < draws; ++t) {
    held[draws_.below(static_cast<uint64_t>(t), held.size())] = held.back();
    held.pop_back();
  }
  return held;
}

void ShuffledOrder::seek(uint64_t epoch, int64_t position) {
  begin(epoch);
  if (lengths_.size() < capacity_) grow(capacity_);
  const std::vector<int64_t> held = held_after(position);
  std::vector<size_t> by_place(held.size());
  std::iota(by_place.begin(), by_place.end(), size_t{0});
  std::ranges::sort(by_place, {}, [&](size_t i) { return held[i]; });
  // Advancing over a few elements costs less than seeking. If seeking means that the input fills its buffers
  // again, advancing over any number of elements costs less.
  const int64_t walk = stage_.seekable ? 16 : INT64_MAX;
  std::vector<int64_t> walked_over(static_cast<size_t>(stage_.rows));
  int64_t at = -1;
  for (size_t i : by_place) {
    if (at < 0 || held[i] - at > walk) {
      input_->seek(epoch, held[i]);
      at = held[i];
    }
    for (; at < held[i]; ++at) input_->next(walked_over.data());
    lengths_[i] = input_->next(indices_at(i));
    ++at;
  }
  filled_ = held.size();
  drawn_ = static_cast<uint64_t>(position);
  const int64_t read = static_cast<int64_t>(capacity_) + position;
  input_->seek(epoch, stage_.input_size == kInfinite ? read : std::min(read, stage_.input_size));
}

void ShuffledOrder::save(StateWriter& state) const {
  state.put(drawn_);
  state.put(static_cast<uint64_t>(filled_));
  for (size_t i = 0; i < filled_; ++i) {
    state.put(lengths_[i]);
    input_->save_indices(state, indices_at(i), lengths_[i]);
  }
  input_->save(state);
}

void ShuffledOrder::restore(StateReader& state, uint64_t epoch) {
  begin(epoch);
  drawn_ = state.get();
  const auto filled = static_cast<size_t>(
      state.get_between(0, static_cast<int64_t>(capacity_), "the number of elements in a shuffle's buffer"));
  for (; filled_ < filled; ++filled_) {
    if (filled_ == lengths_.size()) grow(std::min(capacity_, 2 * filled_));
    lengths_[filled_] = state.get_between(1, stage_.rows, "the rows of an element");
    input_->restore_indices(state, indices_at(filled_), lengths_[filled_]);
  }
  input_->restore(state, epoch);
}

int64_t PermutedOrder::next(int64_t* indices) {
  if (position_ == stage_.input_size) return 0;
  input_->seek(*epoch_, static_cast<int64_t>(order_(static_cast<uint64_t>(position_))));
  const int64_t rows = input_->next(indices);
  ++position_;
  return rows;
}

void PermutedOrder::seek(uint64_t epoch, int64_t position) {
  if (epoch_ != epoch) {
    order_ = Permutation(static_cast<uint64_t>(stage_.input_size), stage_.shuffle.seed.value_or(0),
                         shuffle_stream(stage_, epoch));
  }
  epoch_ = epoch;
  position_ = position;
}

}  // namespace isochron::data
