// Measures the cost of tracing: a span and a counter, and a captured step of small kernels, each with
// recording off and on.
#include <benchmark/benchmark.h>

#include "isochron/core/telemetry/trace.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/shape/creation.h"

namespace {

using namespace isochron;

constinit TraceLabel kSpan(TraceCategory::kData, "span");
constinit TraceLabel kLevel(TraceCategory::kMemory, "level");

/// Measures `work`; the trace is recorded if the benchmark's argument is 1.
void measure(benchmark::State& state, auto work) {
  TraceBuffer buffer(size_t{1} << 16);
  if (state.range(0) == 1) buffer.start();
  for (auto _ : state) work();
  buffer.stop();
}

void span(benchmark::State& state) {
  measure(state, [] {
    const TraceSpan one(kSpan);
    benchmark::ClobberMemory();
  });
}

void counter(benchmark::State& state) {
  measure(state, [] { trace_counter(kLevel, 1); });
}

/// A step of 16 small products, with one kernel each.
void step(benchmark::State& state) {
  auto captured = capture([](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 16; ++i) y = matmul(y, x);
    return y;
  });
  const Tensor x = full({4, 4}, 0.25);
  captured(x);
  measure(state, [&] { benchmark::DoNotOptimize(captured(x)); });
}

BENCHMARK(span)->ArgName("recorded")->Arg(0)->Arg(1);
BENCHMARK(counter)->ArgName("recorded")->Arg(0)->Arg(1);
BENCHMARK(step)->ArgName("recorded")->Arg(0)->Arg(1);

}  // namespace
