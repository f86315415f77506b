// Rare events that any layer reports and `observe` collects: a trace, a plan, growth of a pool, a checkpoint.
// Replays emit none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace isochron {

enum class EventKind { kTrace, kPlan, kPoolGrowth, kPoolTrim, kRetry, kDataError, kNotice, kCheckpoint };

struct Event {
  EventKind kind;
  std::string name;         // the object of the event, e.g. the captured function
  std::string text;         // one line for people
  int64_t time_ns = 0;      // when, on the project's clock
  int64_t duration_ns = 0;  // how long it took
  std::string before = {};  // what was there before, if anything; for a trace, the previous signature
  std::string after = {};   // what replaced it; for a trace, its own signature
};

std::string_view event_kind_name(EventKind kind);

using EventSink = std::function<void(const Event&)>;
/// Adds a receiver; returns its number for `remove_event_sink`. Receivers are called on the emitting thread,
/// one at a time, and must not emit.
int add_event_sink(EventSink sink);
void remove_event_sink(int number);
void emit(Event event);

}  // namespace isochron
