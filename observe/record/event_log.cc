#include "isochron/observe/record/event_log.h"

#include <algorithm>

namespace isochron::observe {

static_assert(static_cast<int>(EventKind::kCheckpoint) + 1 == kEventKinds);

EventLog::EventLog() : sink_(add_event_sink([this](const Event& event) { add(event); })) {}

EventLog::~EventLog() { remove_event_sink(sink_); }

void EventLog::add(const Event& event) {
  const std::lock_guard lock(mutex_);
  Kind& kind = kinds_[static_cast<size_t>(event.kind)];
  if (kind.first.size() < kFirst) {
    kind.first.push_back(event);
  } else if (kind.newest.size() < kNewest) {
    kind.newest.push_back(event);
  } else {
    kind.newest[static_cast<size_t>(kind.totals.count) % kNewest] = event;
  }
  ++kind.totals.count;
  kind.totals.total_ns += event.duration_ns;
  kind.totals.longest_ns = std::max(kind.totals.longest_ns, event.duration_ns);
}

EventRecords EventLog::records() const {
  const std::lock_guard lock(mutex_);
  EventRecords records;
  for (size_t k = 0; k < kinds_.size(); ++k) {
    records.totals[k] = kinds_[k].totals;
    records.events.insert(records.events.end(), kinds_[k].first.begin(), kinds_[k].first.end());
    records.events.insert(records.events.end(), kinds_[k].newest.begin(), kinds_[k].newest.end());
  }
  std::ranges::stable_sort(records.events, {}, &Event::time_ns);
  return records;
}

}  // namespace isochron::observe
