// Runs a program's steps on the calling thread, with instrumentation around each step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "isochron/graph/program/program.h"

namespace isochron::graph {

/// Size of the red zone behind every buffer of a plan with PlanOptions::poison.
inline constexpr size_t kRedZoneBytes = 64;

/// Names by which steps are traced (core/telemetry/trace.h).
std::vector<uint32_t> trace_names(const Program& program);
/// Records a trace span around each step. A program that runs within a kernel, such as the body of a loop,
/// gets no spans of its own: its time counts as that kernel's.
void run_traced(Program& program, std::span<const uint32_t> names);

/// Adds the time of each step to `times_ns`.
void run_timed(Program& program, std::span<int64_t> times_ns);

/// Fills the arena with NaN.
void poison(const Program& program, std::byte* arena);
/// Poisons buffers once they are dead, and checks the red zones behind live buffers after each step. Throws
/// kOutOfRange naming the step that wrote to a red zone.
void run_poisoned(Program& program, std::byte* arena);

}  // namespace isochron::graph
