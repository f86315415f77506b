// Tracing: spans and counters that show what threads do and when. While a TraceBuffer records, they are
// written to preallocated rings. While an NVTX tool listens (core/telemetry/nvtx.cc), spans also become NVTX
// ranges. When tracing is off, a span costs one load and a branch; when it is recorded, two clock reads and
// some 15 ns.
//
//   constinit TraceLabel kGather(TraceCategory::kData, "gather");
//   { const TraceSpan span(kGather); ... }
//
// observe/record/trace.h writes a recording for Perfetto and Chromium; observe/export/kernel_table.h sums it
// up by kernel.
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
  kKernel,   // one kernel of its plan; the kernels in a loop's body count as part of the loop
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

/// The most names that are kept, for the life of the process; all others share the name "further names".
inline constexpr uint32_t kMaxTraceNames = 1 << 14;
/// Returns the number of a name, never 0. Equal names have equal numbers. Allocates, so call this while
/// planning, not in a step.
uint32_t trace_name(TraceCategory category, std::string_view name, const TraceDetail& detail = {});
/// The name of a number that `trace_name` returned. The reference stays valid.
const TraceName& trace_name_of(uint32_t number);

/// A name that is constant in the source. It gets its number at its first use.
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
}  // namespace internal

/// Whether spans are being recorded or sent to a tool now.
inline bool tracing() { return internal::g_trace_targets.load(std::memory_order_relaxed) != 0; }
/// Whether spans may be recorded later, so that names should be created in advance.
inline bool trace_prepared() {
  return tracing() || internal::g_trace_buffer_exists.load(std::memory_order_relaxed);
}

/// A span from here to the end of the scope, on this thread. A span that began before the recording started
/// isn't recorded.
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

/// Records the present value of a quantity that rises and falls, such as a queue's length.
void trace_counter(const TraceLabel& label, int64_t value);

/// Names the calling thread in traces, before its first span: "loader worker 3"; at most 31 characters are
/// kept.
void name_trace_thread(std::string_view name);

struct TraceEvent {
  enum class Kind : uint8_t { kSpan, kCounter };
  int64_t start_ns;  // on the project's clock
  int64_t duration_ns;
  int64_t value;  // the counter's value; for a step, its number
  uint32_t name;
  Kind kind;
};

/// The recording of one thread.
struct TracedThread {
  int64_t thread_id = 0;           // the system's
  std::string name;                // empty: none
  std::vector<TraceEvent> events;  // in the order in which they ended
  int64_t overwritten = 0;         // number of older events that were overwritten
};

/// The ring buffers, one per thread. Memory is reserved at construction and becomes resident as it is used;
/// recording allocates nothing. At most one TraceBuffer may exist at a time.
class TraceBuffer {
 public:
  static constexpr int kMaxThreads = 32;  // events of further threads are lost, and counted
  /// Throws kInvalidArgument unless `events_per_thread` is in [1, 2^24], and if another TraceBuffer exists.
  explicit TraceBuffer(size_t events_per_thread);
  ~TraceBuffer();
  TraceBuffer(const TraceBuffer&) = delete;
  TraceBuffer& operator=(const TraceBuffer&) = delete;

  /// Starts recording; earlier recordings are kept.
  void start();
  /// When it returns, no thread is writing any more.
  void stop();
  bool recording() const { return recording_; }
  /// The recording of each thread. Throws kInvalidArgument while recording.
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
/// Calls `enable_nvtx` if the environment requests it; cheap after the first call.
void enable_nvtx_for_tool();
bool built_with_nvtx();

}  // namespace isochron
