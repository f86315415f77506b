// StackTrace: where the program stands, kept in fixed memory so that it can be taken inside malloc, and told
// later with the names of functions.
#pragma once

#include <array>
#include <span>
#include <string>

namespace isochron {

class StackTrace {
 public:
  static constexpr int kMaxFrames = 64;

  /// Loads what `capture` needs. Call it once, on any thread, before the first: that one would allocate.
  static void prepare();
  /// Takes the stack of this thread, some microseconds long. Allocates nothing after `prepare`.
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
