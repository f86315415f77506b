// Loader: delivers the elements of a recipe epoch by epoch, made on the calling thread or by a background
// thread that fills a ring of frames ahead of the consumer.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "isochron/data/frame.h"
#include "isochron/data/keys.h"

namespace isochron::data {

class Loader {
 public:
  explicit Loader(std::shared_ptr<const Recipe> recipe);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  /// Begins the next epoch, abandoning what is left of the present one. Epochs count from 0.
  void begin_epoch();
  /// Before any other call: goes on in `epoch` after its first `taken` elements.
  void resume(uint64_t epoch, int64_t taken);
  uint64_t epoch() const { return epoch_; }
  /// Elements of the epoch that the consumer took.
  int64_t taken() const { return taken_; }
  /// The next element, valid until the next call; null at the end of the epoch. Throws what making it threw;
  /// the epoch is over then.
  const Element* next();

 private:
  void start_thread();
  void skip_keys(int64_t elems);
  struct Slot {
    enum Kind { kElement, kEnd, kError };
    explicit Slot(const Recipe& recipe) : frame(recipe, recipe.levels.size() - 1) {}
    Frame frame;
    Kind kind = kEnd;
    uint64_t epoch = 0;
    const Element* element = nullptr;
    std::exception_ptr error;
  };

  /// Makes the next element of the epoch, its end or its error in `slot`. Never throws.
  void make(Slot& slot, Position& position);
  void retire_held();

  // The background thread and its ring. Slots [released_, produced_) hold what the consumer hasn't finished
  // with.
  void produce();
  bool wait_for_room();
  bool wait_for_epoch_after(uint64_t epoch);
  void wake_producer();
  Slot& wait_for_slot();
  void release_slot();

  std::shared_ptr<const Recipe> recipe_;
  std::unique_ptr<KeyStream> keys_;
  std::vector<int64_t> key_;
  std::vector<std::unique_ptr<Slot>> slots_;
  Position position_;   // of the element that is made next
  size_t fill_at_ = 0;  // slot that the producer fills next
  Position first_{};    // where the producer begins

  // The consumer's state begins a cache line of its own, as does each counter: what one side writes all the
  // time must not share a line with what the other does.
  alignas(64) uint64_t epoch_ = 0;  // that the consumer is in
  size_t take_at_ = 0;              // slot that the consumer takes next
  int64_t taken_ = 0;               // elements of the epoch
  bool begun_ = false;              // any epoch
  bool in_epoch_ = false;           // the epoch has not ended
  Slot* held_ = nullptr;            // what the consumer has

  alignas(64) std::atomic<uint32_t> produced_{0};  // slots filled so far, wrapping
  alignas(64) std::atomic<uint32_t> released_{0};  // slots given back so far, wrapping
  alignas(64) std::atomic<uint32_t> wakes_{0};     // raised to wake the producer
  std::atomic<uint64_t> wanted_epoch_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace isochron::data
