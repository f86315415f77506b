// The one exception type of the project, its codes, and the helpers that throw it.
// Everything above `core` reports a user's mistake through these; a programmer's mistake is an assert.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace isochron {

/// What kind of mistake an `Error` reports. `exit_code` maps each to the process status of the command.
enum class ErrorCode {
  kInvalidArgument,   // a value that no call accepts (zero stride, negative size, unknown name)
  kShapeMismatch,     // shapes that don't fit together
  kDtypeMismatch,     // dtypes that don't fit together
  kOutOfRange,        // an axis, index or label outside its range
  kOverflow,          // a size that does not fit 64 bits
  kOutOfMemory,       // an allocation failed
  kIo,                // the file system reported an error
  kBadFormat,         // a file whose content is not what its format says
  kNotANumber,        // NaN or Inf where a number is required
  kCaptureViolation,  // something a capture can't contain (reading a value, freeing a bound variable)
  kSealed,            // something new (a shape, a plan, an allocation) after sealing
  kStale,             // a view is read after its content was replaced
  kUnsupported,       // a combination that is not implemented; the text says what is
  kDevice,            // a device or its driver reported an error
  kDeviceLost,        // a kernel failed, or the device is gone: only a new process can continue
  kCommunication,     // another rank of a distributed run failed or disagrees, or the transport between them
};

/// Short stable name of a code, e.g. "shape_mismatch"; used in JSON and tests.
std::string_view error_code_name(ErrorCode code);

/// Process exit status for a code: 1 for NaN, a capture violation, something made after sealing, or a stale
/// view; 2 for an invalid argument or something unsupported; 4 for out of memory; 5 for an error or the loss
/// of the device; 6 for a failure of another rank or of the transport; 3, bad input, for all others.
int exit_code(ErrorCode code);

/// A user's mistake. `what()` reads "[where] what was expected, what came; fix".
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, std::string_view where, const std::string& text);
  ErrorCode code() const { return code_; }
  /// The op, function or file the error belongs to.
  const std::string& where() const { return where_; }
  /// `what()` without the place.
  std::string_view text() const { return std::string_view(what()).substr(where_.size() + 3); }  // "[where] "

 private:
  ErrorCode code_;
  std::string where_;
};

/// While it exists, the errors that `fail` and `require` throw on this thread begin with `function`:
/// "[variance/mean] ...". For functions that are composed of other functions, so that an error names what the
/// user called. In nested scopes, the outermost one counts. If the error's own place is `function`, it is
/// written only once: "[pad] ...".
class ErrorScope {
 public:
  explicit ErrorScope(const char* function);
  ~ErrorScope();
  ErrorScope(const ErrorScope&) = delete;
  ErrorScope& operator=(const ErrorScope&) = delete;

 private:
  const char* outer_;
};

namespace internal {
/// Kept out of the templates below, so that each of their many calls compiles to little code.
[[noreturn]] void throw_error(ErrorCode code, std::string_view where, fmt::string_view format,
                              fmt::format_args args);
}  // namespace internal

/// Throws `Error(code, where, fmt::format(format, args...))`.
template <typename... Args>
[[noreturn]] void fail(ErrorCode code, std::string_view where, fmt::format_string<Args...> format,
                       Args&&... args) {
  internal::throw_error(code, where, format, fmt::make_format_args(args...));
}

/// Throws like `fail` unless `condition` holds. The arguments are always evaluated, so keep them cheap.
template <typename... Args>
void require(bool condition, ErrorCode code, std::string_view where, fmt::format_string<Args...> format,
             Args&&... args) {
  if (!condition) [[unlikely]]
    internal::throw_error(code, where, format, fmt::make_format_args(args...));
}

}  // namespace isochron
