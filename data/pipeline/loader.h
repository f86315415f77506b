// Loader: delivers the elements of a recipe epoch by epoch. Elements are made on the calling thread, or by
// worker threads that fill slots ahead of the consumer.
//
// A worker takes a free slot and draws the next indices; only one worker at a time may draw, which fixes the
// order. It then makes the element, in parallel with other workers. It delivers the slot under the number of
// its draw or, if order doesn't matter, under the number of elements finished so far.
//
// If the process has a single core (core/process/cores.h) and making an element never waits (for a file or a
// user function), a worker could only take that core from the consumer. Elements are then made on demand, on
// the calling thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "isochron/data/element/branch.h"
#include "isochron/data/element/consumer_pace.h"
#include "isochron/data/element/interrupt.h"
#include "isochron/data/pipeline/autotune.h"
#include "isochron/data/pipeline/element_builder.h"
#include "isochron/data/pipeline/sampling_order.h"

namespace isochron::data {

class Loader {
 public:
  explicit Loader(std::shared_ptr<const Recipe> recipe);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  /// Begins the next epoch, abandoning what is left of the present one. Epochs count from 0.
  void begin_epoch() { begin_epoch(next_epoch()); }
  void begin_epoch(uint64_t epoch);
  uint64_t epoch() const { return epoch_; }
  /// The epoch that `begin_epoch` without an argument begins next.
  uint64_t next_epoch() const;
  /// A number that changes with each begin and resume.
  uint64_t loop() const { return loop_; }
  /// The next element, valid until the next call; null at the end of the epoch. Throws the error of making
  /// the element; the epoch has then ended.
  const Element* next();
  /// The same for a stage that reads this loader: throws Interrupted too (interrupt.h).
  const Element* advance();
  /// The position of the last delivered element, as far as this loader knows it: without the row.
  Position position() const;

  /// The consumer's state: the position after the element that `next` returned last. A draw in progress is
  /// paused (but not within user code), and elements that are being made are finished first.
  std::string state();
  /// Restores `state`: `next` continues from there. Throws kBadFormat for a state that is damaged or belongs
  /// to another recipe, and kInvalidArgument for a different sharding that can't be converted. After an error
  /// the loader is at the beginning of epoch 0.
  void resume(std::string_view state);

  PipelineStats stats() const;

 private:
  struct Slot {
    enum Kind { kElement, kEnd, kError };
    Slot(const Recipe& recipe, const ElementSlots* element_slots);
    ElementBuilder builder;
    std::vector<int64_t> indices;
    int64_t rows = 0;  // of the indices
    Position position;
    Kind kind = kEnd;
    uint64_t run = 0;
    const Element* element = nullptr;
    std::exception_ptr error;
  };
  /// A place in the order of delivery.
  struct Cell {
    Slot* slot = nullptr;
    std::atomic<uint32_t> delivered{0};  // number of the delivery in `slot`, plus 1; its low half
  };

  class OrderHold;
  class Reading;

  bool threaded() const { return threaded_; }
  /// Whether a position in the order is the complete state.
  bool small_state() const { return recipe_->rows && recipe_->deterministic; }
  void start_threads();
  void start_run(uint64_t epoch);
  void draw(Slot& slot);
  void refuse_damaged_indices(Slot& slot);
  void make(Slot& slot);
  void give_back_buffers(Slot& slot);
  void retire_held();
  const Element* take(Slot& slot);

  // Workers.
  void work(int worker);
  Slot* wait_for_free_slot(int worker);
  bool draw_in_turn(Slot& slot, uint64_t& number);
  void deliver(Slot& slot, uint64_t number);
  void halt(uint64_t run);

  // Consumer.
  Slot& wait_for_delivery();
  int64_t ready() const;
  void sleep_until(const Cell& cell, uint32_t delivered);
  void free_slot(Slot& slot);
  void wake_workers();
  void set_active(int workers);
  void wait_for_workers();
  const Element* next_pending();
  void save_under_way(StateWriter& state);
  bool save_pending(StateWriter& state);
  void restore_under_way(StateReader& state);
  void read_state(StateReader& state);
  void restore_place(StateReader& state, bool sharded);

  std::shared_ptr<const Recipe> recipe_;
  const uint64_t branch_ = BranchScope::current();
  const bool one_core_;  // the consumer's core is the only one: no thread may spin
  const bool threaded_;
  Layout result_;  // of any element
  std::unique_ptr<ElementSlots> element_slots_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::unique_ptr<Cell[]> cells_;  // one per slot

  // The consumer's state, the order and the free slots each begin a cache line of their own: what one thread
  // writes all the time must not share a line with what another thread reads.
  alignas(64) uint64_t epoch_ = 0;  // the consumer's epoch
  std::atomic<bool> read_{false};   // a call that reads hasn't returned
  int64_t taken_ = 0;               // elements of the epoch that the consumer took
  uint64_t loop_ = 0;
  bool begun_ = false;        // any epoch
  bool in_epoch_ = false;     // the epoch has not ended
  bool failed_ = false;       // the epoch ended in an error
  Slot* held_ = nullptr;      // what the consumer has
  uint64_t take_number_ = 0;  // of the delivery that the consumer takes next
  struct Pending {
    Slot::Kind kind;
    std::unique_ptr<ElementBuffer> buffer;
    std::exception_ptr error;
  };
  std::deque<Pending> pending_;                  // restored elements, delivered before any new one
  std::unique_ptr<ElementBuffer> held_pending_;  // one that the consumer has
  Autotuner tuner_;
  Waiter consumer_;                            // where a stage that reads this loader sleeps
  std::atomic<const Cell*> awaited_{nullptr};  // the delivery that this stage waits for

  // The order, drawn by one thread at a time.
  alignas(64) std::mutex order_mutex_;
  std::condition_variable order_changed_;
  Interrupt interrupt_;  // of the draw in progress; no draw begins while it is requested
  std::unique_ptr<SamplingOrder> order_;
  Position position_;      // of the element that is drawn next
  bool at_start_ = true;   // the order must be restarted first
  bool restored_ = false;  // the order may come from a damaged state
  uint64_t run_ = 1;       // raised when the consumer changes its position: earlier elements are discarded
  uint64_t drawn_ = 0;     // numbers given out, in order
  std::atomic<uint64_t> finished_{0};    // numbers given out, if order doesn't matter
  std::atomic<uint32_t> in_flight_{0};   // elements drawn and not yet delivered
  std::atomic<uint64_t> halted_run_{0};  // the run that an error ended: no more elements are made in it

  alignas(64) std::mutex free_mutex_;
  std::condition_variable freed_;
  std::vector<Slot*> free_;
  std::condition_variable activated_;
  std::atomic<int> waiting_ = 0;  // workers without a slot
  std::atomic<uint64_t> freed_count_ = 0;
  ConsumerPace pace_;
  std::atomic<int> active_{1};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// Holds the order, so that no worker draws from it; a draw that was paused continues afterwards.
class Loader::OrderHold {
 public:
  OrderHold(Loader& loader, Interrupt::Kind kind) : loader_(loader) {
    loader.interrupt_.request(kind);
    lock_ = std::unique_lock(loader.order_mutex_);
  }
  ~OrderHold() {
    loader_.interrupt_.clear();
    loader_.order_changed_.notify_all();
  }
  OrderHold(const OrderHold&) = delete;
  OrderHold& operator=(const OrderHold&) = delete;

 private:
  Loader& loader_;
  std::unique_lock<std::mutex> lock_;
};

}  // namespace isochron::data
