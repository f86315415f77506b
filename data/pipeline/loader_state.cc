// The part of the loader that saves and restores its state. Over rows, (epoch, position) is the whole state;
// a shard saves the position in its input, so that a run with another number of shards can continue from it.
// Otherwise the state holds everything in progress: the stream's own position, what stages have buffered,
// and the elements that are finished but not taken.
#include <algorithm>
#include <bit>

#include "isochron/data/element/fingerprint.h"
#include "isochron/data/pipeline/loader.h"
#include "isochron/data/pipeline/sharding.h"

namespace isochron::data {
namespace {

/// The size of an endless epoch, chosen so that sums stay in range.
constexpr int64_t kMaxElements = int64_t{1} << 40;

/// What follows the consumer's position in a state. The first number belonged to an earlier form.
constexpr int64_t kNothing = 1, kUnderWay = 2, kSharding = 3, kShardUnderWay = 4;

constexpr const char* kWhere = "dataset state";

uint64_t fingerprint_of(const Recipe& recipe, std::span<const OrderStage> order, int64_t partial_rows) {
  Fingerprint print;
  print.add(recipe.rows ? recipe.rows->rows() : int64_t{-1});
  print.add(recipe.rows ? recipe.rows->fingerprint() : recipe.stream->fingerprint());
  for (size_t i = 0; i < order.size(); ++i) {
    const OrderStage& stage = order[i];
    print.add(static_cast<int64_t>(stage.kind)).add(stage.elems).add(stage.index);
    if (stage.block > 1) print.add(stage.block);
    print.add(static_cast<int64_t>(stage.drop_remainder));
    print.add(stage.shuffle.seed.value_or(0)).add(static_cast<int64_t>(stage.shuffle.reshuffle));
    if (!stage.seeded) print.add("an order in each branch");
    if (stage.shuffles() && stage.salt != i) print.add(stage.salt);
  }
  for (const Level& level : recipe.levels) {
    print.add(level.batch_elems).add(level.inputs[kFull].str());
    print.add(static_cast<int64_t>(level.padded)).add(static_cast<int64_t>(level.marks_valid));
    for (double padding : level.padding) print.add(std::bit_cast<uint64_t>(padding));
    for (const MapStage& map : level.maps) print.add(map.results[kFull].str());
  }
  const bool batched = recipe.levels.size() > 1;
  print.add((batched ? recipe.results()[kFull] : merged(recipe.results())).str());
  if (partial_rows > 0) print.add(partial_rows);
  return print.value();
}

/// The fingerprint of the dataset before its last sharding, so that all shards have the same one.
uint64_t state_fingerprint(const Recipe& recipe) {
  if (!last_sharding(recipe)) return fingerprint(recipe);
  const OrderStage& shard = recipe.order.back();
  return fingerprint_of(recipe, std::span(recipe.order).first(recipe.order.size() - 1), shard.partial_rows);
}

/// A place in the order of the dataset before its last sharding.
struct Place {
  Sharding saved_by = {};   // its index doesn't matter: all shards have taken equally many
  int64_t input_elems = 0;  // of the groups that were taken whole; at the end of an epoch, of all of them
  int64_t in_block = 0;     // elements taken of the block that follows
};

int64_t input_size(const Recipe& recipe) {
  return last_sharding(recipe) ? recipe.order.back().input_size : recipe.size;
}

/// The place after `taken` elements of the shard `by`, the last stage of `recipe`.
Place place_after(const Recipe& recipe, const Sharding& by, int64_t taken) {
  const int64_t input = input_size(recipe), in_block = taken % by.block;
  if (taken == recipe.size && in_block > 0) return {by, input, 0};  // the input ends within the block
  const int64_t elems = checked_mul(taken / by.block, by.group_elems(), kWhere);
  return {by, input < 0 ? elems : std::min(elems, input), in_block};
}

Place read_place(StateReader& state, const Recipe& recipe, int64_t input_elems, bool sharded) {
  Place place{.input_elems = input_elems};
  Sharding& by = place.saved_by;
  if (sharded) {
    by.shards = state.get_between(1, INT64_MAX, "a number of shards");
    by.block = state.get_between(1, INT64_MAX / by.shards, "the elements of a block");
    place.in_block = state.get_between(0, by.block - 1, "a place in a block");
  }
  const int64_t input = input_size(recipe);
  const bool whole = input_elems == input || input_elems % by.group_elems() == 0;
  if (!whole || (input >= 0 && input_elems > input)) state.refuse("a number of elements");
  return place;
}

/// How many elements of `recipe` were taken at `place`.
int64_t taken_at(const Place& place, const Recipe& recipe) {
  const Sharding by = place.saved_by, here = last_sharding(recipe).value_or(Sharding{});
  if (place.input_elems == input_size(recipe)) return recipe.size;
  require(place.in_block == 0 || (by.shards == here.shards && by.block == here.block),
          ErrorCode::kInvalidArgument, kWhere,
          "saved with shards = {} and block = {}, after {} of the {} elements of a block; expected the same, "
          "got shards = {} and block = {}; shard as before, or save when whole blocks are taken",
          by.shards, by.block, place.in_block, by.block, here.shards, here.block);
  const int64_t group = here.group_elems();
  if (place.input_elems % group != 0) {
    const std::string fix =
        by.group_elems() > 1 && by.group_elems() % here.shards == 0
            ? fmt::format("for shards = {}, use block = {}", here.shards, by.group_elems() / here.shards)
            : fmt::format("use a product that divides {}, as {} does", place.input_elems, by.group_elems());
    fail(
        ErrorCode::kInvalidArgument, kWhere,
        "saved with shards = {} and block = {}, after {} elements of the dataset before sharding; expected a "
        "multiple of shards * block, got shards = {} and block = {}; {}",
        by.shards, by.block, place.input_elems, here.shards, here.block, fix);
  }
  const int64_t taken = checked_add(place.input_elems / group * here.block, place.in_block, kWhere);
  return recipe.size < 0 ? taken : std::min(taken, recipe.size);
}

std::string described(const std::optional<Sharding>& sharding) {
  if (!sharding) return "no shard";
  return fmt::format("shard({}, {}, {})", sharding->shards, sharding->index, sharding->block);
}

/// A position in a stream belongs to one shard only.
void require_same_sharding(StateReader& state, const Recipe& recipe, bool sharded) {
  std::optional<Sharding> by;
  if (sharded) {
    by.emplace();
    by->shards = state.get_between(1, INT64_MAX, "a number of shards");
    by->block = state.get_between(1, INT64_MAX / by->shards, "the elements of a block");
    by->index = state.get_between(0, by->shards - 1, "a shard");
  }
  const std::optional<Sharding> here = last_sharding(recipe);
  require(by == here, ErrorCode::kInvalidArgument, kWhere,
          "the state of a dataset over a stream, or with elements in any order, belongs to one shard: "
          "expected {}, got a state of {}; shard as before, or start from the beginning of an epoch",
          described(here), described(by));
}

void save_error(StateWriter& state, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& known) {
    state.put(static_cast<int64_t>(known.code()));
    state.put_text(known.where());
    state.put_text(known.text());
  } catch (const std::exception& other) {
    state.put(static_cast<int64_t>(ErrorCode::kInvalidArgument));
    state.put_text("dataset");
    state.put_text(other.what());
  } catch (...) {
    state.put(static_cast<int64_t>(ErrorCode::kInvalidArgument));
    state.put_text("dataset");
    state.put_text("something was thrown that is not a std::exception");
  }
}

std::exception_ptr restored_error(StateReader& state) {
  const int64_t code = state.get_between(0, static_cast<int64_t>(ErrorCode::kUnsupported), "an error's code");
  const std::string_view where = state.get_text(), text = state.get_text();
  return std::make_exception_ptr(Error(static_cast<ErrorCode>(code), where, std::string(text)));
}

}  // namespace

uint64_t fingerprint(const Recipe& recipe) {
  return fingerprint_of(recipe, recipe.order, recipe.partial_rows);
}

std::string Loader::state() {
  const std::optional<Sharding> sharding = last_sharding(*recipe_);
  StateWriter state;
  state.put(state_fingerprint(*recipe_));
  state.put(static_cast<uint64_t>(begun_));
  state.put(static_cast<uint64_t>(in_epoch_));
  state.put(epoch_);
  if (small_state()) {
    const Place place = sharding && in_epoch_ ? place_after(*recipe_, *sharding, taken_) : Place{};
    state.put(sharding ? place.input_elems : taken_);
    state.put(sharding ? kSharding : kNothing);
    if (!sharding) return state.take();
    state.put(sharding->shards);
    state.put(sharding->block);
    state.put(place.in_block);
    return state.take();
  }
  state.put(taken_);
  state.put(sharding ? kShardUnderWay : kUnderWay);
  if (sharding) {
    state.put(sharding->shards);
    state.put(sharding->block);
    state.put(sharding->index);
  }
  if (begun_) save_under_way(state);
  return state.take();
}

void Loader::save_under_way(StateWriter& state) {
  const OrderHold hold(*this, Interrupt::kPause);
  wait_for_workers();
  if (failed_) state.put(int64_t{0});
  if (failed_ || !save_pending(state)) {  // after an error, the next epoch begins anew
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

/// Saves the finished elements that weren't taken, up to an error; returns false if there is one.
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
  if (state.get() != state_fingerprint(*recipe_))
    state.refuse("a state of a dataset made by the same chain of calls");
  const OrderHold hold(*this, Interrupt::kAbandon);
  wait_for_workers();
  ++run_;
  begun_ = state.get_between(0, 1, "0 or 1") == 1;
  in_epoch_ = state.get_between(0, 1, "0 or 1") == 1;
  epoch_ = state.get();
  taken_ = state.get_between(0, INT64_MAX, "a number of elements");
  const int64_t kind = state.get_between(kNothing, kShardUnderWay, "a kind of state");
  if (kind == kNothing || kind == kSharding) {
    restore_place(state, kind == kSharding);
    return;
  }
  if (taken_ > (recipe_->size < 0 ? kMaxElements : recipe_->size)) state.refuse("a number of elements");
  require_same_sharding(state, *recipe_, kind == kShardUnderWay);
  if (begun_) restore_under_way(state);
}

void Loader::restore_place(StateReader& state, bool sharded) {
  const Place place = read_place(state, *recipe_, taken_, sharded);
  if (!begun_) return;
  if (!small_state()) state.refuse("the elements under way");
  if (!in_epoch_) {
    position_ = {epoch_ + 1, 0, 0};
    at_start_ = true;
    return;
  }
  taken_ = taken_at(place, *recipe_);
  if (taken_ > kMaxElements && recipe_->size < 0) state.refuse("a number of elements");
  order_->seek(epoch_, taken_);
  position_ = {epoch_, taken_, 0};
  at_start_ = false;
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
  position_.element = state.get_between(0, kMaxElements, "a position");
  at_start_ = state.get_between(0, 1, "0 or 1") == 1;
  if (at_start_) return;
  restored_ = true;
  order_->restore(state, position_.epoch);
}

}  // namespace isochron::data
