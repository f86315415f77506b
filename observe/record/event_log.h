// Collects, in bounded memory, the rare events that all layers emit (core/telemetry/event.h): traces,
// checkpoints, growth of a pool, retries, notices.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "isochron/core/telemetry/event.h"

namespace isochron::observe {

inline constexpr int kEventKinds = 8;

/// All events of a kind.
struct EventTotals {
  int64_t count = 0;
  int64_t total_ns = 0;  // the sum of the known durations
  int64_t longest_ns = 0;
};

struct EventRecords {
  std::vector<Event> events;  // the first kFirst of each kind, then the newest; in order of time
  std::array<EventTotals, kEventKinds> totals{};

  const EventTotals& of(EventKind kind) const { return totals[static_cast<size_t>(kind)]; }
};

/// Receives events while it exists. Any thread may emit them.
class EventLog {
 public:
  static constexpr size_t kFirst = 32, kNewest = 32;  // of each kind

  EventLog();
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  EventRecords records() const;

 private:
  struct Kind {
    std::vector<Event> first;
    std::vector<Event> newest;  // a ring, once full
    EventTotals totals;
  };
  void add(const Event& event);

  mutable std::mutex mutex_;
  std::array<Kind, kEventKinds> kinds_;
  int sink_ = 0;
};

}  // namespace isochron::observe
