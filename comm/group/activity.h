// What a rank is doing now. The training and communication threads write it. Any other thread may read it,
// such as the watchdog's thread, which publishes it for the other ranks (comm/watch/watchdog.h). Writing is a
// few stores: no system call, no allocation, no clock.
#pragma once

#include <atomic>
#include <cstdint>

namespace isochron::comm {

class Activity {
 public:
  struct Now {
    int64_t entered = 0;     // collectives that were started
    int64_t finished = 0;    // collectives that were finished, in order
    const char* label = "";  // label of the collective in progress
    int64_t bytes = 0;       // size of its data in bytes
    const char* doing = "";  // what the program does between collectives
    int64_t epoch = 0;       // 0: not known
    int64_t step = 0;        // step within the epoch
    int64_t changes = 0;     // changes of the last three fields
  };

  /// Sets what the program does from now on, such as "computing". The text must live as long as the program.
  /// Returns the previous text.
  const char* set_doing(const char* what) {
    changes_.fetch_add(1, std::memory_order_relaxed);
    return doing_.exchange(what, std::memory_order_relaxed);
  }
  /// Sets the epoch and its step, both counted from 1.
  void set_step(int64_t epoch, int64_t step) {
    epoch_.store(epoch, std::memory_order_relaxed);
    step_.store(step, std::memory_order_relaxed);
    changes_.fetch_add(1, std::memory_order_relaxed);
  }

  // Called by the group.

  void enter() { entered_.fetch_add(1, std::memory_order_relaxed); }
  /// Describes the oldest collective that has been entered and isn't finished.
  void begin(const char* label, int64_t bytes) {
    label_.store(label, std::memory_order_relaxed);
    bytes_.store(bytes, std::memory_order_relaxed);
  }
  void finish() { finished_.fetch_add(1, std::memory_order_release); }

  /// Reads the fields one after another, so a field that changes meanwhile may be newer than the others.
  Now now() const {
    const int64_t finished = finished_.load(std::memory_order_acquire);
    return {entered_.load(std::memory_order_relaxed), finished,
            label_.load(std::memory_order_relaxed),   bytes_.load(std::memory_order_relaxed),
            doing_.load(std::memory_order_relaxed),   epoch_.load(std::memory_order_relaxed),
            step_.load(std::memory_order_relaxed),    changes_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<int64_t> entered_{0}, finished_{0}, bytes_{0}, epoch_{0}, step_{0}, changes_{0};
  std::atomic<const char*> label_{""}, doing_{"computing"};
};

/// Sets what the rank is doing until the end of the scope, and then restores what it did before. Does nothing
/// if `activity` is null.
class [[nodiscard]] Doing {
 public:
  Doing(Activity* activity, const char* what)
      : activity_(activity), outer_(activity != nullptr ? activity->set_doing(what) : nullptr) {}
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;
  ~Doing() {
    if (activity_ != nullptr) activity_->set_doing(outer_);
  }

 private:
  Activity* activity_;
  const char* outer_;
};

}  // namespace isochron::comm
