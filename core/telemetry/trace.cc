#include "isochron/core/telemetry/trace.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/core/base/hash.h"
#include "isochron/core/telemetry/nvtx.h"

namespace isochron {
namespace {

constexpr size_t kMaxEventsPerThread = size_t{1} << 24;

struct Names {
  std::mutex mutex;
  std::deque<TraceName> list;  // addresses are stable; number n is list[n - 1]
  std::unordered_multimap<uint64_t, uint32_t> numbers;
};

Names& names() {
  static Names* const instance = new Names;  // outlives every thread that still traces
  return *instance;
}

/// A ring buffer of events and the thread that writes it. A thread keeps its ring when one TraceBuffer
/// follows another.
struct Ring {
  std::atomic<bool> taken{false};  // by a thread that is alive
  std::atomic<bool> busy{false};   // it is writing
  TraceEvent* events = nullptr;
  size_t capacity = 0;
  std::atomic<uint64_t> count{0};  // ever written
  int64_t thread_id = 0;
  std::array<char, 32> name{};
};

std::array<Ring, TraceBuffer::kMaxThreads> g_rings;
std::atomic<int64_t> g_lost{0};

/// This thread's ring, given back when the thread ends.
struct Membership {
  Ring* ring = nullptr;
  ~Membership() {
    if (ring != nullptr) ring->taken.store(false, std::memory_order_release);
  }
};
thread_local Membership t_membership;
thread_local std::array<char, 32> t_name{};

/// Takes a ring that has no owner and holds no events of a thread that has ended. Null if there is none.
Ring* take_ring() {
  for (Ring& ring : g_rings) {
    bool taken = false;
    if (!ring.taken.compare_exchange_strong(taken, true, std::memory_order_acquire)) continue;
    if (ring.count == 0) {
      ring.thread_id = ::syscall(SYS_gettid);
      ring.name = t_name;
      return t_membership.ring = &ring;
    }
    ring.taken.store(false, std::memory_order_release);
  }
  return nullptr;
}

/// TraceBuffer::stop() clears kTraceToBuffer and then waits while a ring is `busy`. The accesses on both
/// sides are sequentially consistent, so either the writer sees the cleared bit, or stop() sees that the
/// writer is busy.
void record(const TraceEvent& event) {
  Ring* const ring = t_membership.ring != nullptr ? t_membership.ring : take_ring();
  if (ring == nullptr) {
    g_lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ring->busy.store(true);
  if ((internal::g_trace_targets.load() & internal::kTraceToBuffer) != 0) {
    const uint64_t count = ring->count.load(std::memory_order_relaxed);
    ring->events[count % ring->capacity] = event;
    ring->count.store(count + 1, std::memory_order_relaxed);
  }
  ring->busy.store(false, std::memory_order_release);
}

}  // namespace

std::string_view trace_category_name(TraceCategory category) {
  constexpr std::string_view kNames[] = {"step",    "phase", "call", "kernel", "team",
                                         "capture", "data",  "file", "memory"};
  static_assert(std::size(kNames) == static_cast<size_t>(TraceCategory::kCount));
  return kNames[static_cast<size_t>(category)];
}

uint32_t trace_name(TraceCategory category, std::string_view name, const TraceDetail& detail) {
  uint64_t hash = hash_more(hash_more(kHashOfNothing, static_cast<unsigned char>(category)), name);
  hash = hash_more(hash_more(hash, detail.op), detail.shapes);
  Names& all = names();
  const std::lock_guard lock(all.mutex);
  const auto [first, last] = all.numbers.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    const TraceName& known = all.list[at->second - 1];
    if (known.category == category && known.name == name && known.detail == detail) return at->second;
  }
  const bool full = all.list.size() + 1 >= kMaxTraceNames;  // the last one stands for all further ones
  if (all.list.size() == kMaxTraceNames) return kMaxTraceNames;
  all.list.push_back(full ? TraceName{TraceCategory::kCall, "further names"}
                          : TraceName{category, std::string(name), detail});
  const auto number = static_cast<uint32_t>(all.list.size());
  if (!full) all.numbers.emplace(hash, number);
  return number;
}

const TraceName& trace_name_of(uint32_t number) {
  Names& all = names();
  const std::lock_guard lock(all.mutex);
  return all.list.at(number - 1);
}

uint32_t TraceLabel::make() const {
  const uint32_t number = trace_name(category_, name_);
  number_.store(number, std::memory_order_relaxed);
  return number;
}

void TraceSpan::begin(uint32_t name, int64_t value) {
  targets_ = internal::g_trace_targets.load(std::memory_order_relaxed);
  name_ = name;
  value_ = value;
  if ((targets_ & internal::kTraceToNvtx) != 0) internal::nvtx_push(name, value);
  start_ns_ = now_ns();
}

void TraceSpan::end() {
  if ((targets_ & internal::kTraceToBuffer) != 0) {
    record({start_ns_, now_ns() - start_ns_, value_, name_, TraceEvent::Kind::kSpan});
  }
  if ((targets_ & internal::kTraceToNvtx) != 0) internal::nvtx_pop();
}

void trace_counter(const TraceLabel& label, int64_t value) {
  if ((internal::g_trace_targets.load(std::memory_order_relaxed) & internal::kTraceToBuffer) == 0) return;
  record({now_ns(), 0, value, label.number(), TraceEvent::Kind::kCounter});
}

void name_trace_thread(std::string_view name) {
  t_name.fill('\0');
  std::memcpy(t_name.data(), name.data(), std::min(name.size(), t_name.size() - 1));
}

TraceBuffer::TraceBuffer(size_t events_per_thread) : events_per_thread_(events_per_thread) {
  require(events_per_thread >= 1 && events_per_thread <= kMaxEventsPerThread, ErrorCode::kInvalidArgument,
          "trace", "events_per_thread must lie in [1, {}], got {}", kMaxEventsPerThread, events_per_thread);
  require(!internal::g_trace_buffer_exists.exchange(true), ErrorCode::kInvalidArgument, "trace",
          "another trace is being recorded; end it first");
  try {
    events_ = std::make_unique_for_overwrite<TraceEvent[]>(kMaxThreads * events_per_thread);
  } catch (...) {
    internal::g_trace_buffer_exists = false;
    throw;
  }
  for (size_t i = 0; i < g_rings.size(); ++i) {
    g_rings[i].events = events_.get() + i * events_per_thread;
    g_rings[i].capacity = events_per_thread;
    g_rings[i].count = 0;
  }
  g_lost = 0;
}

TraceBuffer::~TraceBuffer() {
  stop();
  for (Ring& ring : g_rings) {
    ring.events = nullptr;
    ring.count = 0;
  }
  internal::g_trace_buffer_exists = false;
}

void TraceBuffer::start() {
  recording_ = true;
  internal::g_trace_targets.fetch_or(internal::kTraceToBuffer);
}

void TraceBuffer::stop() {
  internal::g_trace_targets.fetch_and(~uint32_t{internal::kTraceToBuffer});
  for (const Ring& ring : g_rings) {
    while (ring.busy.load()) continue;  // some ten ns
  }
  recording_ = false;
}

std::vector<TracedThread> TraceBuffer::threads() const {
  require(!recording_, ErrorCode::kInvalidArgument, "trace", "is being recorded; stop it first");
  std::vector<TracedThread> result;
  for (const Ring& ring : g_rings) {
    const uint64_t count = ring.count;
    if (count == 0) continue;
    TracedThread thread{ring.thread_id, ring.name.data(), {}, 0};
    const uint64_t kept = std::min<uint64_t>(count, ring.capacity);
    thread.overwritten = static_cast<int64_t>(count - kept);
    thread.events.reserve(kept);
    for (uint64_t i = count - kept; i < count; ++i) {
      thread.events.push_back(ring.events[i % ring.capacity]);
    }
    result.push_back(std::move(thread));
  }
  return result;
}

int64_t TraceBuffer::lost() const { return g_lost.load(); }

bool enable_nvtx() {
  if (!built_with_nvtx()) return false;
  internal::nvtx_begin();
  internal::g_trace_targets.fetch_or(internal::kTraceToNvtx);
  return true;
}

void enable_nvtx_for_tool() {
  static const bool asked = std::getenv("NVTX_INJECTION64_PATH") != nullptr && enable_nvtx();
  static_cast<void>(asked);
}

}  // namespace isochron
