// File system calls that fail on demand. In a program that links failing_calls.cc, open (for writing),
// write, fsync and rename are counted while a FailingCalls exists, and one of them fails. The order of the
// successful calls shows what would survive a power failure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace isochron {

class FailingCalls {
 public:
  /// Call number `failing`, from 1, fails with `error`; 0: none does.
  explicit FailingCalls(int64_t failing, int error);
  ~FailingCalls();
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;
  /// Calls so far.
  static int64_t made();
  /// The successful calls that make something durable, in order: "sync PATH" of a file or folder, "rename
  /// FROM TO".
  static std::vector<std::string> synced();
};

}  // namespace isochron
