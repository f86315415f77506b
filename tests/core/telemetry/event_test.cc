#include "isochron/core/telemetry/event.h"

#include <gmock/gmock.h>

#include <set>
#include <vector>

#include "isochron/core/base/clock.h"
#include "isochron/core/telemetry/counters.h"

namespace isochron {
namespace {

TEST(Event, ReachesEverySinkUntilItIsRemoved) {
  std::vector<std::string> first, second;
  const int a = add_event_sink([&](const Event& event) { first.push_back(event.name); });
  const int b = add_event_sink([&](const Event& event) { second.push_back(event.name); });
  emit({.kind = EventKind::kTrace, .name = "step", .text = "traced"});
  remove_event_sink(a);
  emit({.kind = EventKind::kPlan, .name = "plan", .text = "planned"});
  remove_event_sink(b);
  emit({.kind = EventKind::kNotice, .name = "nobody", .text = "listens"});
  EXPECT_THAT(first, testing::ElementsAre("step"));
  EXPECT_THAT(second, testing::ElementsAre("step", "plan"));
}

TEST(Event, IsStampedUnlessItCarriesATime) {
  std::vector<int64_t> times;
  const int sink = add_event_sink([&](const Event& event) { times.push_back(event.time_ns); });
  const int64_t before = now_ns();
  emit({.kind = EventKind::kNotice, .name = "a", .text = ""});
  emit({.kind = EventKind::kNotice, .name = "b", .text = "", .time_ns = 5});
  remove_event_sink(sink);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_GE(times[0], before);
  EXPECT_EQ(times[1], 5);
}

TEST(Event, KindsAndCountersHaveDistinctNames) {
  std::set<std::string_view> kinds, counters;
  for (int i = 0; i <= static_cast<int>(EventKind::kNotice); ++i) {
    kinds.insert(event_kind_name(static_cast<EventKind>(i)));
  }
  for (int i = 0; i < kCounterCount; ++i) counters.insert(counter_name(static_cast<Counter>(i)));
  EXPECT_EQ(kinds.size(), static_cast<size_t>(EventKind::kNotice) + 1);
  EXPECT_EQ(counters.size(), static_cast<size_t>(kCounterCount));
  EXPECT_FALSE(counters.contains(""));
}

TEST(Counters, AddAndSubtract) {
  const int64_t before = counter_value(Counter::kDropped);
  count(Counter::kDropped, 3);
  count(Counter::kDropped, -1);
  EXPECT_EQ(counter_value(Counter::kDropped), before + 2);
  count(Counter::kDropped, -2);
}

}  // namespace
}  // namespace isochron
