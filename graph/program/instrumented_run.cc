#include "isochron/graph/program/instrumented_run.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/trace.h"

namespace isochron::graph {
namespace {

constexpr size_t kMaxShapesTraced = 100;  // characters; an update of all parameters has many shapes
constexpr int kPoisonByte = 0xFF;         // a NaN in every floating dtype

thread_local bool t_inside_kernel = false;

/// Lives while this thread runs the kernels of a traced program.
struct InsideKernel {
  InsideKernel() { t_inside_kernel = true; }
  ~InsideKernel() { t_inside_kernel = false; }
};

}  // namespace

std::vector<uint32_t> trace_names(const Program& program) {
  std::vector<uint32_t> names;
  names.reserve(program.steps.size());
  for (const Instruction& i : program.instructions) {
    const std::string shapes =
        i.shapes.size() <= kMaxShapesTraced ? i.shapes : i.shapes.substr(0, kMaxShapesTraced) + "...";
    names.push_back(trace_name(TraceCategory::kKernel, i.name, {i.op, shapes, i.flops, i.bytes}));
  }
  return names;
}

void run_traced(Program& program, std::span<const uint32_t> names) {
  if (t_inside_kernel) return program.run();
  const InsideKernel inside;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const TraceSpan span(names[i]);
    program.run_step(i);
  }
}

void run_timed(Program& program, std::span<int64_t> times_ns) {
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const int64_t start = now_ns();
    program.run_step(i);
    times_ns[i] += now_ns() - start;
  }
}

void poison(const Program& program, std::byte* arena) {
  std::memset(arena, kPoisonByte, program.report.arena_bytes);
}

void run_poisoned(Program& program, std::byte* arena) {
  poison(program, arena);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    program.run_step(i);
    // All copies count as one instruction of the plan.
    if (i >= program.copies_begin && i + 1 < program.steps.size()) continue;
    const auto now = static_cast<int64_t>(std::min(i, program.copies_begin));
    for (const PlannedBuffer& buffer : program.report.buffers) {
      if (now < buffer.lower || now >= buffer.upper) continue;
      const std::byte* zone = arena + buffer.offset + buffer.size_bytes;
      for (size_t b = 0; b < kRedZoneBytes; ++b) {
        require(zone[b] == std::byte{kPoisonByte}, ErrorCode::kOutOfRange, program.instructions[i].name,
                "wrote {} bytes past the end of {}", b + 1, buffer.owner);
      }
      if (buffer.upper == now + 1) std::memset(arena + buffer.offset, kPoisonByte, buffer.size_bytes);
    }
  }
}

}  // namespace isochron::graph
