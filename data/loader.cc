#include "isochron/data/loader.h"

#include <immintrin.h>

#include <algorithm>
#include <system_error>

#include "isochron/core/counters.h"
#include "isochron/core/error.h"
#include "isochron/core/threads.h"

namespace isochron::data {
namespace {

/// Slots that the consumer and the end mark occupy beside the elements that wait.
constexpr int64_t kExtraSlots = 2;
/// About 20 us: longer than making a usual batch, shorter than what sleeping and waking cost together.
constexpr int kSpins = 500;

}  // namespace

Loader::Loader(std::shared_ptr<const Recipe> recipe)
    : recipe_(std::move(recipe)),
      keys_(make_keys(*recipe_)),
      key_(static_cast<size_t>(recipe_->levels.back().rows)) {
  const int64_t slots = recipe_->prefetch_elems == 0 ? 1 : recipe_->prefetch_elems + kExtraSlots;
  for (int64_t i = 0; i < slots; ++i) slots_.push_back(std::make_unique<Slot>(*recipe_));
}

Loader::~Loader() {
  if (!thread_.joinable()) return;
  stop_ = true;
  wake_producer();
  thread_.join();
  count(Counter::kThreads, -1);
}

void Loader::begin_epoch() {
  retire_held();
  if (recipe_->prefetch_elems > 0 && !thread_.joinable()) start_thread();
  epoch_ = begun_ ? epoch_ + 1 : 0;
  in_epoch_ = true;
  begun_ = true;
  taken_ = 0;
  if (recipe_->prefetch_elems == 0) {
    position_ = {epoch_, 0};
    keys_->restart(epoch_);
    return;
  }
  wanted_epoch_ = epoch_;
  wake_producer();
}

void Loader::resume(uint64_t epoch, int64_t taken) {
  epoch_ = epoch;
  in_epoch_ = true;
  begun_ = true;
  taken_ = taken;
  if (recipe_->prefetch_elems == 0) {
    position_ = {epoch, taken};
    keys_->restart(epoch);
    skip_keys(taken);
    return;
  }
  first_ = {epoch, taken};
  wanted_epoch_ = epoch;
  start_thread();
}

void Loader::skip_keys(int64_t elems) {
  while (elems > 0 && keys_->next(key_.data()) > 0) --elems;
}

void Loader::start_thread() {
  try {
    thread_ = std::thread([this] { produce(); });
  } catch (const std::system_error& error) {
    fail(ErrorCode::kOutOfMemory, "prefetch", "the system refuses a thread: {}", error.what());
  }
  count(Counter::kThreads, 1);
}

const Element* Loader::next() {
  retire_held();
  if (!in_epoch_) return nullptr;
  Slot* slot = slots_[0].get();
  if (recipe_->prefetch_elems == 0) {
    make(*slot, position_);
  } else {
    slot = &wait_for_slot();
  }
  if (slot->kind == Slot::kElement) {
    ++taken_;
    held_ = slot;
    return slot->element;
  }
  in_epoch_ = false;
  const std::exception_ptr error = std::exchange(slot->error, nullptr);
  if (recipe_->prefetch_elems != 0) release_slot();
  if (error) std::rethrow_exception(error);
  return nullptr;
}

void Loader::make(Slot& slot, Position& position) {
  slot.epoch = position.epoch;
  slot.error = nullptr;  // one may be left from an abandoned epoch
  try {
    const int64_t rows = keys_->next(key_.data());
    slot.kind = rows == 0 ? Slot::kEnd : Slot::kElement;
    if (rows > 0) slot.element = &slot.frame.fill({key_.data(), static_cast<size_t>(rows)}, position);
    ++position.element;
  } catch (...) {
    slot.kind = Slot::kError;
    slot.error = std::current_exception();
  }
}

void Loader::retire_held() {
  if (!held_) return;
  held_->frame.retire();
  held_ = nullptr;
  if (recipe_->prefetch_elems != 0) release_slot();
}

void Loader::produce() {
  flush_subnormals_to_zero();
  uint64_t epoch = first_.epoch;
  while (!stop_) {
    position_ = {epoch, epoch == first_.epoch ? first_.element : 0};
    keys_->restart(epoch);
    skip_keys(position_.element);
    Slot::Kind kind = Slot::kElement;
    while (kind == Slot::kElement) {
      if (!wait_for_room()) return;
      if (wanted_epoch_ > epoch) break;  // abandoned by the consumer
      Slot& slot = *slots_[fill_at_];
      fill_at_ = (fill_at_ + 1) % slots_.size();
      make(slot, position_);
      kind = slot.kind;
      ++produced_;
      produced_.notify_one();
    }
    if (kind == Slot::kError && !wait_for_epoch_after(epoch)) return;
    epoch = std::max<uint64_t>(wanted_epoch_, kind == Slot::kEnd ? epoch + 1 : 0);
  }
}

bool Loader::wait_for_room() {
  while (!stop_) {
    const uint32_t seen = wakes_;
    if (produced_ - released_ < slots_.size()) return true;
    if (!stop_) wakes_.wait(seen);
  }
  return false;
}

bool Loader::wait_for_epoch_after(uint64_t epoch) {
  while (!stop_) {
    const uint32_t seen = wakes_;
    if (wanted_epoch_ > epoch) return true;
    if (!stop_) wakes_.wait(seen);
  }
  return false;
}

void Loader::wake_producer() {
  ++wakes_;
  wakes_.notify_one();
}

Loader::Slot& Loader::wait_for_slot() {
  for (;;) {
    const uint32_t next = released_;
    for (int spin = 0; produced_ == next && spin < kSpins; ++spin) _mm_pause();
    produced_.wait(next);  // returns at once when there is something
    Slot& slot = *slots_[take_at_];
    if (slot.epoch == epoch_) return slot;
    release_slot();  // left over from an epoch that was abandoned
  }
}

void Loader::release_slot() {
  take_at_ = (take_at_ + 1) % slots_.size();
  const uint32_t released = ++released_;
  // A sleeping producer is woken when half of the ring is free, so that waking is paid for several elements
  // at once.
  if (produced_ - released <= slots_.size() / 2) wake_producer();
}

}  // namespace isochron::data
