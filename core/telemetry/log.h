// The log: events (core/telemetry/event.h) as lines on standard error, at the level that the user chooses.
// All reporting goes through events; the kind of an event determines its level. A program that makes no Log
// uses the level in ISOCHRON_LOG, by default warnings.
#pragma once

#include <cstdio>
#include <string_view>

#include "isochron/core/telemetry/event.h"

namespace isochron {

/// Each level includes those before it.
enum class LogLevel {
  kError,    // no events: errors are exceptions
  kWarning,  // what a user should know of: notices, failed retries
  kInfo,     // what was done: checkpoints
  kDebug,    // every trace, plan and growth of a pool
};

/// The level with the name "error", "warning", "info" or "debug". Throws kInvalidArgument naming `where`.
LogLevel log_level(std::string_view name, std::string_view where);
/// The level named by the environment variable ISOCHRON_LOG, or kWarning if it isn't set. Throws like
/// `log_level`.
LogLevel log_level_of_environment();
LogLevel log_level_of(EventKind kind);

namespace internal {
/// Logs to standard error if no Log exists.
void log_by_default(const Event& event);
}  // namespace internal

/// While a Log exists, events up to `level` are written to `file`, one line each: "isochron: warning: TEXT".
class Log {
 public:
  explicit Log(LogLevel level, std::FILE* file = stderr);
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  ~Log();

 private:
  int sink_;
};

}  // namespace isochron
