// Records what threads do (core/telemetry/trace.h) and writes it for Perfetto (ui.perfetto.dev) and Chromium
// (chrome://tracing), as one JSON object in the Trace Event Format. docs/export.md has the schema.
//
//   TraceRecorder recorder;
//   recorder.start();
//   for (...) { step(batch); recorder.sample_memory(); }
//   recorder.stop();
//   recorder.write("trace.json");
//
// Cost: a span takes two reads of the clock and some 15 ns on its thread. Recording allocates nothing, except
// the text of events (core/telemetry/event.h), of which the newest 1,024 are kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <mutex>
#include <vector>

#include "isochron/core/telemetry/event.h"
#include "isochron/core/telemetry/trace.h"

namespace isochron::observe {

struct TraceOptions {
  /// How many of the newest spans and counters are kept per thread, 32 bytes each.
  size_t events_per_thread = size_t{1} << 16;
};

class TraceRecorder {
 public:
  static constexpr size_t kMaxMarks = 1024;  // events of core/telemetry/event.h; the oldest are dropped

  /// Throws kInvalidArgument for options out of range, or while another recorder lives.
  explicit TraceRecorder(const TraceOptions& options = {});
  ~TraceRecorder();
  TraceRecorder(const TraceRecorder&) = delete;
  TraceRecorder& operator=(const TraceRecorder&) = delete;

  void start();
  void stop();
  bool recording() const { return buffer_.recording(); }
  /// Records bytes in use, reserved and resident as counters. Takes a microsecond; does nothing unless
  /// recording.
  void sample_memory();

  /// What each thread did. Like `write`, throws kInvalidArgument while recording.
  std::vector<TracedThread> threads() const { return buffer_.threads(); }
  /// Writes the file. Throws kIo.
  void write(const std::filesystem::path& path) const;

 private:
  struct Mark {
    Event event;
    int64_t thread_id;
  };
  void note(const Event& event);

  TraceBuffer buffer_;
  int sink_;
  int statm_;  // descriptor of /proc/self/statm; -1: missing
  int64_t began_ns_ = 0;
  mutable std::mutex mutex_;
  std::vector<Mark> marks_;
  int64_t dropped_marks_ = 0;
};

}  // namespace isochron::observe
