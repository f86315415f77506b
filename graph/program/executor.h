// Interface for running a program in other ways than step by step on the calling thread.
#pragma once

#include <cstdint>
#include <span>

#include "isochron/core/base/error.h"
#include "isochron/core/cuda/handles.h"
#include "isochron/graph/program/program.h"

namespace isochron::graph {

class Executor {
 public:
  virtual ~Executor() = default;
  /// Inputs and the arena must be bound.
  virtual void run(Program& program) = 0;
  /// Like `run`, but adds the nanoseconds of each step to `times_ns`. Throws kUnsupported if steps can't be
  /// timed separately.
  virtual void profile(Program& program, std::span<int64_t> times_ns) = 0;
  /// Makes the recording that the first run would otherwise make.
  virtual void record(Program&) {}
  /// Discards recordings, because addresses in the arena have changed.
  virtual void forget() {}
  /// Enqueues every step's work in `stream` of a device, which may be under capture. Throws kUnsupported if
  /// the program isn't for a device.
  virtual void enqueue(Program&, cuda::Stream) {
    fail(ErrorCode::kUnsupported, "plan",
         "it is planned for the CPU; only plans for a device can run in a stream");
  }
};

}  // namespace isochron::graph
