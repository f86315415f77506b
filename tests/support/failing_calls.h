// Calls to the file system that fail on demand: in a program that failing_calls.cc is linked into, open (to
// write), write, fsync, close and rename are counted while a FailingCalls lives, and one of them fails.
#pragma once

#include <cstdint>

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
};

}  // namespace isochron
