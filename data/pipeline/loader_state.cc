// The part of the loader that saves and restores. Over rows, (epoch, position) is all there is to say.
// Otherwise the state holds what is under way: the stream's own place, what stages have buffered, and the
// elements that are finished but not taken.
#include <bit>

#include "isochron/data/element/fingerprint.h"
#include "isochron/data/pipeline/loader.h"

namespace isochron::data {
namespace {

/// Of an epoch without end, for sums that stay in range.
constexpr int64_t kMostElements = int64_t{1} << 40;

/// What follows the consumer's place in a state. The first number was given to another form once.
constexpr int64_t kNothing = 1, kUnderWay = 2;

void save_error(StateWriter& state, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    state.put(static_cast<int64_t>(known.code()));
    state.put_text(known.where());
    state.put_text(std::string_view(known.what()).substr(known.where().size() + 3));  // behind "[where] "
  } catch (const std::exception& other) {
    state.put(static_cast<int64_t>(ErrorCode::kInvalidArgument));
    state.put_text("dataset");
    state.put_text(other.what());
  } catch (...) {
    state.put(static_cast<int64_t>(ErrorCode::kInvalidArgument));
    state.put_text("dataset");
    state.put_text("something was thrown that is no exception");
  }
}

std::exception_ptr restored_error(StateReader& state) {
  const int64_t code = state.get_between(0, static_cast<int64_t>(ErrorCode::kUnsupported), "an error's code");
  const std::string_view where = state.get_text(), text = state.get_text();
  return std::make_exception_ptr(Error(static_cast<ErrorCode>(code), where, std::string(text)));
}

}  // namespace

uint64_t fingerprint(const Recipe& recipe) {
  Fingerprint print;
  print.add(recipe.rows ? recipe.rows->rows() : int64_t{-1});
  print.add(recipe.rows ? recipe.rows->fingerprint() : recipe.stream->fingerprint());
  for (const OrderStage& stage : recipe.order) {
    print.add(static_cast<int64_t>(stage.kind)).add(stage.elems).add(stage.index);
    print.add(static_cast<int64_t>(stage.drop_remainder));
    print.add(stage.shuffle.seed.value_or(0)).add(static_cast<int64_t>(stage.shuffle.reshuffle));
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
  state.put(small_state() ? kNothing : kUnderWay);
  if (begun_ && !small_state()) save_under_way(state);
  return state.take();
}

void Loader::save_under_way(StateWriter& state) {
  const OrderHold hold(*this, Interrupt::kPause);
  wait_for_workers();
  if (failed_) state.put(int64_t{0});
  if (failed_ || !save_pending(state)) {  // what follows an error is of no use: the next epoch begins anew
    state.put(epoch_ + 1);
    state.put(int64_t{0});
    state.put(uint64_t{1});
    return;
  }
  state.put(position_.epoch);
  state.put(position_.element);
  state.put(static_cast<uint64_t>(at_start_));
  if (!at_start_) order_->save(state);
}

/// Saves what is finished and not taken, as far as an error; false where there is one.
bool Loader::save_pending(StateWriter& state) {
  struct Finished {
    Slot::Kind kind;
    const Element* element;
    std::exception_ptr error;
  };
  std::vector<Finished> finished;
  for (const Pending& pending : pending_) {
    finished.push_back({pending.kind, pending.buffer ? &pending.buffer->element() : nullptr, pending.error});
  }
  const auto failed = [&] { return !finished.empty() && finished.back().kind == Slot::kError; };
  for (uint64_t number = take_number_; !failed(); ++number) {
    const Cell& cell = cells_[number % slots_.size()];
    if (cell.delivered != static_cast<uint32_t>(number + 1)) break;
    if (cell.slot->run != run_) continue;
    finished.push_back({cell.slot->kind, cell.slot->element, cell.slot->error});
  }
  state.put(static_cast<uint64_t>(finished.size()));
  ElementBuffer copy(result_);
  for (const Finished& next : finished) {
    state.put(static_cast<uint64_t>(next.kind));
    if (next.kind == Slot::kError) save_error(state, next.error);
    if (next.kind != Slot::kElement) continue;
    copy.copy(*next.element, "dataset");
    copy.save(state);
  }
  return !failed();
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
  const OrderHold hold(*this, Interrupt::kAbandon);
  wait_for_workers();
  ++run_;
  begun_ = state.get_between(0, 1, "0 or 1") == 1;
  in_epoch_ = state.get_between(0, 1, "0 or 1") == 1;
  epoch_ = state.get();
  taken_ = state.get_between(0, recipe_->size < 0 ? kMostElements : recipe_->size, "a number of elements");
  const bool small = state.get_between(kNothing, kUnderWay, "1 or 2") == kNothing;
  if (!begun_) return;
  if (!small) {
    restore_under_way(state);
  } else if (!small_state()) {
    state.refuse("the elements under way");
  } else if (in_epoch_) {
    order_->seek(epoch_, taken_);
    position_ = {epoch_, taken_, 0};
    at_start_ = false;
  } else {
    position_ = {epoch_ + 1, 0, 0};
    at_start_ = true;
  }
}

void Loader::restore_under_way(StateReader& state) {
  const int64_t pending = state.get_between(0, INT32_MAX, "a number of elements");
  for (int64_t i = 0; i < pending; ++i) {
    Pending next{static_cast<Slot::Kind>(state.get_between(0, 2, "0, 1 or 2")), nullptr, nullptr};
    if (next.kind == Slot::kError) next.error = restored_error(state);
    if (next.kind == Slot::kElement) {
      next.buffer = std::make_unique<ElementBuffer>(result_);
      next.buffer->restore(state);
    }
    pending_.push_back(std::move(next));
  }
  position_.epoch = state.get();
  position_.element = state.get_between(0, kMostElements, "a position");
  at_start_ = state.get_between(0, 1, "0 or 1") == 1;
  if (at_start_) return;
  restored_ = true;
  order_->restore(state, position_.epoch);
}

}  // namespace isochron::data
