// The tables of `growing-graph`: the benefit of each pass over the graph, loops and branches inside it
// compared with unrolled ones, and the cost of a gradient when the graph grows.
#include "isochron/apps/compare/tables/growing_graph.h"

#include <fmt/format.h>

#include <array>
#include <memory>

#include "isochron/apps/compare/tables/measure.h"
#include "isochron/autograd/autograd.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/control/scan.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"

namespace isochron::apps {
namespace {

using observe::bytes_text;
using observe::duration_text;

/// A train step as people write it: the loss and the gradient clipping are written out instead of calling the
/// library, so that every pass finds something to do.
struct WrittenOut {
  nn::Sequential model{nn::Dense(64, nn::Activation::kTanh), nn::Dense(1)};
  optim::Adam optimizer;
  Tensor x = full({32, 100}, 0.1);
  Tensor y = full({32, 1}, 0.5);

  Tensor step(const Tensor& features, const Tensor& target) {
    const Tensor scale = sqrt(full({}, 2.0) * full({}, 8.0)) / 4.0;  // constants: 1
    const Tensor error = (model(features * 1.0) - target) * scale;
    const Tensor same_again = (model(features * 1.0) - target) * scale;
    const Tensor unused = exp(error);  // never read
    static_cast<void>(unused);
    const Tensor loss = mean(error * same_again);
    optimizer.minimize(loss, model.parameters());
    return loss;
  }
};

struct Variant {
  std::string name;
  std::vector<std::string> disabled;
};

}  // namespace

observe::Table passes_table(double seconds) {
  std::vector<Variant> variants{{"all on", {}}};
  for (const graph::PassInfo& pass : graph::passes()) {
    // These passes do nothing unless a function asks for them or is planned for a device.
    if (pass.name == "recompute" || pass.name == "precision" || pass.on_devices_alone) continue;
    variants.push_back({fmt::format("without {}", pass.name), {std::string(pass.name)}});
  }
  variants.push_back({"all off", {"all"}});
  std::vector<std::unique_ptr<WrittenOut>> problems;
  std::vector<std::unique_ptr<CapturedFunction>> steps;
  std::vector<std::function<void()>> calls;
  for (const Variant& variant : variants) {
    problems.push_back(std::make_unique<WrittenOut>());
    WrittenOut* problem = problems.back().get();
    steps.push_back(std::make_unique<CapturedFunction>(
        [problem](std::span<const Tensor> in) { return std::vector{problem->step(in[0], in[1])}; },
        CaptureOptions{.name = variant.name, .passes = {.disabled = variant.disabled}}));
    calls.push_back([problem, step = steps.back().get()] {
      const std::array<const Tensor*, 2> arguments{&problem->x, &problem->y};
      step->call(arguments);
    });
  }
  const std::vector<double> times = times_in_turns(calls, seconds);
  observe::Table table{
      .title = "Graph passes switched off one by one, on a train step that uses each of them",
      .columns = {"passes", "nodes traced", "nodes planned", "kernels", "arena", "per step", "vs all on"},
      .rows = {},
      .says = ""};
  for (size_t i = 0; i < variants.size(); ++i) {
    const graph::PlanReport& plan = steps[i]->plan_report();
    table.rows.push_back({variants[i].name, fmt::format("{}", steps[i]->traces().front().traced_nodes),
                          fmt::format("{}", plan.nodes), fmt::format("{}", plan.instructions),
                          bytes_text(static_cast<double>(plan.arena_bytes)), duration_text(times[i]),
                          fmt::format("{:.2f}x", times[i] / times[0])});
  }
  table.says = fmt::format("With all passes on, {} of {} nodes are left, and a step takes {} instead of {}.",
                           steps.front()->plan_report().nodes, steps.back()->plan_report().nodes,
                           duration_text(times.front()), duration_text(times.back()));
  return table;
}

namespace {

constexpr int64_t kWidth = 16;

/// A recurrent network's step: h = tanh(x W + h U).
Tensor recurrent_step(const Tensor& h, const Tensor& x, const Tensor& w, const Tensor& u) {
  return tanh(matmul(x, w) + matmul(h, u));
}

/// The network's gradient with respect to `w` over a sequence (T, 8, kWidth), with the loop in the program or
/// in the graph.
Tensor recurrent_gradient(const Tensor& sequence, const Tensor& w, const Tensor& u, bool in_graph) {
  Tensor h = zeros({8, kWidth});
  if (in_graph) {
    const ScanBody body = [&](std::span<const Tensor> state, std::span<const Tensor> slices) {
      return ScanStep{{recurrent_step(state[0], slices[0], w, u)}};
    };
    h = scan(body, {h}, {sequence}).state[0];
  } else {
    for (int64_t t = 0; t < sequence.extent(0); ++t) {
      h = recurrent_step(h, reshape(narrow(sequence, 0, t, 1), {8, kWidth}), w, u);
    }
  }
  const std::vector<Tensor> sources{w};
  return gradients(sum(h), sources)[0];
}

/// A branch taken inside the graph, `n` times in a row.
Tensor branches(const Tensor& x, int64_t n) {
  Tensor y = x;
  for (int64_t i = 0; i < n; ++i) {
    y = cond(
        sum(y) > 0.0, [&] { return y * 0.5; }, [&] { return y + 1.0; });
  }
  return y;
}

}  // namespace

observe::Table control_flow_table(double seconds) {
  struct Case {
    std::string name;
    std::unique_ptr<CapturedFunction> step;
    Tensor input;
  };
  std::vector<Case> cases;
  const Tensor w = full({kWidth, kWidth}, 0.01), u = full({kWidth, kWidth}, 0.01);
  for (const int64_t steps : {int64_t{16}, int64_t{64}, int64_t{256}}) {
    for (const bool in_graph : {false, true}) {
      cases.push_back(
          {fmt::format("recurrent network, {} steps, {}", steps, in_graph ? "a scan" : "unrolled"),
           std::make_unique<CapturedFunction>(
               [&w, &u, in_graph](std::span<const Tensor> in) {
                 return std::vector{recurrent_gradient(in[0], w, u, in_graph)};
               },
               CaptureOptions{.name = "recurrent"}),
           full({steps, 8, kWidth}, 0.1)});
    }
  }
  cases.push_back({"64 branches in a row",
                   std::make_unique<CapturedFunction>(
                       [](std::span<const Tensor> in) { return std::vector{branches(in[0], 64)}; },
                       CaptureOptions{.name = "branches"}),
                   full({8, kWidth}, 0.1)});
  std::vector<std::function<void()>> calls;
  for (Case& one : cases) {
    calls.push_back([&one] {
      const std::array<const Tensor*, 1> arguments{&one.input};
      one.step->call(arguments);
    });
  }
  const std::vector<double> times = times_in_turns(calls, seconds);
  observe::Table table{
      .title = "Loops and branches inside the compiled function, with their gradient",
      .columns = {"what", "nodes", "captured in", "arena", "per call"},
      .rows = {},
      .says =
          "Unrolled, the number of nodes and the capture time grow with the length. A scan has as many nodes "
          "at 256 steps as at 16. A branch inside the graph is decided in every call without a new trace."};
  for (size_t i = 0; i < cases.size(); ++i) {
    const TraceRecord& trace = cases[i].step->traces().front();
    const graph::PlanReport& plan = cases[i].step->plan_report();
    table.rows.push_back(
        {cases[i].name, fmt::format("{}", plan.nodes),
         duration_text(static_cast<double>(trace.trace_ns + trace.passes_ns + trace.plan_ns)),
         bytes_text(static_cast<double>(plan.arena_bytes)), duration_text(times[i])});
  }
  return table;
}

namespace {

Tensor doubled(Tensor x, int64_t times) {
  for (int64_t i = 0; i < times; ++i) x = x * 2.0;
  return x;
}

/// Time in ns of d sum / dx at iteration `times`, through everything that one tape recorded since the first
/// iteration.
double gradient_of_all(int64_t times, double seconds) {
  const Tensor x = full({2, 2}, 1e-300, DType::kF64);
  GradientTape tape(/*persistent=*/true);
  const Tensor total = sum(doubled(x, times));
  tape.set_paused(true);
  return time_of([&] { static_cast<void>(tape.gradient(total, x)); }, seconds);
}

/// The same through only that iteration, including its two ops.
double gradient_of_one(int64_t times, double seconds) {
  const Tensor x = doubled(full({2, 2}, 1e-300, DType::kF64), times - 1);
  return time_of(
      [&] {
        GradientTape tape;
        const Tensor total = sum(x * 2.0);
        static_cast<void>(tape.gradient(total, x));
      },
      seconds);
}

}  // namespace

observe::Table gradient_table(double seconds) {
  constexpr int64_t kTimes[] = {100, 500, 1000, 2000};
  observe::Table table{.title = "Time of the gradient, by iteration",
                       .columns = {"iteration", "one tape for all iterations", "a new tape in each"},
                       .rows = {},
                       .says = ""};
  double first = 0, last = 0, each = 0;
  for (const int64_t times : kTimes) {
    last = gradient_of_all(times, seconds / 8);
    each = gradient_of_one(times, seconds / 8);
    if (first == 0) first = last;
    table.rows.push_back({fmt::format("{}", times), duration_text(last), duration_text(each)});
  }
  table.says = fmt::format(
      "With one tape for all iterations, the gradient takes {:.0f} times as long at iteration {} as at {}. "
      "With a new tape in each iteration it takes {} at any iteration.",
      last / first, kTimes[3], kTimes[0], duration_text(each));
  return table;
}

}  // namespace isochron::apps
