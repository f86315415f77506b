#include "isochron/observe/record/trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "isochron/core/base/clock.h"
#include "isochron/core/files/file.h"
#include "isochron/core/telemetry/counters.h"

namespace isochron::observe {
namespace {

constinit TraceLabel kInUse(TraceCategory::kMemory, "bytes in use");
constinit TraceLabel kReserved(TraceCategory::kMemory, "bytes reserved");
constinit TraceLabel kResident(TraceCategory::kMemory, "resident bytes");

std::string json_text(std::string_view text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Microseconds with three decimals (whole ns), so that spans nested in each other stay nested in the file.
std::string microseconds(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

class Writer {
 public:
  Writer(const AppendFunction& append, int64_t began_ns)
      : append_(append), process_(::getpid()), began_ns_(began_ns) {}

  void begin(int64_t lost, int64_t dropped_marks) {
    append_(
        fmt::format("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"program\":\"isochron\","
                    "\"lost_events\":\"{}\",\"dropped_marks\":\"{}\"}},\"traceEvents\":[\n",
                    lost, dropped_marks));
    metadata("process_name", process_, "\"name\":\"isochron\"");
  }

  void thread(const TracedThread& traced, int order) {
    metadata("thread_name", traced.thread_id, fmt::format("\"name\":{}", json_text(name_of(traced))));
    metadata("thread_sort_index", traced.thread_id, fmt::format("\"sort_index\":{}", order));
    for (const TraceEvent& event : traced.events) {
      if (event.kind == TraceEvent::Kind::kSpan) {
        span(event, traced.thread_id);
      } else {
        counter(event, traced.thread_id);
      }
    }
  }

  void mark(const Event& event, int64_t thread_id) {
    const std::string_view kind = event_kind_name(event.kind);
    line(
        fmt::format("{{\"ph\":\"i\",\"s\":\"p\",\"name\":{},\"cat\":\"event\",\"pid\":{},\"tid\":{},"
                    "\"ts\":{},\"args\":{{\"of\":{},\"text\":{},\"took_us\":{}}}}}",
                    json_text(kind), process_, thread_id, time_of(event.time_ns), json_text(event.name),
                    json_text(event.text), microseconds(event.duration_ns)));
  }

  void end() { append_("\n]}\n"); }

 private:
  void line(const std::string& text) {
    append_(first_ ? text : ",\n" + text);
    first_ = false;
  }

  void metadata(std::string_view what, int64_t thread_id, const std::string& arguments) {
    line(fmt::format("{{\"ph\":\"M\",\"name\":\"{}\",\"pid\":{},\"tid\":{},\"args\":{{{}}}}}", what, process_,
                     thread_id, arguments));
  }

  /// Events from before the recording are placed at its beginning.
  std::string time_of(int64_t ns) const { return microseconds(std::max<int64_t>(ns - began_ns_, 0)); }

  void span(const TraceEvent& event, int64_t thread_id) {
    const TraceName& name = trace_name_of(event.name);
    line(fmt::format(
        "{{\"ph\":\"X\",\"name\":{},\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}{}}}",
        json_text(name.name), trace_category_name(name.category), process_, thread_id,
        time_of(event.start_ns), microseconds(event.duration_ns), arguments(name, event.value)));
  }

  static std::string arguments(const TraceName& name, int64_t value) {
    switch (name.category) {
      case TraceCategory::kKernel:
        return fmt::format(",\"args\":{{\"op\":{},\"shapes\":{},\"flops\":{},\"bytes\":{}}}",
                           json_text(name.detail.op), json_text(name.detail.shapes),
                           static_cast<int64_t>(name.detail.flops), static_cast<int64_t>(name.detail.bytes));
      case TraceCategory::kStep:
        return fmt::format(",\"args\":{{\"step\":{}}}", value);
      case TraceCategory::kTeam:
        return fmt::format(",\"args\":{{\"elements\":{}}}", value);
      default:
        return "";
    }
  }

  void counter(const TraceEvent& event, int64_t thread_id) {
    const TraceName& name = trace_name_of(event.name);
    line(
        fmt::format("{{\"ph\":\"C\",\"name\":{},\"cat\":\"{}\",\"pid\":{},\"tid\":{},\"ts\":{},"
                    "\"args\":{{\"value\":{}}}}}",
                    json_text(name.name), trace_category_name(name.category), process_, thread_id,
                    time_of(event.start_ns), event.value));
  }

  std::string name_of(const TracedThread& traced) const {
    if (!traced.name.empty()) return traced.name;
    if (traced.thread_id == process_) return "main";
    const bool team = std::all_of(traced.events.begin(), traced.events.end(), [](const TraceEvent& event) {
      return trace_name_of(event.name).category == TraceCategory::kTeam;
    });
    return team ? "compute thread" : "thread";
  }

  const AppendFunction& append_;
  int64_t process_;
  int64_t began_ns_;
  bool first_ = true;
};

}  // namespace

TraceRecorder::TraceRecorder(const TraceOptions& options)
    : buffer_(options.events_per_thread),
      sink_(add_event_sink([this](const Event& event) { note(event); })),
      statm_(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC)) {}

TraceRecorder::~TraceRecorder() {
  remove_event_sink(sink_);
  if (statm_ >= 0) ::close(statm_);
}

void TraceRecorder::start() {
  if (began_ns_ == 0) began_ns_ = now_ns();
  buffer_.start();
}

void TraceRecorder::stop() { buffer_.stop(); }

void TraceRecorder::note(const Event& event) {
  const std::lock_guard lock(mutex_);
  if (!buffer_.recording()) return;
  if (marks_.size() == kMaxMarks) {
    marks_.erase(marks_.begin());
    ++dropped_marks_;
  }
  marks_.push_back({event, ::syscall(SYS_gettid)});
}

void TraceRecorder::sample_memory() {
  if (!recording()) return;
  trace_counter(kInUse, counter_value(Counter::kBytesInUse));
  trace_counter(kReserved, counter_value(Counter::kBytesReserved));
  std::array<char, 128> text{};
  if (statm_ < 0 || ::pread(statm_, text.data(), text.size() - 1, 0) <= 0) return;
  char* end = nullptr;
  std::strtoll(text.data(), &end, 10);  // skips the size of the address space
  trace_counter(kResident, std::strtoll(end, nullptr, 10) * ::sysconf(_SC_PAGESIZE));
}

void TraceRecorder::write(const std::filesystem::path& path) const {
  const std::vector<TracedThread> traced = threads();
  std::vector<Mark> marks;
  int64_t dropped = 0;
  {
    const std::lock_guard lock(mutex_);
    marks = marks_;
    dropped = dropped_marks_;
  }
  int64_t lost = buffer_.lost();
  for (const TracedThread& thread : traced) lost += thread.overwritten;
  write_file_atomically(path, [&](const AppendFunction& append) {
    Writer writer(append, began_ns_);
    writer.begin(lost, dropped);
    for (size_t i = 0; i < traced.size(); ++i) writer.thread(traced[i], static_cast<int>(i));
    for (const Mark& mark : marks) writer.mark(mark.event, mark.thread_id);
    writer.end();
  });
}

}  // namespace isochron::observe
