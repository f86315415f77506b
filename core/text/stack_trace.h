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

  /// One line a frame, innermost first: "#0 function(int) (program+0x1234)", without what took the trace and
  /// what allocates for others (malloc, operator new). Names come from symbol tables, which hold static
  /// functions too unless they were stripped; functions that were inlined have no frame. Built with -g, a
  /// frame ends with file and line: "(program+0x1234, /source/file.cc:12)".
  std::string text() const;

 private:
  std::array<void*, kMaxFrames> frames_{};
  int count_ = 0;
};

}  // namespace isochron
