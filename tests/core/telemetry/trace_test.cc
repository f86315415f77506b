#include "isochron/core/telemetry/trace.h"

#include <gmock/gmock.h>

#include <thread>

#include "isochron/core/base/clock.h"
#include "isochron/core/process/threads.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constinit TraceLabel kOuter(TraceCategory::kPhase, "outer");
constinit TraceLabel kInner(TraceCategory::kData, "inner");
constinit TraceLabel kLevel(TraceCategory::kMemory, "level");

std::vector<std::string> names_of(const TracedThread& thread) {
  std::vector<std::string> names;
  for (const TraceEvent& event : thread.events) names.push_back(trace_name_of(event.name).name);
  return names;
}

TEST(Trace, NamesAreNumberedOnce) {
  const uint32_t matmul = trace_name(TraceCategory::kKernel, "matmul_1", {.op = "matmul", .flops = 8});
  EXPECT_NE(matmul, 0u);
  EXPECT_EQ(trace_name(TraceCategory::kKernel, "matmul_1", {.op = "matmul", .flops = 8}), matmul);
  EXPECT_NE(trace_name(TraceCategory::kKernel, "matmul_1", {.op = "matmul", .flops = 9}), matmul);
  EXPECT_NE(trace_name(TraceCategory::kCall, "matmul_1"), matmul);
  EXPECT_EQ(trace_name_of(matmul).detail.op, "matmul");
  EXPECT_EQ(kOuter.number(), kOuter.number());
  EXPECT_EQ(trace_name_of(kOuter.number()).category, TraceCategory::kPhase);
}

TEST(Trace, NothingIsRecordedUnlessAsked) {
  EXPECT_FALSE(tracing());
  EXPECT_FALSE(trace_prepared());
  TraceBuffer buffer(8);
  EXPECT_TRUE(trace_prepared());
  EXPECT_FALSE(tracing());
  { const TraceSpan span(kOuter); }
  trace_counter(kLevel, 3);
  EXPECT_THAT(buffer.threads(), IsEmpty());
}

TEST(Trace, SpansNestAndComeInTheOrderOfTheirEnds) {
  TraceBuffer buffer(8);
  buffer.start();
  {
    const TraceSpan outer(kOuter, 7);
    { const TraceSpan inner(kInner); }
    trace_counter(kLevel, 42);
  }
  buffer.stop();
  const std::vector<TracedThread> threads = buffer.threads();
  ASSERT_EQ(threads.size(), 1u);
  EXPECT_THAT(names_of(threads[0]), ElementsAre("inner", "level", "outer"));
  const TraceEvent &inner = threads[0].events[0], &level = threads[0].events[1],
                   &outer = threads[0].events[2];
  EXPECT_GE(inner.start_ns, outer.start_ns);
  EXPECT_LE(inner.start_ns + inner.duration_ns, outer.start_ns + outer.duration_ns);
  EXPECT_EQ(outer.value, 7);
  EXPECT_EQ(level.kind, TraceEvent::Kind::kCounter);
  EXPECT_EQ(level.value, 42);
}

TEST(Trace, ASpanBegunBeforeOrEndedAfterARecordingIsNotInIt) {
  TraceBuffer buffer(8);
  {
    const TraceSpan before(kOuter);
    buffer.start();
  }
  {
    const TraceSpan after(kInner);
    buffer.stop();
  }
  EXPECT_THAT(buffer.threads(), IsEmpty());
}

TEST(Trace, ARingKeepsTheNewest) {
  TraceBuffer buffer(4);
  buffer.start();
  for (int i = 0; i < 10; ++i) trace_counter(kLevel, i);
  buffer.stop();
  const std::vector<TracedThread> threads = buffer.threads();
  EXPECT_EQ(threads[0].overwritten, 6);
  std::vector<int64_t> values;
  for (const TraceEvent& event : threads[0].events) values.push_back(event.value);
  EXPECT_THAT(values, ElementsAre(6, 7, 8, 9));
}

TEST(Trace, EveryThreadHasARingAndEndedOnesKeepTheirEvents) {
  TraceBuffer buffer(8);
  buffer.start();
  for (const char* name : {"first", "second"}) {
    std::thread([name] {
      name_trace_thread(name);
      const TraceSpan span(kInner);
    }).join();
  }
  buffer.stop();
  std::vector<std::string> names;
  for (const TracedThread& thread : buffer.threads()) names.push_back(thread.name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("first", "second"));
}

TEST(Trace, ThreadsBeyondTheRingsAreCounted) {
  TraceBuffer buffer(8);
  buffer.start();
  for (int i = 0; i < TraceBuffer::kMaxThreads + 3; ++i) {
    std::thread([] { trace_counter(kLevel, 1); }).join();
  }
  buffer.stop();
  EXPECT_LE(buffer.threads().size(), static_cast<size_t>(TraceBuffer::kMaxThreads));
  EXPECT_GE(buffer.lost(), 3);
}

TEST(Trace, StopsAndEndsWhileThreadsTrace) {
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&end] {
      while (!end) const TraceSpan span(kInner);
    });
  }
  for (int i = 0; i < 50; ++i) {
    TraceBuffer buffer(16);
    buffer.start();
    for (const int64_t until = now_ns() + 100'000; now_ns() < until;) continue;
    buffer.stop();
    for (const TracedThread& thread : buffer.threads()) {
      for (const TraceEvent& event : thread.events) EXPECT_EQ(event.name, kInner.number());
    }
  }
  end = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Trace, ParallelLoopsAreTracedOnEachThread) {
  if (compute_threads() < 2) GTEST_SKIP() << "one compute thread";
  TraceBuffer buffer(8);
  buffer.start();
  parallel_for(compute_threads(), 100, [](int64_t, int64_t) {});
  buffer.stop();
  EXPECT_EQ(buffer.threads().size(), static_cast<size_t>(compute_threads()));
}

TEST(Trace, RefusesWhatItCannotDo) {
  EXPECT_ERROR(TraceBuffer(0), ErrorCode::kInvalidArgument, "events_per_thread");
  TraceBuffer buffer(8);
  EXPECT_ERROR(TraceBuffer(8), ErrorCode::kInvalidArgument, "another trace");
  buffer.start();
  EXPECT_ERROR(static_cast<void>(buffer.threads()), ErrorCode::kInvalidArgument, "stop it first");
}

}  // namespace
}  // namespace isochron
