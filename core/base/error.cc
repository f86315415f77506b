#include "isochron/core/base/error.h"

namespace isochron {
namespace {
thread_local const char* t_function = nullptr;  // the function of the outermost ErrorScope
}  // namespace

ErrorScope::ErrorScope(const char* function) : outer_(t_function) {
  if (!outer_) t_function = function;
}
ErrorScope::~ErrorScope() { t_function = outer_; }

Error::Error(ErrorCode code, std::string_view where, const std::string& text)
    : std::runtime_error(fmt::format("[{}] {}", where, text)), code_(code), where_(where) {}

void internal::throw_error(ErrorCode code, std::string_view where, fmt::string_view format,
                           fmt::format_args args) {
  const std::string text = fmt::vformat(format, args);
  if (!t_function || where == t_function) throw Error(code, where, text);
  throw Error(code, fmt::format("{}/{}", t_function, where), text);
}

std::string_view error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kShapeMismatch:
      return "shape_mismatch";
    case ErrorCode::kDtypeMismatch:
      return "dtype_mismatch";
    case ErrorCode::kOutOfRange:
      return "out_of_range";
    case ErrorCode::kOverflow:
      return "overflow";
    case ErrorCode::kOutOfMemory:
      return "out_of_memory";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kBadFormat:
      return "bad_format";
    case ErrorCode::kNotANumber:
      return "not_a_number";
    case ErrorCode::kCaptureViolation:
      return "capture_violation";
    case ErrorCode::kSealed:
      return "sealed";
    case ErrorCode::kStale:
      return "stale";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kDevice:
      return "device";
    case ErrorCode::kDeviceLost:
      return "device_lost";
    case ErrorCode::kCommunication:
      return "communication";
  }
  return "unknown";
}

int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kOutOfMemory:
      return 4;
    case ErrorCode::kDevice:
    case ErrorCode::kDeviceLost:
      return 5;
    case ErrorCode::kCommunication:
      return 6;
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
      return 2;
    case ErrorCode::kNotANumber:
    case ErrorCode::kCaptureViolation:
    case ErrorCode::kSealed:
    case ErrorCode::kStale:
      return 1;
    default:
      return 3;
  }
}

}  // namespace isochron
