#include <array>

#include "causes/models.h"
#include "causes/planted.h"
#include "isochron/graph/program/plan.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::causes {
namespace {

using observe::Phase;
using observe::PhaseScope;
using observe::Recorder;
using observe::RunReport;

constexpr std::string_view kOpsAdded = "ops added in the loop";
constexpr std::string_view kOneByOne = "ops run one by one";
constexpr std::string_view kRetraced = "retraced for new signatures";
constexpr std::string_view kPartialBatch = "the partial last batch";

/// Adds two nodes in each iteration, and plans and runs the whole graph again.
RunReport nodes_added() {
  graph::Graph graph;
  const Tensor x = normal({4, 4}, 1);
  graph::Value* value = graph.add_input(x.spec());
  graph::Value* factor = graph.add_bound(scalar(0.999));
  return run_loop(
      [&](Recorder& recorder, int64_t) {
        const PhaseScope compute(recorder, Phase::kCompute);
        const std::array<graph::Value*, 2> operands{value, factor};
        value = graph.add_node(ops::row("mul"), operands, {})->outputs[0];
        const std::array<graph::Value*, 1> summed{value};
        graph.outputs() = {
            graph.add_node(ops::row("sum"), summed, {{"axes", Dims{0, 1}}, {"keep_dims", false}})
                ->outputs[0]};
        graph::Plan plan(graph);
        const Ref<Storage> arena = allocate_buffer(plan.arena_bytes(), "arena");
        plan.bind_arena(arena->data());
        plan.bind_input(0, x.raw());
        plan.run();
      },
      {.warmup = 5, .most = 900});
}

/// A carried value under a tape that is never reset: each differentiation goes through the whole history.
RunReport carried_value_differentiated() {
  const Tensor first = normal({8, 8}, 3);
  Tensor carried = first;
  GradientTape tape(/*persistent=*/true);
  return run_loop(
      [&](Recorder&, int64_t) {
        carried = tanh(carried * 1.01);
        const Tensor total = sum(carried);
        tape.set_paused(true);
        static_cast<void>(tape.gradient(total, first));
        tape.set_paused(false);
      },
      {.warmup = 5, .most = 700});
}

/// Each iteration unrolls the body once more and captures it again.
RunReport unrolled_further() {
  const Tensor x = normal({16, 16}, 4);
  return run_loop(
      [&](Recorder& recorder, int64_t i) {
        const PhaseScope compute(recorder, Phase::kCompute);
        auto step = capture(
            [i](const Tensor& input) {
              Tensor y = input;
              for (int64_t k = 0; k <= i; ++k) y = tanh(y);
              return sum(y);
            },
            {.name = "unrolled"});
        static_cast<void>(step(x).item<float>());
      },
      {.warmup = 5, .most = 250});
}

/// Compared with the same step captured.
RunReport one_by_one() {
  Regression eager(256, 8, 16), captured(256, 8, 16);
  auto step =
      capture([&](const Tensor& x, const Tensor& y) { return captured.train(x, y); }, {.name = "train_step"});
  RunReport slow = run_loop([&](Recorder& recorder, int64_t) {
    const PhaseScope compute(recorder, Phase::kCompute);
    eager.train_eager(eager.x, eager.y);
  });
  const RunReport quick = run_loop([&](Recorder& recorder, int64_t) {
    const PhaseScope compute(recorder, Phase::kCompute);
    step(captured.x, captured.y);
  });
  compare_with_cured(slow, quick);
  return slow;
}

/// Another number of rows in each step; old plans are evicted.
RunReport rows_change() {
  Regression problem;
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train(x, y); },
                      {.name = "train_step", .max_plans = 4});
  return run_loop([&](Recorder& recorder, int64_t i) {
    const PhaseScope compute(recorder, Phase::kCompute);
    const int64_t rows = 1 + i * 7 % 64;
    step(narrow(problem.x, 0, 0, rows), narrow(problem.y, 0, 0, rows));
  });
}

/// Sequences as long as they happen to be.
RunReport lengths_change() {
  auto step = capture([](const Tensor& x) { return sum(tanh(x) * x); }, {.name = "sequence"});
  std::vector<Tensor> inputs;
  for (int64_t length = 1; length <= 40; ++length) inputs.push_back(normal({8, length}, 5));
  return run_loop([&](Recorder&, int64_t i) {
    static_cast<void>(step(inputs[static_cast<size_t>(i * 13) % inputs.size()]).item<float>());
  });
}

/// The function is captured in the loop.
RunReport captured_in_the_loop() {
  Regression problem;
  const Tensor x = narrow(problem.x, 0, 0, 32), y = narrow(problem.y, 0, 0, 32);
  return run_loop([&](Recorder& recorder, int64_t) {
    const PhaseScope compute(recorder, Phase::kCompute);
    auto step = capture([&](const Tensor& a, const Tensor& b) { return problem.loss(a, b); });
    step(x, y);
  });
}

/// Epochs of `steps` batches, the last of `partial` rows. If there is room for one plan only, the two plans
/// evict each other.
RunReport partial_batch(int64_t steps, int64_t partial, size_t max_plans, const Extent& extent) {
  constexpr int64_t kRows = 32;
  Regression problem(steps * kRows);
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train(x, y); },
                      {.name = "train_step", .max_plans = max_plans});
  auto batches = problem.rows().take((steps - 1) * kRows + partial).batch(kRows);
  auto at = batches.begin();
  return run_loop(
      [&](Recorder& recorder, int64_t) {
        if (at == std::default_sentinel) at = batches.begin();
        {
          const PhaseScope compute(recorder, Phase::kCompute);
          const auto& [x, y] = *at;
          step(x, y);
        }
        const PhaseScope fetch(recorder, Phase::kDataWait);
        ++at;
      },
      extent);
}

RunReport partial_batch_drives_out() { return partial_batch(25, 8, 1, {}); }
RunReport partial_batch_of_long_epochs() { return partial_batch(120, 31, 1, {.least = 1000}); }
/// Traced in the middle of the run, once.
RunReport partial_batch_unprepared() { return partial_batch(900, 5, 16, {.warmup = 20, .least = 3000}); }

}  // namespace

std::vector<Planted> planted_graph() {
  return {
      {kOpsAdded, "nodes added to a graph that is planned and run again", nodes_added},
      {kOpsAdded, "a carried value differentiated through all that happened", carried_value_differentiated},
      {kOpsAdded, "a body unrolled once more each time", unrolled_further},
      {kOneByOne, "a step run op by op", one_by_one},
      {kRetraced, "another number of rows in each step", rows_change},
      {kRetraced, "sequences of many lengths", lengths_change},
      {kRetraced, "the function captured in the loop", captured_in_the_loop},
      {kPartialBatch, "room for one plan, 25 steps an epoch", partial_batch_drives_out},
      {kPartialBatch, "room for one plan, 120 steps an epoch", partial_batch_of_long_epochs},
      {kPartialBatch, "not planned beforehand", partial_batch_unprepared}};
}

}  // namespace isochron::causes
