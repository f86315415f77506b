#include "isochron/core/telemetry/log.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iterator>

#include "isochron/core/base/error.h"

namespace isochron {
namespace {

constexpr std::string_view kNames[] = {"error", "warning", "info", "debug"};

std::atomic<int> g_logs = 0;

void write_line(const Event& event, LogLevel level, std::FILE* file) {
  const LogLevel own = log_level_of(event.kind);
  if (own > level) return;
  // A notice is self-explanatory; for other events, the name of what they happened to is shown too.
  const std::string line = fmt::format("isochron: {}: {}{}{}\n", kNames[static_cast<int>(own)],
                                       own == LogLevel::kWarning ? "" : event.name,
                                       own == LogLevel::kWarning ? "" : ": ", event.text);
  // A log that can't be written must not make the program fail.
  std::fwrite(line.data(), 1, line.size(), file);
  std::fflush(file);
}

}  // namespace

LogLevel log_level(std::string_view name, std::string_view where) {
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  require(found != std::end(kNames), ErrorCode::kInvalidArgument, where,
          "log level '{}' does not exist; expected error, warning, info or debug", name);
  return static_cast<LogLevel>(found - std::begin(kNames));
}

LogLevel log_level_of_environment() {
  const char* name = std::getenv("ISOCHRON_LOG");
  return name == nullptr || *name == '\0' ? LogLevel::kWarning : log_level(name, "ISOCHRON_LOG");
}

LogLevel log_level_of(EventKind kind) {
  switch (kind) {
    case EventKind::kNotice:
    case EventKind::kDataError:
    case EventKind::kRetry:
      return LogLevel::kWarning;
    case EventKind::kCheckpoint:
      return LogLevel::kInfo;
    case EventKind::kTrace:
    case EventKind::kPlan:
    case EventKind::kPoolGrowth:
    case EventKind::kPoolTrim:
      return LogLevel::kDebug;
  }
  return LogLevel::kWarning;
}

void internal::log_by_default(const Event& event) {
  if (g_logs.load() > 0) return;
  static const LogLevel level = [] {
    try {
      return log_level_of_environment();
    } catch (const Error&) {  // an event must not fail because of its log
      return LogLevel::kWarning;
    }
  }();
  write_line(event, level, stderr);
}

Log::Log(LogLevel level, std::FILE* file)
    : sink_(add_event_sink([level, file](const Event& event) { write_line(event, level, file); })) {
  ++g_logs;
}

Log::~Log() {
  --g_logs;
  remove_event_sink(sink_);
}

}  // namespace isochron
