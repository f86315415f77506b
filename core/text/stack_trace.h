// StackTrace: a stack trace in fixed memory, so that it can be captured inside malloc and printed later with
// function names.
#pragma once

#include <array>
#include <span>
#include <string>

namespace isochron {

class StackTrace {
 public:
  static constexpr int kMaxFrames = 64;

  /// Loads what `capture` needs. Call it once, on any thread, before the first `capture`, which would
  /// otherwise allocate.
  static void prepare();
  /// Captures the stack of this thread, in some microseconds. Allocates nothing after `prepare`.
  void capture() noexcept;
  bool empty() const { return count_ == 0; }

  /// One line per frame, innermost first: "#0 function(int) (program+0x1234)". The innermost frames, those
  /// that took the trace or that allocate or open something for their callers (malloc, operator new, open),
  /// are left out. Names come from symbol tables, which include static functions unless stripped; inlined
  /// functions have no frame. In programs built with -g, a frame ends with file and line: "(program+0x1234,
  /// /source/file.cc:12)".
  std::string text() const;

 private:
  std::array<void*, kMaxFrames> frames_{};
  int count_ = 0;
};

}  // namespace isochron
