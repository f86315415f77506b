// Calls to the file system that fail on demand: in a program that failing_calls.cc is linked into, open (to
// write), write, fsync and rename are counted while a FailingCalls lives, and one of them fails. What lasts
// when the power fails is told by the order of the calls that succeeded.
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
  /// Those that succeeded and make something last, in order: "sync PATH" of a file or folder, "rename FROM
  /// TO".
  static std::vector<std::string> synced();
};

}  // namespace isochron
