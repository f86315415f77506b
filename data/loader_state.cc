// The part of the loader that saves and restores. Over rows, (epoch, position) is all there is to say.
// Otherwise the state holds what is under way: the stream's own place, what stages have buffered, and the
// elements that are finished but not taken.
#include <bit>

#include "isochron/data/fingerprint.h"
#include "isochron/data/loader.h"

namespace isochron::data {
namespace {

/// Of an epoch without end, for sums that stay in range.
constexpr int64_t kMostElements = int64_t{1} << 40;

}  // namespace

uint64_t fingerprint(const Recipe& recipe) {
  Fingerprint print;
  print.add(recipe.rows ? recipe.rows->rows() : int64_t{-1});
  print.add(recipe.rows ? recipe.rows->fingerprint() : recipe.stream->fingerprint());
  for (const OrderStage& stage : recipe.order) {
    print.add(static_cast<int64_t>(stage.kind)).add(stage.elems).add(stage.index);
    print.add(static_cast<int64_t>(stage.drop_remainder));
    print.add(stage.shuffle.seed).add(static_cast<int64_t>(stage.shuffle.reshuffle));
  }
  for (const Level& level : recipe.levels) {
    print.add(level.batch_elems).add(level.inputs[kFull].str());
    print.add(static_cast<int64_t>(level.padded)).add(static_cast<int64_t>(level.marks_valid));
    for (double padding : level.padding) print.add(std::bit_cast<uint64_t>(padding));
    for (const MapStage& map : level.maps) print.add(map.results[kFull].str());
  }
  print.add(merged(recipe.results()).str());
  return print.value();
}

std::string Loader::state() {
  StateWriter state;
  state.put(fingerprint(*recipe_));
  state.put(static_cast<uint64_t>(begun_));
  state.put(static_cast<uint64_t>(in_epoch_));
  state.put(epoch_);
  state.put(taken_);
  state.put(static_cast<uint64_t>(small_state()));
  if (begun_ && !small_state()) save_under_way(state);
  return state.take();
}

void Loader::save_under_way(StateWriter& state) {
  const std::scoped_lock lock(order_mutex_);
  wait_for_workers();
  if (failed_) {  // what follows the error is of no use: the next epoch begins anew
    state.put(int64_t{0});
    state.put(epoch_ + 1);
    state.put(int64_t{0});
    state.put(uint64_t{1});
    return;
  }
  save_pending(state);
  state.put(position_.epoch);
  state.put(position_.element);
  state.put(static_cast<uint64_t>(at_start_));
  if (!at_start_) keys_->save(state);
}

void Loader::save_pending(StateWriter& state) {
  std::vector<Slot*> finished;
  for (uint64_t number = take_number_;; ++number) {
    const Cell& cell = cells_[number % slots_.size()];
    if (cell.delivered != static_cast<uint32_t>(number + 1)) break;
    if (cell.slot->run != run_) continue;
    if (cell.slot->kind == Slot::kError) std::rethrow_exception(cell.slot->error);
    finished.push_back(cell.slot);
  }
  state.put(static_cast<uint64_t>(pending_.size() + finished.size()));
  for (const Pending& pending : pending_) {
    state.put(static_cast<uint64_t>(pending.kind));
    if (pending.kind == Slot::kElement) pending.item->save(state);
  }
  Item copy(result_);
  for (const Slot* slot : finished) {
    state.put(static_cast<uint64_t>(slot->kind));
    if (slot->kind != Slot::kElement) continue;
    copy.copy(*slot->element, "dataset");
    copy.save(state);
  }
}

void Loader::resume(std::string_view bytes) {
  retire_held();
  ++loop_;
  held_pending_.reset();
  start_run(0);
  begun_ = in_epoch_ = failed_ = false;
  StateReader state(bytes);
  try {
    read_state(state);
    state.expect_end();
  } catch (...) {
    begun_ = in_epoch_ = false;
    start_run(0);
    throw;
  }
  if (threaded() && threads_.empty()) start_threads();
}

void Loader::read_state(StateReader& state) {
  if (state.get() != fingerprint(*recipe_))
    state.refuse("a state of a dataset made by the same chain of calls");
  const std::scoped_lock lock(order_mutex_);
  wait_for_workers();
  ++run_;
  begun_ = state.get_between(0, 1, "0 or 1") == 1;
  in_epoch_ = state.get_between(0, 1, "0 or 1") == 1;
  epoch_ = state.get();
  taken_ = state.get_between(0, recipe_->size < 0 ? kMostElements : recipe_->size, "a number of elements");
  const bool small = state.get_between(0, 1, "0 or 1") == 1;
  if (!begun_) return;
  if (!small) {
    restore_under_way(state);
  } else if (!small_state()) {
    state.refuse("the elements under way");
  } else if (in_epoch_) {
    keys_->seek(epoch_, taken_);
    position_ = {epoch_, taken_, 0};
    at_start_ = false;
  } else {
    position_ = {epoch_ + 1, 0, 0};
    at_start_ = true;
  }
  order_changed_.notify_all();
}

void Loader::restore_under_way(StateReader& state) {
  const int64_t pending = state.get_between(0, INT32_MAX, "a number of elements");
  for (int64_t i = 0; i < pending; ++i) {
    Pending next{state.get_between(0, 1, "0 or 1") == 0 ? Slot::kElement : Slot::kEnd, nullptr};
    if (next.kind == Slot::kElement) {
      next.item = std::make_unique<Item>(result_);
      next.item->restore(state);
    }
    pending_.push_back(std::move(next));
  }
  position_.epoch = state.get();
  position_.element = state.get_between(0, kMostElements, "a position");
  at_start_ = state.get_between(0, 1, "0 or 1") == 1;
  if (!at_start_) keys_->restore(state, position_.epoch);
}

}  // namespace isochron::data
