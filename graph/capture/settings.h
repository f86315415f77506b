// Settings: values other than tensors that a trace reads and that the program may change later, such as
// whether a parameter is trainable. A captured function reuses a plan only while all settings that its trace
// read still have the same values; otherwise it traces again.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace isochron::graph {

/// The settings that a trace has read, and their values then.
class TracedSettings {
 public:
  using Name = std::function<std::string()>;
  using Now = std::function<int64_t()>;
  /// `identity` distinguishes settings. If a setting was noted before, its first value is kept.
  void note(const void* identity, const Name& name, Now now);
  /// Forgets the settings that have another value by now, because the trace itself changed them.
  void forget_changed();
  /// Whether all settings have the values that the trace read. Takes nanoseconds, except if any setting has
  /// changed since the last call or if that call came from another thread.
  bool hold() const { return checked_at_ == changes() && checked_by_ == &t_marker ? held_ : check(); }
  /// The names of the settings whose values have changed since; empty if there are none.
  std::string changed() const;
  /// A hash of names and values.
  size_t hash() const;

  /// Must be called after every change of a setting. Thread-safe.
  static void note_change() { changes_.fetch_add(1, std::memory_order_release); }

 private:
  struct Read {
    std::string name;
    Now now;
    int64_t value;
  };
  static uint64_t changes() { return changes_.load(std::memory_order_acquire); }
  bool check() const;

  static inline std::atomic<uint64_t> changes_{1};
  static inline constinit thread_local char t_marker = 0;  // its address identifies the thread
  std::vector<Read> reads_;
  std::unordered_set<const void*> known_;  // identities of `reads_`
  mutable uint64_t checked_at_ = 0;
  mutable const char* checked_by_ = nullptr;
  mutable bool held_ = false;
};

/// Notes in the outermost capture of this thread, if there is one, that its trace depends on a setting.
/// `changed_in`: the serial number of the capture that set its value. Values that this trace itself has set
/// aren't noted.
void note_setting(const void* identity, uint64_t changed_in, const TracedSettings::Name& name,
                  TracedSettings::Now now);
/// The serial number of the current capture; 0 outside captures.
uint64_t capture_serial();

/// A number that traces read. Copies share it. Changing it isn't thread-safe.
class Setting {
 public:
  explicit Setting(int64_t value) : state_(std::make_shared<State>(State{value})) {}
  /// The value, without a note in the capture.
  int64_t value() const { return state_->value; }
  /// The value; a capture notes under `name` that it was read.
  int64_t read(const TracedSettings::Name& name) const;
  void set(int64_t value) const;

 private:
  struct State {
    int64_t value = 0;
    uint64_t changed_in = 0;
  };
  std::shared_ptr<State> state_;
};

}  // namespace isochron::graph
