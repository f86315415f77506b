#include "isochron/core/telemetry/event.h"

#include <mutex>
#include <utility>
#include <vector>

#include "isochron/core/base/clock.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/core/telemetry/log.h"

namespace isochron {
namespace {

struct Sinks {
  std::mutex mutex;
  std::vector<std::pair<int, EventSink>> list;
  int next = 1;
};

Sinks& sinks() {
  static Sinks* const instance = new Sinks;  // outlives every static that may still emit
  return *instance;
}

}  // namespace

std::string_view event_kind_name(EventKind kind) {
  constexpr std::string_view kNames[] = {"trace", "plan",       "pool_growth", "pool_trim",
                                         "retry", "data_error", "notice",      "checkpoint"};
  return kNames[static_cast<int>(kind)];
}

int add_event_sink(EventSink sink) {
  std::lock_guard lock(sinks().mutex);
  sinks().list.emplace_back(sinks().next, std::move(sink));
  count(Counter::kHooks, 1);
  return sinks().next++;
}

void remove_event_sink(int number) {
  std::lock_guard lock(sinks().mutex);
  const size_t removed =
      std::erase_if(sinks().list, [number](const auto& entry) { return entry.first == number; });
  count(Counter::kHooks, -static_cast<int64_t>(removed));
}

void emit(Event event) {
  if (event.time_ns == 0) event.time_ns = now_ns();
  std::lock_guard lock(sinks().mutex);
  for (auto& [number, sink] : sinks().list) sink(event);
  internal::log_by_default(event);
}

}  // namespace isochron
