// A training step captured for a device: one launch per step, the CPU's results, and once it is warm, nothing
// is created and nothing waits. The device is simulated; the kernels are compiled from the real source text.
#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <limits>
#include <thread>

#include "isochron/autograd/autograd.h"
#include "isochron/backends/common/choices.h"
#include "isochron/core/base/rng.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/program/device_replay.h"
#include "isochron/graph/program/order_trial.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/control/scan.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/normalization/normalization.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/softmax.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/simulated/results_on.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {
namespace {

constexpr Device kDevice = SimulatedGpu::kDevice;

/// A network of two layers and its optimizer, on any device.
struct Network {
  Variable w1{uniform_numbers({12, 9}, 1), "w1"}, b1{uniform_numbers({9}, 2), "b1"},
      w2{uniform_numbers({9, 1}, 3), "w2"};
  optim::Adam optimizer{{.learning_rate = 0.01}};

  std::vector<Variable> parameters() const { return {w1, b1, w2}; }
  void move_to(Device device) const {
    for (const Variable& parameter : parameters()) parameter.move_to(device);
  }
  auto step(Device device, bool concurrent = true) {
    CaptureOptions options;
    options.plan.device = device;
    options.plan.concurrent = concurrent;
    return capture(
        [this](const Tensor& x, const Tensor& y) {
          const Tensor hidden = relu(matmul(x, w1) + b1);
          const Tensor loss = mean(square(matmul(hidden, w2) - y));
          optimizer.minimize(loss, parameters());
          return loss;
        },
        options);
  }
};

const Tensor kBatchX = uniform_numbers({20, 12}, 4);
const Tensor kBatchY = uniform_numbers({20, 1}, 5);

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

TEST(DeviceTraining, LearnsWhatTheCpuLearns) {
  SimulatedGpu simulated;
  Network here, there;
  there.move_to(kDevice);
  auto on_cpu = here.step({});
  auto on_device = there.step(kDevice);
  for (int i = 0; i < 30; ++i) {
    const double want = on_cpu(kBatchX, kBatchY).item<double>();
    EXPECT_NEAR(on_device(kBatchX, kBatchY).item<double>(), want, 1e-5) << "step " << i;
  }
  for (size_t p = 0; p < 3; ++p) {
    EXPECT_EQ(there.parameters()[p].device(), kDevice);
    expect_near(there.parameters()[p].tensor().to_vector(), here.parameters()[p].tensor().to_vector(), 1e-5);
  }
  EXPECT_EQ(there.optimizer.step_count(), 30);
}

/// The network's parameters after 20 steps.
std::vector<std::vector<double>> trained(optim::Optimizer& optimizer, Device device) {
  Network network;
  network.move_to(device);
  CaptureOptions options;
  options.plan.device = device;
  auto step = capture(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = mean(square(matmul(relu(matmul(x, network.w1) + network.b1), network.w2) - y));
        optimizer.minimize(loss, network.parameters());
        return loss;
      },
      options);
  for (int i = 0; i < 20; ++i) step(kBatchX, kBatchY);
  std::vector<std::vector<double>> content;
  for (const Variable& parameter : network.parameters()) content.push_back(parameter.tensor().to_vector());
  return content;
}

TEST(DeviceTraining, OptimizersThatCountOnAndThoseThatMoveByNorms) {
  SimulatedGpu simulated;
  const auto compare = [](auto make) {
    auto here = make(), there = make();
    const auto want = trained(here, {}), got = trained(there, kDevice);
    for (size_t p = 0; p < want.size(); ++p) expect_near(got[p], want[p], 1e-5);
  };
  compare([] { return optim::Nadam({.learning_rate = 0.01}); });
  compare([] { return optim::RAdam({.learning_rate = 0.01}); });
  compare([] { return optim::Lamb({.learning_rate = 0.01}); });
  compare([] { return optim::Adafactor({.learning_rate = 0.01}); });
}

TEST(DeviceTraining, AStepIsOneLaunchAndNothingElse) {
  SimulatedGpu simulated;
  Network network;
  network.move_to(kDevice);
  auto step = network.step(kDevice);
  const Tensor x = to_device(kBatchX, kDevice), y = to_device(kBatchY, kDevice);
  step(x, y);
  EXPECT_EQ(simulated.compiler.compilations, 1);
  const size_t used = simulated.controls->used_bytes();
  simulated.controls->forget_calls();
  for (int i = 0; i < 50; ++i) step(x, y);
  EXPECT_EQ(simulated.controls->calls("launch graph"), 50);
  for (const char* call : {"launch", "allocate", "create", "map", "reserve", "synchronize", "begin_capture",
                           "instantiate", "load", "copy_to_device", "copy_to_host", "copy", "fill"})
    EXPECT_EQ(simulated.controls->calls(call), 0) << call;
  EXPECT_EQ(simulated.controls->used_bytes(), used);
  // One copy moves data on the CPU to the device, into alternating slots; nothing else is done.
  for (int i = 0; i < 3; ++i) step(kBatchX, kBatchY);
  simulated.controls->forget_calls();
  for (int i = 0; i < 10; ++i) step(kBatchX, kBatchY);
  EXPECT_EQ(simulated.controls->calls("launch graph"), 10);
  EXPECT_EQ(simulated.controls->calls("copy_to_device"), 10);
  EXPECT_LE(simulated.controls->calls("synchronize event"), 10) << "for the step of two batches before";
  EXPECT_EQ(simulated.controls->calls("synchronize") + simulated.controls->calls("allocate") +
                simulated.controls->calls("begin_capture"),
            0);
}

TEST(DeviceTraining, WhatNeedsNothingOfEachOtherRunsSideBySideWithTheSameBits) {
  const ops::Deterministic by_rule;  // other kernels' workspaces may put all in order
  const auto train = [](bool concurrent) {
    SimulatedGpu simulated;
    Network network;
    network.move_to(kDevice);
    auto step = network.step(kDevice, concurrent);
    std::vector<double> losses;
    for (int i = 0; i < 12; ++i) losses.push_back(step(kBatchX, kBatchY).item<double>());
    const graph::PlanReport& report = step.plan_report();
    return std::tuple(losses, report.longest_chain, report.instructions);
  };
  const auto [forked, forked_chain, instructions] = train(true);
  const auto [in_order, chain, all] = train(false);
  EXPECT_EQ(forked, in_order);
  EXPECT_EQ(chain, all);
  EXPECT_EQ(instructions, all);
  EXPECT_LT(forked_chain, all) << "the gradients of a layer's weights and of its input";
}

/// The duration of a run by this clock: `in_order_ns` for every second run, 100 for the others.
template <int64_t in_order_ns>
int64_t clock_of_runs() {
  static int64_t calls = 0, now = 0;
  if (++calls % 2 == 0) now += calls % 4 == 0 ? in_order_ns : 100;
  return now;
}

TEST(DeviceOrder, TheFasterOneIsKept) {
  const ops::Deterministic by_rule;  // other kernels' workspaces may put all in order
  const auto train = [](int64_t (*clock)()) {
    SimulatedGpu simulated({.clock = clock});
    Network network;
    network.move_to(kDevice);
    const Tensor x = to_device(kBatchX, kDevice),
                 y = to_device(kBatchY, kDevice);  // no copy that is timed too
    auto step = network.step(kDevice);
    std::vector<double> losses;
    const int trial = 2 * static_cast<int>(graph::OrderTrial::kRunsEach);
    for (int i = 0; i < trial; ++i) losses.push_back(step(x, y).item<double>());
    EXPECT_LT(step.plan_report().longest_chain, step.plan_report().instructions) << "nothing is decided yet";
    simulated.controls->forget_calls();
    for (int i = 0; i < 3; ++i) losses.push_back(step(x, y).item<double>());
    EXPECT_EQ(simulated.controls->calls("begin_capture"), 0) << "what is kept was recorded before";
    EXPECT_EQ(simulated.controls->calls("record"), 0) << "nothing is timed any more";
    EXPECT_EQ(simulated.controls->calls("launch graph"), 3);
    const graph::PlanReport& report = step.plan_report();
    return std::tuple(losses, report.longest_chain == report.instructions);
  };
  const auto [slower_losses, slower] = train(clock_of_runs<101>);
  const auto [equal_losses, equal] = train(clock_of_runs<99>);
  const auto [faster_losses, faster] = train(clock_of_runs<90>);
  EXPECT_FALSE(slower);
  EXPECT_FALSE(equal) << "by less than trials differ";
  EXPECT_TRUE(faster);
  EXPECT_EQ(slower_losses, faster_losses);
  EXPECT_EQ(slower_losses, equal_losses);
}

TEST(DeviceTraining, BatchSlotsTakeTurnsWithoutBeingRecordedAgain) {
  SimulatedGpu simulated;
  CaptureOptions options;
  options.plan.device = kDevice;
  auto largest = capture([](const Tensor& x, const Tensor& y) { return max(x) + sum(y); }, options);
  std::vector<Tensor> slots;
  for (int s = 0; s < 6; ++s) slots.push_back(to_device(full({20, 12}, s), kDevice));
  const Tensor y = to_device(zeros({3}), kDevice);
  largest.prepare({slots[0].spec(), y.spec()});
  const int64_t before = simulated.controls->calls("begin_capture");  // of timed ways to compute
  const auto recordings = [&] { return simulated.controls->calls("begin_capture") - before; };
  const auto take_turns = [&](int slots_used) {
    for (int i = 0; i < 12; ++i)
      EXPECT_EQ(largest(slots[static_cast<size_t>(i % slots_used)], y).item<double>(), i % slots_used);
  };
  constexpr int kOrders = 2;  // while it isn't decided yet which is faster
  take_turns(4);
  EXPECT_EQ(recordings(), 4 * kOrders);
  take_turns(6);
  EXPECT_EQ(recordings(), 5 * kOrders) << "of more, copies are made, at addresses of their own";
  const auto live = simulated.gpu->pool().stats().live_allocations;
  take_turns(6);
  EXPECT_EQ(recordings(), 5 * kOrders);
  EXPECT_EQ(simulated.gpu->pool().stats().live_allocations, live);
}

TEST(DeviceTraining, LaunchBlockingNamesTheInstructionThatFailed) {
  SimulatedGpu simulated;
  CaptureOptions options;
  options.plan.device = kDevice;
  ASSERT_EQ(setenv("CUDA_LAUNCH_BLOCKING", "1", 1), 0);
  auto looked_up = capture(
      [](const Tensor& table, const Tensor& rows) { return gather(table * 2.0, rows, 0) + 1.0; }, options);
  const Tensor table = ones({3, 2});
  looked_up.prepare({table.spec(), TensorSpec{DType::kI32, {2}}});
  unsetenv("CUDA_LAUNCH_BLOCKING");
  EXPECT_EQ(looked_up(table, from_vector({2}, {0, 2}, DType::kI32)).to_vector(), std::vector<double>(4, 3));
  EXPECT_ERROR(looked_up(table, from_vector({2}, {0, 3}, DType::kI32)), ErrorCode::kDeviceLost,
               "instruction 1, gather_1 (gather) of (3, 2) (2): ");
}

TEST(DeviceTraining, AMemoryBudgetIsKeptByComputingAgain) {
  SimulatedGpu simulated;
  const Tensor x = uniform_numbers({8, 16, 32}, 1), w = uniform_numbers({32, 32}, 2);
  const auto run = [&](size_t budget) {
    CaptureOptions options;
    options.plan.device = kDevice;
    options.passes.memory_budget_bytes = budget;
    auto step = capture(
        [](const Tensor& in, const Tensor& weights) {
          Tensor h = in;
          for (int i = 0; i < 8; ++i) h = tanh(matmul(h, weights)) * sigmoid(h);
          return gradients(sum(square(h)), {in, weights});
        },
        options);
    std::vector<std::vector<double>> results;
    for (const Tensor& result : step(x, w)) results.push_back(result.to_vector());
    return std::pair(std::move(results), step.largest_plan().report.arena_bytes);
  };
  const auto [want, whole] = run(0);
  const size_t budget = whole * 8 / 10;
  const auto [got, bytes] = run(budget);
  EXPECT_EQ(got, want);
  EXPECT_LE(bytes, budget);
  EXPECT_ERROR(run(1), ErrorCode::kOutOfMemory, "memory budget");
}

TEST(DeviceTraining, DropoutDrawsWhatTheCpuDraws) {
  SimulatedGpu simulated;
  random::Generator here(7), there(7);
  there.move_to(kDevice);
  const auto step = [](random::Generator& generator) {
    return [&generator](const Tensor& x) { return dropout(x, 0.5, true, generator); };
  };
  auto on_cpu = capture(step(here));
  CaptureOptions options;
  options.plan.device = kDevice;
  auto on_device = capture(step(there), options);
  std::vector<double> before;
  for (int i = 0; i < 5; ++i) {
    const std::vector<double> drawn = on_device(kBatchX).to_vector();
    EXPECT_EQ(drawn, on_cpu(kBatchX).to_vector());
    EXPECT_NE(drawn, before) << "each replay draws anew";
    before = drawn;
  }
  EXPECT_EQ(there.state().to_vector(), here.state().to_vector());
  EXPECT_ERROR(there.move_to({}), ErrorCode::kInvalidArgument, "a captured function refers to it");
  EXPECT_EQ(bernoulli({9}, 0.5, there).to_vector(), bernoulli({9}, 0.5, here).to_vector());
  EXPECT_EQ(there.state().to_vector(), here.state().to_vector());
}

TEST(DeviceTraining, AClassifierOfTokensLearnsWhatTheCpuLearns) {
  SimulatedGpu simulated;
  struct Model {
    Variable table{uniform_numbers({11, 6}, 1), "table"}, gamma{ones({6}), "gamma"}, beta{zeros({6}), "beta"},
        w{uniform_numbers({6, 4}, 2), "w"};
    optim::RmsProp optimizer{{.learning_rate = 0.01, .momentum = 0.9, .centered = true}};
    std::vector<Variable> parameters() const { return {table, gamma, beta, w}; }
    auto step(Device device) {
      CaptureOptions options;
      options.plan.device = device;
      return capture(
          [this](const Tensor& tokens, const Tensor& labels) {
            const Tensor rows = layer_norm(gather(table, tokens, 0), gamma, beta);
            const Tensor halves = concatenate({narrow(rows, 1, 3, 3), narrow(rows, 1, 0, 3)}, 1);
            const Tensor logits = matmul(halves, w);
            const Tensor loss = mean(sparse_softmax_cross_entropy(logits, labels));
            optimizer.minimize(loss, parameters());
            return std::pair(loss, argmax(logits, 1));
          },
          options);
    }
  };
  const Tensor tokens = from_vector({13}, {1, 4, 4, 0, 10, 7, 4, 2, 2, 9, 1, 0, 5}, DType::kI64);
  const Tensor labels = from_vector({13}, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0}, DType::kI64);
  Model here, there;
  for (const Variable& parameter : there.parameters()) parameter.move_to(kDevice);
  auto on_cpu = here.step({}), on_device = there.step(kDevice);
  for (int i = 0; i < 10; ++i) {
    const auto [want, classes] = on_cpu(tokens, labels);
    const auto [got, same] = on_device(tokens, labels);
    EXPECT_NEAR(got.item<double>(), want.item<double>(), 1e-4) << "step " << i;
    EXPECT_EQ(same.to_vector(), classes.to_vector());
  }
  const Tensor wrong = from_vector({13}, std::vector<double>(13, 11), DType::kI64);
  EXPECT_ERROR(on_device(wrong, labels).first.item<double>(), ErrorCode::kDeviceLost,
               "gather: index 11 is outside [0, 11)");
}

/// What `function` gives on the CPU and on the device, called `calls` times with `inputs`.
template <typename Function>
void expect_the_same(const Function& function, const std::vector<Tensor>& inputs, int calls = 3) {
  SimulatedGpu simulated({}, true);
  CaptureOptions options;
  CapturedFunction on_cpu(function, options);
  options.plan.device = kDevice;
  CapturedFunction on_device(function, options);
  std::vector<const Tensor*> arguments;
  for (const Tensor& input : inputs) arguments.push_back(&input);
  for (int i = 0; i < calls; ++i) {
    const auto want = on_cpu.call(arguments);
    const auto got = on_device.call(arguments);
    for (size_t o = 0; o < want.size(); ++o) expect_near(got[o].to_vector(), want[o].to_vector(), 1e-5);
  }
  std::vector<int64_t> times(on_device.plan().instruction_count());
  on_device.plan().run_profiled(times);  // not captured: the host reads the conditions
  EXPECT_THAT(times, testing::Each(testing::Gt(0)));
}

TEST(DeviceTraining, OneBranchRuns) {
  const auto function = [](std::span<const Tensor> inputs) {
    const Tensor x = inputs[0];
    const Tensor positive = sum(x) > 0.0;
    GradientTape tape;
    tape.watch(x);
    const Tensor y = cond(
        positive, [&] { return exp(x) * 2.0; }, [&] { return square(x) - 1.0; });
    return std::vector<Tensor>{y, tape.gradient(sum(y), x)};
  };
  expect_the_same(function, {uniform_numbers({3, 4}, 3) + 1.0});
  expect_the_same(function, {uniform_numbers({3, 4}, 3) - 1.0});
}

TEST(DeviceTraining, ALoopRunsAsOftenAsTheDeviceFinds) {
  const auto function = [](std::span<const Tensor> inputs) {
    const Tensor x = inputs[0];
    GradientTape tape;
    tape.watch(x);
    const std::vector<Tensor> end =
        while_loop([](std::span<const Tensor> state) { return sum(state[0]) < 40.0; },
                   [&](std::span<const Tensor> state) { return std::vector<Tensor>{state[0] * 1.5 + x}; },
                   {x}, {.max_iterations = 12});
    return std::vector<Tensor>{end[0], tape.gradient(sum(end[0]), x)};
  };
  for (const double start : {0.1, 1.0, 30.0})
    expect_the_same(function, {uniform_numbers({2, 3}, 3) * 0.01 + start});
}

TEST(DeviceTraining, BeyondItsBoundALoopsConditionIsntAsked) {
  const auto function = [](std::span<const Tensor> inputs) {
    const Tensor x = inputs[0];
    const std::vector<Tensor> end = while_loop(
        [&](std::span<const Tensor> state) {
          return sum(gather(x, reshape(state[0], {1}), 0)) < 100.0;  // there are exactly that many rows
        },
        [&](std::span<const Tensor> state) {
          return std::vector<Tensor>{state[0] + 1.0, state[1] + gather(x, reshape(state[0], {1}), 0)};
        },
        {constant(zeros({}, DType::kI64)), constant(zeros({1, 3}))}, {.max_iterations = 4});
    return std::vector<Tensor>{end[1]};
  };
  expect_the_same(function, {uniform_numbers({4, 3}, 3)});
}

TEST(DeviceTraining, AScanIsUnrolledInWhatIsRecorded) {
  const auto function = [](std::span<const Tensor> inputs) {
    const Tensor x = inputs[0], w = inputs[1];
    GradientTape tape;
    tape.watch(w);
    const ScanResult result = scan(
        [&](std::span<const Tensor> state, std::span<const Tensor> slices) {
          const Tensor next = tanh(matmul(state[0], w) + slices[0]);
          return ScanStep{{next}, {next * 2.0}};
        },
        {constant(zeros({2, 3}))}, {x});
    return std::vector<Tensor>{result.state[0], result.outputs[0], tape.gradient(sum(result.outputs[0]), w)};
  };
  expect_the_same(function, {uniform_numbers({5, 2, 3}, 3), uniform_numbers({3, 3}, 4)});
}

TEST(DeviceTraining, AccumulatesAndScalesItsLossAsTheCpuDoes) {
  SimulatedGpu simulated;
  struct Scaled : Network {
    Scaled() {
      optimizer = optim::Adam(
          {.learning_rate = 0.01,
           .step = {
               .accumulate = 3, .loss_scale = {.initial = 1024, .growth_interval = 2}, .ema_decay = 0.9}});
    }
  };
  Scaled here, there;
  there.move_to(kDevice);
  auto on_cpu = here.step({}), on_device = there.step(kDevice);
  const Tensor infinite = kBatchX * std::numeric_limits<double>::infinity();
  for (int i = 0; i < 14; ++i) {
    const Tensor& x = i == 7 ? infinite : kBatchX;  // its group is skipped, and the scale halved
    on_cpu(x, kBatchY);
    on_device(x, kBatchY);
  }
  EXPECT_EQ(there.optimizer.step_count(), here.optimizer.step_count());
  EXPECT_EQ(there.optimizer.loss_scale(), here.optimizer.loss_scale());
  EXPECT_EQ(there.optimizer.skipped_steps(), here.optimizer.skipped_steps());
  EXPECT_GT(here.optimizer.skipped_steps(), 0);
  for (size_t p = 0; p < 3; ++p)
    expect_near(there.parameters()[p].tensor().to_vector(), here.parameters()[p].tensor().to_vector(), 1e-5);
}

TEST(DeviceTraining, OthersUseTheDeviceWhileItsWorkIsRecorded) {
  SimulatedGpu simulated;
  const std::shared_ptr<cuda::Gpu> gpu = cuda::gpu(kDevice);
  const Tensor from = to_device(kBatchX, kDevice), to = to_device(zeros(kBatchX.shape()), kDevice);
  graph::DeviceReplay replay(gpu);
  const std::array<std::byte*, 1> inputs = {from.device_address()};
  const cuda::GraphExec recorded = replay.record(inputs, [&](cuda::Stream stream) {
    std::thread([&] { EXPECT_EQ(to_device(kBatchY, kDevice).to_vector(), kBatchY.to_vector()); }).join();
    cuda::copy_within(gpu->context(), to.device_address(), from.device_address(), from.size_bytes(), stream);
  });
  gpu->context().launch(recorded, gpu->stream());
  EXPECT_EQ(to.to_vector(), kBatchX.to_vector());
}

TEST(DeviceTraining, InstructionsAreTimedOneByOne) {
  SimulatedGpu simulated;
  Network network;
  network.move_to(kDevice);
  auto step = network.step(kDevice);
  step(kBatchX, kBatchY);
  std::vector<int64_t> times(step.plan().instruction_count());
  step.plan().run_profiled(times);
  EXPECT_THAT(times, testing::Each(testing::Gt(0)));
  EXPECT_EQ(network.optimizer.step_count(), 2);
}

/// Copies its input.
class CopyOnTheCpu final : public graph::Kernel {
 public:
  explicit CopyOnTheCpu(size_t bytes) : bytes_(bytes) {}
  void run(const graph::KernelArgs& args) override { std::memcpy(args.outputs[0], args.inputs[0], bytes_); }

 private:
  size_t bytes_;
};

TEST(DeviceTraining, OpsWithoutAKernelAreNamedTogether) {
  SimulatedGpu simulated;
  const auto add = [](const char* name) -> const graph::OpDef& {
    graph::OpDef row = ops::row("square");
    row.name = name;
    row.fusion = graph::FusionClass::kOpaque;
    return ops::register_op(std::move(row), [](const graph::KernelRequest& request) {
      return std::unique_ptr<graph::Kernel>(new CopyOnTheCpu(request.outputs[0].size_bytes()));
    });
  };
  static const graph::OpDef &one = add("cpu_alone"), &other = add("cpu_alone_too");
  CaptureOptions options;
  options.plan.device = kDevice;
  auto step = capture(
      [](const Tensor& x) { return graph::apply_one(other, {graph::apply_one(one, {x}, {})}, {}); }, options);
  EXPECT_ERROR(step(kBatchX), ErrorCode::kUnsupported, "no kernel for cuda:0 of: cpu_alone, cpu_alone_too");
}

TEST(DeviceTraining, MixedDevicesAreRefused) {
  SimulatedGpu simulated;
  const Variable w(uniform_numbers({12, 9}, 1), "w");
  CaptureOptions options;
  options.plan.device = kDevice;
  auto step = capture([&](const Tensor& x) { return matmul(x, w); }, options);
  EXPECT_ERROR(step(kBatchX), ErrorCode::kDevice,
               "which changes with an assignment to variable 'w', lives on cpu, and the plan is for cuda:0");
  const Tensor x = to_device(kBatchX, kDevice);
  EXPECT_ERROR(matmul(x, w), ErrorCode::kDevice,
               "input 1, f32(12, 9), lives on the CPU and others on cuda:0");
  EXPECT_ERROR(x.raw(), ErrorCode::kDevice, "copy it to the CPU with to_device()");
  auto on_cpu = capture([&](const Tensor& a) { return matmul(a, w); });
  EXPECT_ERROR(on_cpu(x), ErrorCode::kDevice, "lives on cuda:0");
}

TEST(DeviceTraining, AnArgumentMayBeginAnywhere) {
  SimulatedGpu simulated;
  const Variable w(uniform_numbers({12, 9}, 1), "w");
  const Tensor kernel = copy(w.tensor());
  w.move_to(kDevice);
  CaptureOptions options;
  options.plan.device = kDevice;
  auto product = capture([&](const Tensor& x) { return matmul(x, w); }, options);
  const Tensor numbers = uniform_numbers({30, 12}, 2), there = to_device(numbers, kDevice);
  for (const int64_t row : {0, 1, 2, 5}) {  // 48 bytes each, of which libraries take every one
    for (const int64_t column : {0, 1, 3}) {
      const int64_t begin = row * 12 + column;
      const TensorSpec spec{DType::kF32, {20, 12}};
      const auto part = [&](const Tensor& of) {
        return Tensor::over(of.storage(), spec, static_cast<size_t>(begin) * sizeof(float));
      };
      expect_near(product(part(there)).to_vector(), matmul(part(numbers), kernel).to_vector(), 1e-5);
    }
  }
}

TEST(DeviceTraining, AVariableInUseStaysWhereItIs) {
  SimulatedGpu simulated;
  const Variable w(uniform_numbers({12, 9}, 1), "w");
  auto step = capture([&](const Tensor& x) { return matmul(x, w); });
  step(kBatchX);
  EXPECT_ERROR(w.move_to(kDevice), ErrorCode::kInvalidArgument, "'w' can't move from cpu to cuda:0");
  EXPECT_TRUE(w.device().is_cpu());
}

TEST(DeviceTraining, ContentGoesThereAndBack) {
  SimulatedGpu simulated;
  const Variable w(kBatchX, "w");
  w.move_to(kDevice);
  EXPECT_EQ(w.tensor().to_vector(), kBatchX.to_vector());
  w.assign(zeros({20, 12}));
  EXPECT_THAT(w.tensor().to_vector(), testing::Each(0));
  w.assign(to_device(kBatchX, kDevice));
  EXPECT_EQ(to_device(w, {}).to_vector(), kBatchX.to_vector());
  EXPECT_EQ(copy(w).to_vector(), kBatchX.to_vector());
  w.move_to({});
  EXPECT_EQ(w.tensor().to_vector(), kBatchX.to_vector());
  EXPECT_EQ(to_device(scalar(7, DType::kI64), kDevice).item<int64_t>(), 7);
}

TEST(DeviceTraining, TooLittleMemoryIsSaidAtPlanning) {
  SimulatedGpu simulated(cuda::simulated_device(size_t{1} << 20));
  CaptureOptions options;
  options.plan.device = kDevice;
  auto step = capture([](const Tensor& x) { return exp(matmul(x, x, true)); }, options);
  EXPECT_ERROR(step(uniform_numbers({1, 700}, 1)), ErrorCode::kOutOfMemory, "arena");
  EXPECT_ERROR(step(uniform_numbers({1, 700}, 1)), ErrorCode::kOutOfMemory, "fused_product_2 (2.0 MB)");
  auto rows = capture([](const Tensor& x) { return matmul(exp(x), x, false, true); }, options);
  EXPECT_ERROR(rows(uniform_numbers({700, 5}, 1)), ErrorCode::kOutOfMemory, " of the 700 rows");
  EXPECT_EQ(step.plan_count(), 0u);
}

TEST(DeviceTraining, AFaultEndsTheDevice) {
  SimulatedGpu simulated;
  Network network;
  network.move_to(kDevice);
  auto step = network.step(kDevice);
  step(kBatchX, kBatchY);
  simulated.controls->fail("launch graph", 1, ErrorCode::kDeviceLost);
  EXPECT_ERROR(step(kBatchX, kBatchY), ErrorCode::kDeviceLost, "");
}

TEST(DeviceTraining, WhatCantBeRecordedIsAnErrorAndLeavesNothingUnderWay) {
  SimulatedGpu simulated;
  Network network;
  network.move_to(kDevice);
  auto step = network.step(kDevice);
  step.prepare({kBatchX.spec(), kBatchY.spec()});
  const Tensor x = to_device(kBatchX, kDevice),
               y = to_device(kBatchY, kDevice);  // for which nothing is recorded yet
  simulated.controls->fail("launch", 3, ErrorCode::kDevice);
  EXPECT_ERROR(step(x, y), ErrorCode::kDevice, "launch");
  const double loss = step(x, y).item<double>();
  EXPECT_GT(loss, 0);
  EXPECT_EQ(network.optimizer.step_count(), 1);
}

}  // namespace
}  // namespace isochron
