// Interrupts: a flag that is polled by a thread that draws elements. It is set when the consumer begins
// another epoch or restores a state (the draw is abandoned), or asks for the state (the draw is paused and
// resumed afterwards).
//
// Stages poll it by reading their inputs with Loader::advance, or by calling throw_if_interrupted in their
// own loops. A function that throws Interrupted leaves its state unchanged, so that the same call can be
// repeated.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>

namespace isochron::data {

/// Thrown out of a draw; the loader that draws catches it.
struct Interrupted {};

/// Where a thread sleeps until another wakes it.
struct Waiter {
  std::mutex mutex;
  std::condition_variable woken;
};

/// Asks the draw of one loader to stop. Only the consumer calls `request` and `clear`.
class Interrupt {
 public:
  enum Kind : int { kNone, kPause, kAbandon };

  void request(Kind kind) {
    requested_ = kind;
    const std::scoped_lock lock(mutex_);
    if (!sleeper_) return;
    const std::scoped_lock sleeper_lock(sleeper_->mutex);
    sleeper_->woken.notify_all();
  }
  void clear() { requested_ = kNone; }
  Kind requested() const { return requested_; }

  /// During its lifetime, `request` wakes `waiter`. The waiter's mutex must not be held when a Sleep is
  /// constructed or destroyed.
  class Sleep {
   public:
    Sleep(Interrupt* interrupt, Waiter& waiter) : interrupt_(interrupt) { set(&waiter); }
    ~Sleep() { set(nullptr); }
    Sleep(const Sleep&) = delete;
    Sleep& operator=(const Sleep&) = delete;

   private:
    void set(Waiter* waiter) {
      if (!interrupt_) return;
      const std::scoped_lock lock(interrupt_->mutex_);
      interrupt_->sleeper_ = waiter;
    }
    Interrupt* interrupt_;
  };

 private:
  std::atomic<Kind> requested_{kNone};
  std::mutex mutex_;
  Waiter* sleeper_ = nullptr;  // where the thread that draws sleeps, if it does
};

/// What this thread is drawing.
struct Drawing {
  Interrupt* interrupt = nullptr;  // of the loader that it draws for; null when it doesn't draw
  bool may_pause = false;          // false within user code, which can't be left and entered again
};
inline thread_local constinit Drawing t_drawing;

class DrawingScope {
 public:
  explicit DrawingScope(const Drawing& drawing) : previous_(t_drawing) { t_drawing = drawing; }
  ~DrawingScope() { t_drawing = previous_; }
  DrawingScope(const DrawingScope&) = delete;
  DrawingScope& operator=(const DrawingScope&) = delete;

 private:
  Drawing previous_;
};

inline bool interrupted() {
  if (!t_drawing.interrupt) return false;
  const Interrupt::Kind requested = t_drawing.interrupt->requested();
  return requested == Interrupt::kAbandon || (requested == Interrupt::kPause && t_drawing.may_pause);
}

inline void throw_if_interrupted() {
  if (interrupted()) [[unlikely]]
    throw Interrupted{};
}

}  // namespace isochron::data
