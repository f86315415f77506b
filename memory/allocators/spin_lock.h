// A lock for sections of a few nanoseconds: one atomic exchange when free, pauses and then yields when not.
#pragma once

#include <atomic>
#include <thread>

namespace isochron {

class SpinLock {
 public:
  void lock() {
    int spins = 0;
    while (locked_.exchange(true, std::memory_order_acquire)) {
      while (locked_.load(std::memory_order_relaxed)) {
        if (++spins % kSpinsPerYield == 0) std::this_thread::yield();
      }
    }
  }
  void unlock() { locked_.store(false, std::memory_order_release); }

 private:
  static constexpr int kSpinsPerYield = 128;
  std::atomic<bool> locked_{false};
};

}  // namespace isochron
