// What threads do and when: spans, counters and marks. The library is instrumented only here: while a
// TraceBuffer records, they go to preallocated rings, and while an NVTX tool listens
// (core/telemetry/nvtx.cc), spans also become its ranges. When off, a span costs one load and a branch; when
// recorded, two reads of the clock and some 15 ns.
//
//   constinit TraceLabel kGather(TraceCategory::kData, "gather");
//   { const TraceSpan span(kGather); ... }
//
// observe/record/trace.h writes what was recorded for Perfetto and Chromium, observe/export/kernel_table.h
// adds it up.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace isochron {

/// What a span belongs to: the `cat` of a trace and the category of an NVTX range.
enum class TraceCategory : uint8_t {
  kStep,     // one iteration of a training loop; its value is the step's number
  kPhase,    // of an iteration: data_wait, compute, ...
  kCall,     // one call of a captured function
  kKernel,   // one kernel of its plan; those of loops' bodies count as their op's
  kTeam,     // a thread's part of a parallel loop
  kCapture,  // tracing, passes, planning
  kData,     // the input pipeline
  kFile,     // checkpoints
  kMemory,   // counters of bytes
  kCount
};
std::string_view trace_category_name(TraceCategory category);  // "step", "phase", ...

/// Further details of a kernel; empty and 0 for other names.
struct TraceDetail {
  std::string op = {};
  std::string shapes = {};  // of its inputs
  double flops = 0;
  double bytes = 0;  // read and written
  friend bool operator==(const TraceDetail&, const TraceDetail&) = default;
};
struct TraceName {
  TraceCategory category = TraceCategory::kCall;
  std::string name;
  TraceDetail detail = {};
};

/// Names kept at most, for the life of the process; further ones become "further names".
inline constexpr uint32_t kMaxTraceNames = 1 << 14;
/// The number of a name, the same one for equal names. Never 0. Allocates; for planning, not for steps.
uint32_t trace_name(TraceCategory category, std::string_view name, const TraceDetail& detail = {});
/// Of a number that `trace_name` gave; stays valid.
const TraceName& trace_name_of(uint32_t number);

/// A name written in the source, numbered at its first use.
class TraceLabel {
 public:
  constexpr TraceLabel(TraceCategory category, const char* name) : category_(category), name_(name) {}
  uint32_t number() const {
    const uint32_t number = number_.load(std::memory_order_relaxed);
    return number != 0 ? number : make();
  }

 private:
  uint32_t make() const;
  TraceCategory category_;
  const char* name_;
  mutable std::atomic<uint32_t> number_{0};
};

namespace internal {
enum TraceTarget : uint32_t { kTraceToBuffer = 1, kTraceToNvtx = 2 };
inline constinit std::atomic<uint32_t> g_trace_targets{0};
inline constinit std::atomic<bool> g_trace_buffer_exists{false};
void trace_span(uint32_t name, int64_t value, int64_t start_ns, int64_t end_ns);
}  // namespace internal

/// Whether anybody wants spans now.
inline bool tracing() { return internal::g_trace_targets.load(std::memory_order_relaxed) != 0; }
/// Whether anybody may want them later: names are worth making ahead.
inline bool trace_prepared() {
  return tracing() || internal::g_trace_buffer_exists.load(std::memory_order_relaxed);
}

/// A span from here to the end of the scope, on this thread. A span that began before a recording isn't part
/// of it.
class [[nodiscard]] TraceSpan {
 public:
  explicit TraceSpan(const TraceLabel& label, int64_t value = 0) {
    if (tracing()) [[unlikely]]
      begin(label.number(), value);
  }
  explicit TraceSpan(uint32_t name, int64_t value = 0) {
    if (tracing()) [[unlikely]]
      begin(name, value);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;
  ~TraceSpan() {
    if (targets_ != 0) [[unlikely]]
      end();
  }

 private:
  void begin(uint32_t name, int64_t value);
  void end();

  uint32_t targets_ = 0;
  uint32_t name_ = 0;
  int64_t value_ = 0;
  int64_t start_ns_ = 0;
};

/// The present value of something that goes up and down, such as a queue's length.
void trace_counter(const TraceLabel& label, int64_t value);

/// Names the calling thread in traces, before its first span: "loader worker 3"; at most 31 characters are
/// kept.
void name_trace_thread(std::string_view name);

struct TraceEvent {
  enum class Kind : uint8_t { kSpan, kCounter };
  int64_t start_ns;  // on the project's clock
  int64_t duration_ns;
  int64_t value;  // a counter's, or a step's number
  uint32_t name;
  Kind kind;
};

/// What one thread did.
struct TracedThread {
  int64_t thread_id = 0;           // the system's
  std::string name;                // empty: it has none
  std::vector<TraceEvent> events;  // in the order of their ends
  int64_t overwritten = 0;         // older ones that the ring no longer had room for
};

/// The rings. Memory is reserved at once and becomes resident as it is used; recording allocates nothing. At
/// most one lives at a time.
class TraceBuffer {
 public:
  static constexpr int kMaxThreads = 32;  // that recorded anything; what further ones do is lost, and counted
  /// Throws kInvalidArgument unless `events_per_thread` lies in [1, 2^24], or while another one lives.
  explicit TraceBuffer(size_t events_per_thread);
  ~TraceBuffer();
  TraceBuffer(const TraceBuffer&) = delete;
  TraceBuffer& operator=(const TraceBuffer&) = delete;

  /// Records from now on; what was recorded before stays.
  void start();
  /// When it returns, no thread is writing any more.
  void stop();
  bool recording() const { return recording_; }
  /// What was recorded. Throws kInvalidArgument while recording.
  std::vector<TracedThread> threads() const;
  /// Events lost because no ring was available (see kMaxThreads).
  int64_t lost() const;
  size_t bytes() const { return size_t{kMaxThreads} * events_per_thread_ * sizeof(TraceEvent); }

 private:
  size_t events_per_thread_;
  std::unique_ptr<TraceEvent[]> events_;
  bool recording_ = false;
};

/// From now on, sends spans to the NVTX tool of this process as ranges of the domain "isochron". False if the
/// library was built without NVTX. The library calls this by itself if NVTX_INJECTION64_PATH is set, as
/// NVIDIA's profilers do for the programs that they start.
bool enable_nvtx();
/// `enable_nvtx` where the environment asks for it; cheap after the first call.
void enable_nvtx_for_tool();
bool built_with_nvtx();

}  // namespace isochron
