// Scenario `growing-graph`: x = x * 2 with a host read-out of its sum. It is slow if ops are added in the
// loop. It is cured if the graph is built once, is compiled as a whole, or contains the loop. The values are
// f64, because f32 values overflow at iteration 128.
#include <array>
#include <cmath>

#include "isochron/apps/compare/scenarios/scenario.h"
#include "isochron/apps/compare/tables/growing_graph.h"
#include "isochron/autograd/autograd.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"

namespace isochron::apps {
namespace {

using observe::Flatness;
using observe::IterationScope;
using observe::Phase;
using observe::PhaseScope;

constexpr int64_t kDocumentIterations = 1000;
constexpr int64_t kRecordedTogether = 10;
constexpr double kStart = 1e-300;  // doubled 1,000 times this is 10.7

Tensor start() { return full({2, 2}, kStart, DType::kF64); }

/// Checks that the sum is the result of `times` doublings; otherwise the loop didn't run as intended.
void check_sum(double sum, int64_t times) {
  const double expected = 4 * std::ldexp(kStart, static_cast<int>(times));
  require(std::abs(sum - expected) <= 1e-9 * expected, ErrorCode::kNotANumber, "growing-graph",
          "after {} doublings the sum is {}, expected {}", times, sum, expected);
}

/// Each iteration adds two nodes, and then plans and runs the whole graph again. This is what happens if a
/// session loop calls ops.
void ops_added(LoopContext& context) {
  graph::Graph graph;
  const Tensor x = start();
  graph::Value* value = graph.add_input(x.spec());
  graph::Value* two = graph.add_bound(scalar(2, DType::kF64));
  const graph::OpDef& multiply = ops::row("mul");
  const graph::OpDef& sum_op = ops::row("sum");
  int64_t times = 0;
  do {
    IterationScope iteration(context.recorder);
    PhaseScope scope(context.recorder, Phase::kCompute);
    const std::array<graph::Value*, 2> operands{value, two};
    value = graph.add_node(multiply, operands, {})->outputs[0];
    const std::array<graph::Value*, 1> summed{value};
    graph.outputs() = {
        graph.add_node(sum_op, summed, {{"axes", Dims{0, 1}}, {"keep_dims", false}})->outputs[0]};
    graph::Plan plan(graph);
    const Ref<Storage> arena = allocate_buffer(plan.arena_bytes(), "arena");
    plan.bind_arena(arena->data());
    plan.bind_input(0, x.raw());
    plan.run();
    check_sum(*reinterpret_cast<const double*>(plan.output(0)), ++times);
  } while (context.next());
}

/// A persistent tape is never reset, so each iteration differentiates everything recorded so far.
void history_kept(LoopContext& context) {
  const Tensor x0 = start();
  Tensor x = x0;
  GradientTape tape(/*persistent=*/true);
  int64_t times = 0;
  do {
    IterationScope iteration(context.recorder);
    PhaseScope scope(context.recorder, Phase::kCompute);
    x = x * 2.0;
    const Tensor total = sum(x);
    check_sum(total.item<double>(), ++times);
    tape.set_paused(true);  // the history has only the loop's ops, not their derivatives
    const Tensor gradient = tape.gradient(total, x0);
    tape.set_paused(false);
    require(gradient.defined(), ErrorCode::kNotANumber, "growing-graph", "the gradient is undefined");
  } while (context.next());
}

/// The number of rows changes in each step, so each step is traced, planned and soon evicted again.
void shapes_change(LoopContext& context) {
  auto step = capture([](const Tensor& x) { return sum(x * 2.0); }, {.name = "shapes"});
  std::vector<Tensor> inputs;
  for (int64_t rows = 1; rows <= 64; ++rows) inputs.push_back(full({rows, 2}, kStart, DType::kF64));
  size_t i = 0;
  do {
    IterationScope iteration(context.recorder);
    PhaseScope scope(context.recorder, Phase::kCompute);
    const Tensor& x = inputs[i++ % inputs.size()];
    const double total = step(x).item<double>();
    require(total > 0, ErrorCode::kNotANumber, "growing-graph", "the sum is {}", total);
  } while (context.next());
}

/// The graph is built once, and each iteration runs it on the last result. Ten iterations are recorded as
/// one, because each takes only some ticks of the clock.
void built_once(LoopContext& context) {
  auto step = capture([](const Tensor& x) {
    const Tensor doubled = x * 2.0;
    return std::pair<Tensor, Tensor>(doubled, sum(doubled));
  });
  Tensor x = start();
  const Tensor first = start();
  int64_t times = 0;
  do {
    if (times == kDocumentIterations) {
      times = 0;
      std::copy_n(first.data<double>(), first.elems(), x.data<double>());
    }
    IterationScope iteration(context.recorder);
    PhaseScope scope(context.recorder, Phase::kCompute);
    for (int64_t i = 0; i < kRecordedTogether; ++i) {
      const auto [doubled, total] = step(x);
      std::copy_n(doubled.data<double>(), doubled.elems(), x.data<double>());
      check_sum(total.item<double>(), ++times);
    }
  } while (context.next());
}

/// All 1,000 iterations are traced into one graph, whose sums are read after each run.
void compiled_whole(LoopContext& context) {
  auto step = capture([](const Tensor& x) {
    Tensor y = x;
    for (int64_t i = 0; i < kDocumentIterations; ++i) y = y * 2.0;
    return sum(y);
  });
  const Tensor x = start();
  do {
    IterationScope iteration(context.recorder);
    PhaseScope scope(context.recorder, Phase::kCompute);
    check_sum(step(x).item<double>(), kDocumentIterations);
  } while (context.next());
}

/// The loop is an op of the graph; the number of iterations is data.
void in_graph_while(LoopContext& context) {
  auto step = capture([](const Tensor& x, const Tensor& n) {
    const std::vector<Tensor> final = while_loop([&](std::span<const Tensor> s) { return s[0] < n; },
                                                 [](std::span<const Tensor> s) {
                                                   return std::vector<Tensor>{s[0] + 1.0, s[1] * 2.0};
                                                 },
                                                 {scalar(0, DType::kI64), x});
    return sum(final[1]);
  });
  const Tensor x = start();
  const Tensor n = full({}, static_cast<double>(kDocumentIterations), DType::kI64);
  do {
    IterationScope iteration(context.recorder);
    PhaseScope scope(context.recorder, Phase::kCompute);
    check_sum(step(x, n).item<double>(), kDocumentIterations);
  } while (context.next());
}

}  // namespace

Scenario growing_graph_scenario() {
  Scenario scenario;
  scenario.name = "growing-graph";
  scenario.complaint = "each iteration takes longer than the one before";
  scenario.loops = {
      {.name = "ops added in the loop",
       .what = "each iteration adds x = x * 2 and its sum as new nodes, then runs the whole graph",
       .iterations_per_epoch = kDocumentIterations / 10,
       .max_iterations = kDocumentIterations,
       .expected = {.time = {Flatness::kGrowing},
                    .memory = {Flatness::kGrowing},
                    .grows = "graph_nodes",
                    .cause = "ops added in the loop"},
       .run = ops_added},
      {.name = "history kept by a tape",
       .what = "the same, op by op; each iteration computes the gradient back to the first iteration",
       .iterations_per_epoch = kDocumentIterations / 10,
       .max_iterations = kDocumentIterations,
       .expected = {.time = {Flatness::kGrowing},
                    .memory = {Flatness::kGrowing},
                    .grows = "tape_entries",
                    .cause = "ops added in the loop"},
       .run = history_kept},
      {.name = "shapes that change",
       .what = "a different number of rows in each step, so each step is traced and planned again",
       .iterations_per_epoch = kDocumentIterations / 10,
       .expected = {.slow = true, .cause = "retraced for new signatures"},
       .run = shapes_change},
      {.name = "graph built once",
       .what = "one captured step, run on its own output; ten iterations are recorded as one",
       .cured = true,
       .iterations_per_epoch = kDocumentIterations / 10 / kRecordedTogether,
       .work_per_iteration = kRecordedTogether,
       .expected = {.no_allocations = true},
       .run = built_once},
      {.name = "compiled as a whole",
       .what = "1,000 iterations in one graph, recorded as one",
       .cured = true,
       .iterations_per_epoch = 1,
       .work_per_iteration = kDocumentIterations,
       .expected = {.no_allocations = true},
       .run = compiled_whole},
      {.name = "in-graph while",
       .what = "the loop as an op of the graph, 1,000 iterations recorded as one",
       .cured = true,
       .iterations_per_epoch = 1,
       .work_per_iteration = kDocumentIterations,
       .expected = {.no_allocations = true},
       .run = in_graph_while},
  };
  scenario.tables = {passes_table, control_flow_table, gradient_table};
  scenario.summary =
      "Where ops are added in the loop, every iteration plans and runs a longer graph, so its time rises "
      "with the number of iterations. A tape that is never released does the same to the backward pass. A "
      "new shape in every step costs a trace: slow, but not growing, because old plans are dropped. The "
      "cured loops do the same arithmetic with a graph that is built once.";
  return scenario;
}

}  // namespace isochron::apps
