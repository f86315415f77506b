#include "isochron/data/pipeline/loader.h"

#include <immintrin.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>

#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/core/process/cores.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/trace.h"
#include "isochron/data/element/pipeline_memory.h"
#include "isochron/data/pipeline/sharding.h"
#include "isochron/memory/allocators/buffer.h"

namespace isochron::data {
namespace {

/// Slots in addition to those of waiting elements: one that the consumer holds, and one for the end of an
/// epoch.
constexpr int64_t kExtraSlots = 2;
constexpr int64_t kMaxAutotuned = 16, kMinAutotuned = 2;
constexpr size_t kAutotunedBytes = size_t{32} << 20;
constexpr size_t kGuessedBytes = size_t{1} << 20;  // of an element whose extents vary
/// The share (3/4) of the remaining memory budget that slots may use if their number is chosen here. The rest
/// is for buffers, and for what map functions allocate meanwhile.
constexpr size_t kSlotsShare = 3, kSlotsShareBelow = 4;
/// How late naps may end. The default, 50 us, is long enough for fast consumers to use up all slots.
constexpr unsigned long kTimerSlackNs = 1000;
constexpr int64_t kShortestNapNs = 60'000;
/// About 20 us: longer than making a usual batch, shorter than what sleeping and waking cost together.
constexpr int kSpins = 500;

constinit TraceLabel kDraw(TraceCategory::kData, "draw");
constinit TraceLabel kMake(TraceCategory::kData, "make element");
constinit TraceLabel kWait(TraceCategory::kData, "wait for element");
constinit TraceLabel kWaitForSlot(TraceCategory::kData, "wait for slot");
constinit TraceLabel kReady(TraceCategory::kData, "elements ready");

int most_workers(const Recipe& recipe) {
  return recipe.workers == kAutotune ? std::max(1, static_cast<int>(std::thread::hardware_concurrency()))
                                     : static_cast<int>(recipe.workers);
}

size_t bytes_or_guess(const Layout& layout) { return layout.fixed() ? layout.size_bytes() : kGuessedBytes; }

/// The memory that making an element takes and keeps until the slot's next element: batches and results of
/// maps. Maps that return views take less.
size_t slot_bytes(const Recipe& recipe) {
  size_t bytes = 1;
  for (size_t level = 0; level < recipe.levels.size(); ++level) {
    const bool in_memory = level == 0 && (recipe.stream || recipe.rows->first_row(0) != nullptr);
    if (!in_memory) bytes += bytes_or_guess(recipe.levels[level].memory);
    for (const MapStage& map : recipe.levels[level].maps) bytes += bytes_or_guess(map.results[kFull]);
  }
  return bytes;
}

/// Whether making an element may wait: for a file, or in a user function.
bool may_wait(const Recipe& recipe) {
  if (recipe.stream || recipe.rows->first_row(0) == nullptr) return true;
  return std::ranges::any_of(recipe.levels, [](const Level& level) { return !level.maps.empty(); });
}

int64_t wanted_slots(const Recipe& recipe) {
  if (recipe.prefetch_elems != kAutotune) return recipe.prefetch_elems + kExtraSlots;
  const size_t bytes = slot_bytes(recipe), budget = memory_budget_bytes();
  const auto fitting = static_cast<int64_t>(kAutotunedBytes / bytes);
  const int64_t wanted =
      std::clamp(fitting, kMinAutotuned, kMaxAutotuned) + most_workers(recipe) - 1 + kExtraSlots;
  const size_t left = budget - std::min(budget, memory_in_use_bytes());
  const auto most = static_cast<int64_t>(left / kSlotsShareBelow * kSlotsShare / bytes);
  return std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, most));
}

}  // namespace

Loader::Slot::Slot(const Recipe& recipe, const ElementSlots* element_slots)
    : builder(recipe, recipe.levels.size() - 1, element_slots, recipe.workers != 1) {
  indices.resize(static_cast<size_t>(recipe.levels.back().rows));
}

Loader::Loader(std::shared_ptr<const Recipe> recipe)
    : recipe_(std::move(recipe)),
      one_core_(core_share() == 1),
      threaded_(recipe_->prefetch_elems != 0 && (!one_core_ || may_wait(*recipe_))),
      result_(merged(recipe_->results())),
      tuner_(most_workers(*recipe_)) {
  if (recipe_->stream) element_slots_ = std::make_unique<ElementSlots>(recipe_->levels[0].memory);
  order_ = make_order(*recipe_, element_slots_.get());
  active_ = recipe_->workers == kAutotune ? 1 : static_cast<int>(recipe_->workers);
  const int64_t wanted = threaded_ ? wanted_slots(*recipe_) : 1;
  while (static_cast<int64_t>(slots_.size()) < wanted) {
    try {
      slots_.push_back(std::make_unique<Slot>(*recipe_, element_slots_.get()));
    } catch (const Error& error) {
      const bool enough = recipe_->prefetch_elems == kAutotune && !slots_.empty();
      if (error.code() != ErrorCode::kOutOfMemory || !enough) throw;
      slots_.resize(std::max<size_t>(1, slots_.size() * kSlotsShare / kSlotsShareBelow));
      break;
    }
  }
  cells_ = std::make_unique<Cell[]>(slots_.size());
  for (const auto& slot : slots_) free_.push_back(slot.get());
}

Loader::~Loader() {
  if (threads_.empty()) return;
  interrupt_.request(Interrupt::kAbandon);
  {
    const std::scoped_lock lock(order_mutex_, free_mutex_);
    stop_ = true;
  }
  freed_.notify_all();
  activated_.notify_all();
  order_changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  count(Counter::kThreads, -static_cast<int64_t>(threads_.size()));
}

/// Marks the loader as read; one thread at a time may.
class Loader::Reading {
 public:
  explicit Reading(std::atomic<bool>& read) : read_(read) {
    require(!read_.exchange(true, std::memory_order_acquire), ErrorCode::kInvalidArgument, "dataset",
            "is read while another read of it hasn't returned, by another thread or by its own map or "
            "generator; give each a copy of the dataset");
  }
  ~Reading() { read_.store(false, std::memory_order_release); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

 private:
  std::atomic<bool>& read_;
};

void Loader::begin_epoch(uint64_t epoch) {
  const Reading reading(read_);
  const bool elsewhere = !begun_ || in_epoch_ || failed_ || epoch != epoch_ + 1;
  retire_held();
  tuner_.on_pause();
  ++loop_;
  epoch_ = epoch;
  taken_ = 0;
  in_epoch_ = begun_ = true;
  failed_ = false;
  if (elsewhere) start_run(epoch_);
  if (threaded() && threads_.empty()) start_threads();
}

/// From now on, elements are made from the beginning of `epoch`.
void Loader::start_run(uint64_t epoch) {
  const OrderHold hold(*this, Interrupt::kAbandon);
  ++run_;
  position_ = {epoch, 0, 0};
  at_start_ = true;
  pending_.clear();
}

uint64_t Loader::next_epoch() const { return begun_ ? epoch_after(*recipe_, epoch_, taken_) : 0; }

Position Loader::position() const { return map_position(*recipe_, {epoch_, taken_ - 1, kNoRow, branch_}); }

void Loader::start_threads() {
  try {
    for (int worker = 0; worker < most_workers(*recipe_); ++worker) {
      threads_.emplace_back([this, worker] { work(worker); });
      count(Counter::kThreads, 1);
    }
  } catch (const std::system_error& error) {
    if (!threads_.empty()) return;  // fewer will do
    fail(ErrorCode::kOutOfMemory, "prefetch", "cannot start a thread: {}", error.what());
  }
}

const Element* Loader::next() {
  if (!t_drawing.interrupt) return advance();
  const DrawingScope users({t_drawing.interrupt, false});  // user code reads a dataset
  return advance();
}

const Element* Loader::advance() {
  const Reading reading(read_);
  throw_if_interrupted();
  retire_held();
  if (!in_epoch_) return nullptr;
  if (!pending_.empty()) return next_pending();
  if (threaded()) return take(wait_for_delivery());
  Slot& slot = *slots_[0];
  draw(slot);
  if (slot.kind == Slot::kElement) make(slot);
  return take(slot);
}

const Element* Loader::take(Slot& slot) {
  if (slot.kind == Slot::kElement) {
    held_ = &slot;
    ++taken_;
    return slot.element;
  }
  in_epoch_ = false;
  failed_ = slot.kind == Slot::kError;
  const std::exception_ptr error = std::exchange(slot.error, nullptr);
  if (threaded()) free_slot(slot);
  if (error) std::rethrow_exception(error);
  return nullptr;
}

/// Draws the next indices; at the end of the order or on an error, the slot gets that instead. Throws only
/// Interrupted.
void Loader::draw(Slot& slot) {
  const TraceSpan span(kDraw);
  slot.run = run_;
  slot.error = nullptr;
  slot.rows = 0;
  try {
    if (at_start_) order_->restart(position_.epoch);
    at_start_ = false;
    slot.rows = order_->next(slot.indices.data());
    if (restored_ && slot.rows > 0) refuse_damaged_indices(slot);
    if (slot.rows > 0) slot.position = map_position(*recipe_, position_);
  } catch (const Interrupted&) {
    throw;
  } catch (...) {
    give_back_buffers(slot);
    slot.kind = Slot::kError;
    slot.error = std::current_exception();
    return;
  }
  if (slot.rows > 0) {
    slot.kind = Slot::kElement;
    slot.position.branch = branch_;
    slot.position.row = recipe_->stream ? element_slots_->at(slot.indices[0]).row : slot.indices[0];
    ++position_.element;
  } else {
    slot.kind = Slot::kEnd;
    position_ = {position_.epoch + 1, 0, 0};
    at_start_ = true;
  }
}

/// Throws kBadFormat for indices that no element of the recipe has.
void Loader::refuse_damaged_indices(Slot& slot) {
  const std::span<const int64_t> indices(slot.indices.data(), static_cast<size_t>(slot.rows));
  if (are_indices_of(*recipe_, recipe_->levels.size() - 1, indices)) return;
  order_->drop(slot.indices.data(), std::exchange(slot.rows, 0));
  fail(ErrorCode::kBadFormat, "dataset state",
       "expected an element's rows; the state is damaged, or that of another dataset");
}

/// Makes the element of the slot's indices, or its error. Never throws, and isn't interrupted.
void Loader::make(Slot& slot) {
  const TraceSpan span(kMake);
  const auto fill = [&] {
    slot.element = &slot.builder.fill({slot.indices.data(), static_cast<size_t>(slot.rows)}, slot.position);
  };
  try {
    if (!t_drawing.interrupt) {
      fill();
    } else {
      const DrawingScope no_drawing({});
      fill();
    }
  } catch (...) {
    slot.kind = Slot::kError;
    slot.error = std::current_exception();
  }
  if (slot.kind == Slot::kError || !slot.builder.borrows_buffers()) give_back_buffers(slot);
}

void Loader::give_back_buffers(Slot& slot) {
  if (element_slots_) element_slots_->give_back({slot.indices.data(), static_cast<size_t>(slot.rows)});
  slot.rows = 0;
}

void Loader::retire_held() {
  if (!held_) return;
  Slot& slot = *std::exchange(held_, nullptr);
  if (threaded()) {
    free_slot(slot);
  } else {
    slot.builder.retire();
    give_back_buffers(slot);
  }
}

void Loader::work(int worker) {
  flush_subnormals_to_zero();
  name_trace_thread(fmt::format("loader worker {}", worker));
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs);
  const AllocatorScope scope(pipeline_allocator());  // what map functions make counts too
  for (;;) {
    Slot* slot = wait_for_free_slot(worker);
    uint64_t number = 0;
    if (!slot || !draw_in_turn(*slot, number)) return;
    if (slot->kind == Slot::kElement) {
      make(*slot);
      if (slot->kind == Slot::kError) halt(slot->run);
      if (!recipe_->deterministic) number = finished_++;
    }
    deliver(*slot, number);
  }
}

/// Returns null when the loader shuts down. A worker without a slot naps for about the time that the consumer
/// needs to free half of the slots. The consumer then doesn't have to wake it, which would cost a step 5 to
/// 50 us.
Loader::Slot* Loader::wait_for_free_slot(int worker) {
  std::unique_lock lock(free_mutex_);
  activated_.wait(lock, [&] { return stop_ || worker < active_; });
  const auto ready = [&] { return stop_ || !free_.empty(); };
  if (!ready()) {
    const TraceSpan span(kWaitForSlot);
    std::optional<int64_t> nap_ns = pace_.nap_ns(now_ns(), freed_count_, slots_.size());
    if (nap_ns && *nap_ns < kShortestNapNs && !one_core_) {  // shorter than falling asleep and waking up
      const uint64_t awaited = freed_count_ + std::max<size_t>(1, slots_.size() / 2);
      lock.unlock();
      for (const int64_t end = now_ns() + 2 * kShortestNapNs;
           !stop_ && freed_count_ < awaited && now_ns() < end;)
        _mm_pause();
      lock.lock();
    }
    ++waiting_;
    while (!ready()) {
      if (nap_ns) {
        freed_.wait_for(lock, std::chrono::nanoseconds(*nap_ns));
        nap_ns = pace_.next_nap_ns(*nap_ns);
      } else {
        freed_.wait(lock);
      }
    }
    --waiting_;
  }
  if (stop_) return nullptr;
  Slot* slot = free_.back();
  free_.pop_back();
  return slot;
}

/// False when the loader ends.
bool Loader::draw_in_turn(Slot& slot, uint64_t& number) {
  std::unique_lock lock(order_mutex_);
  for (bool drawn = false; !drawn;) {
    order_changed_.wait(lock, [&] { return stop_ || (!interrupt_.requested() && halted_run_ != run_); });
    if (stop_) return false;
    try {
      const DrawingScope drawing({&interrupt_, true});
      draw(slot);
      drawn = true;
    } catch (const Interrupted&) {
    }
  }
  if (slot.kind == Slot::kError) halt(slot.run);
  if (recipe_->deterministic) {
    number = drawn_++;
  } else if (slot.kind != Slot::kElement) {
    wait_for_workers();  // an epoch ends when all of its elements are there
    number = finished_++;
  }
  ++in_flight_;
  return true;
}

/// After an error, no element is made until the consumer has received the error and begins another epoch.
void Loader::halt(uint64_t run) {
  uint64_t newest = halted_run_;
  while (newest < run && !halted_run_.compare_exchange_weak(newest, run)) continue;
}

void Loader::deliver(Slot& slot, uint64_t number) {
  Cell& cell = cells_[number % slots_.size()];
  cell.slot = &slot;
  cell.delivered = static_cast<uint32_t>(number + 1);
  cell.delivered.notify_one();
  if (awaited_ == &cell) {
    { const std::scoped_lock lock(consumer_.mutex); }  // the consumer sleeps by now
    consumer_.woken.notify_one();
  }
  --in_flight_;
  in_flight_.notify_all();
}

/// Waits until no element is being made. The caller holds the order, so no new one is begun.
void Loader::wait_for_workers() {
  while (const uint32_t under_way = in_flight_) in_flight_.wait(under_way);
}

Loader::Slot& Loader::wait_for_delivery() {
  for (;;) {
    Cell& cell = cells_[take_number_ % slots_.size()];
    const auto wanted = static_cast<uint32_t>(take_number_ + 1);
    uint32_t seen = cell.delivered.load(std::memory_order_acquire);
    const bool waited = seen != wanted;
    if (tracing()) [[unlikely]]
      trace_counter(kReady, ready());
    std::optional<TraceSpan> span;
    if (waited) {
      span.emplace(kWait);
      tuner_.on_wait();
      wake_workers();
    }
    for (int spin = 0; seen != wanted && spin < kSpins && !one_core_; ++spin) {
      _mm_pause();
      seen = cell.delivered.load(std::memory_order_acquire);
    }
    if (seen != wanted) sleep_until(cell, wanted);
    ++take_number_;
    if (cell.slot->run != run_) {  // belongs to an abandoned run
      free_slot(*cell.slot);
      continue;
    }
    if (const int workers = tuner_.on_delivery(waited); recipe_->workers == kAutotune) set_active(workers);
    return *cell.slot;
  }
}

/// Elements that the consumer could take without waiting.
int64_t Loader::ready() const {
  uint64_t number = take_number_;
  while (number < take_number_ + slots_.size() &&
         cells_[number % slots_.size()].delivered.load(std::memory_order_relaxed) ==
             static_cast<uint32_t>(number + 1)) {
    ++number;
  }
  return static_cast<int64_t>(number - take_number_);
}

/// Throws Interrupted if a stage reads this loader.
void Loader::sleep_until(const Cell& cell, uint32_t delivered) {
  if (!t_drawing.interrupt) {  // only the delivery can wake it, and this costs less
    for (uint32_t seen; (seen = cell.delivered) != delivered;) cell.delivered.wait(seen);
    return;
  }
  const Interrupt::Sleep sleep(t_drawing.interrupt, consumer_);
  std::unique_lock lock(consumer_.mutex);
  awaited_ = &cell;
  consumer_.woken.wait(lock, [&] { return cell.delivered == delivered || interrupted(); });
  awaited_ = nullptr;
  if (cell.delivered != delivered) throw Interrupted{};
}

void Loader::set_active(int workers) {
  if (active_ == workers) return;
  const std::scoped_lock lock(free_mutex_);
  active_ = workers;
  activated_.notify_all();
}

void Loader::free_slot(Slot& slot) {
  if (slot.kind == Slot::kElement) {
    slot.builder.retire();
    give_back_buffers(slot);
  }
  const std::scoped_lock lock(free_mutex_);
  free_.push_back(&slot);
  ++freed_count_;
  // The consumer is faster than the workers expected, so their naps end early.
  const size_t reserve = std::max<size_t>(1, slots_.size() / 4);
  if (waiting_ > 0 && free_.size() + reserve >= slots_.size()) freed_.notify_all();
}

/// Called when the consumer found no finished element.
void Loader::wake_workers() {
  if (waiting_ == 0) return;
  const std::scoped_lock lock(free_mutex_);
  if (!free_.empty()) freed_.notify_all();
}

const Element* Loader::next_pending() {
  Pending next = std::move(pending_.front());
  pending_.pop_front();
  held_pending_ = std::move(next.buffer);
  if (next.kind == Slot::kElement) {
    ++taken_;
    return &held_pending_->element();
  }
  in_epoch_ = false;
  failed_ = next.kind == Slot::kError;
  if (failed_) std::rethrow_exception(next.error);
  return nullptr;
}

PipelineStats Loader::stats() const {
  return {.workers = threaded() ? active_.load() : 0,
          .elements_ahead = static_cast<int64_t>(slots_.size()),
          .waits = tuner_.waits(),
          .delivered = tuner_.delivered()};
}

}  // namespace isochron::data
