// Runs a program in another way than step by step on the calling thread.
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
  /// Inputs and arena are bound.
  virtual void run(Program& program) = 0;
  /// As `run`, with the nanoseconds of each step added to `times_ns`. Throws kUnsupported where steps can't
  /// be told apart.
  virtual void profile(Program& program, std::span<int64_t> times_ns) = 0;
  /// Does what the first run would do beforehand.
  virtual void record(Program&) {}
  /// Discards recordings, because addresses in the arena have changed.
  virtual void forget() {}
  /// Puts every step's work in `stream` of a device, which may be under capture. Throws kUnsupported
  /// elsewhere.
  virtual void enqueue(Program&, cuda::Stream) {
    fail(ErrorCode::kUnsupported, "plan", "it isn't for a device, which alone has streams");
  }
};

}  // namespace isochron::graph
