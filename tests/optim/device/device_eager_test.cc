// Ops called without a capture on tensors of a device: they run there and agree with the CPU.
#include <gmock/gmock.h>

#include "isochron/autograd/autograd.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/control/update_if.h"
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
#include "support/near.h"
#include "support/simulated/results_on.h"
#include "support/simulated/simulated_gpu.h"

namespace isochron {
namespace {

/// The result of `body` for `x` on the device, where it must stay, and on the CPU.
template <typename Body>
void expect_same(const Body& body, const Tensor& x, double tolerance = 1e-5) {
  const Tensor got = body(to_device(x, SimulatedGpu::kDevice));
  EXPECT_EQ(got.device(), SimulatedGpu::kDevice);
  EXPECT_TRUE(near(got, body(x), 0, tolerance));
}

TEST(DeviceEager, OpsRunWhereTheirInputsLive) {
  SimulatedGpu simulated;
  const Tensor x = uniform_numbers({6, 10}, 1);
  expect_same([](const Tensor& t) { return exp(t) * 2.0 + t; }, x);
  expect_same([](const Tensor& t) { return sum(t, {0}); }, x);
  expect_same([](const Tensor& t) { return matmul(t, transpose(t)); }, x);
  expect_same([](const Tensor& t) { return log_softmax(reshape(t, {3, 20})); }, x);
  expect_same([](const Tensor& t) { return slice(t, {1, 2}, {4, 5}); }, x);
  expect_same([](const Tensor& t) { return concatenate({t, t}, 1); }, x);
}

TEST(DeviceEager, OpsThatAreWrittenInOthersThereAre) {
  SimulatedGpu simulated;
  const Tensor gamma = uniform_numbers({8}, 2), beta = uniform_numbers({8}, 3);
  expect_same(
      [&](const Tensor& t) {
        return group_norm(t, 2, to_device(gamma, t.device()), to_device(beta, t.device()));
      },
      uniform_numbers({3, 5, 8}, 4));
}

TEST(DeviceEager, ConstantsAndSingleElementsComeAlong) {
  SimulatedGpu simulated;
  const Tensor x = uniform_numbers({4, 3}, 5), row = uniform_numbers({3}, 6), one = from_vector({1}, {0.25});
  expect_same([&](const Tensor& t) { return t + constant(row); }, x);
  expect_same([&](const Tensor& t) { return one * t; }, x);
  expect_same([](const Tensor& t) { return zeros_like(t) + t + ones_like(t); }, x);
  expect_same([&](const Tensor& t) { return exp(constant(row)) * t; }, x);
  const Tensor there = to_device(x, SimulatedGpu::kDevice);
  EXPECT_ERROR(there + row, ErrorCode::kDevice, "input 1, f32(3), lives on the CPU and others on cuda:0");
  EXPECT_EQ(constant(there).device(), SimulatedGpu::kDevice);
  EXPECT_TRUE(near(constant(there), x, 0, 0));
}

TEST(DeviceEager, UndefinedAndGraphTensorsAreNamed) {
  SimulatedGpu simulated;
  const Tensor x = to_device(uniform_numbers({4}, 7), SimulatedGpu::kDevice);
  EXPECT_ERROR(x + Tensor(), ErrorCode::kInvalidArgument, "input 1 is undefined");
}

TEST(DeviceEager, TheTapeGivesTheCpusGradients) {
  SimulatedGpu simulated;
  const auto gradients = [](Device device) {
    const Tensor x = to_device(uniform_numbers({5, 4}, 8), device),
                 w = to_device(uniform_numbers({4, 3}, 9), device);
    GradientTape tape;
    const Tensor y = sum(square(tanh(matmul(x, w)))) + mean(softmax(matmul(x, w)) * 3.0);
    return tape.gradient(y, std::vector{x, w});
  };
  const std::vector<Tensor> here = gradients({}), there = gradients(SimulatedGpu::kDevice);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(there[i].device(), SimulatedGpu::kDevice);
    EXPECT_TRUE(near(there[i], here[i], 0, 1e-5));
  }
}

TEST(DeviceEager, AStepTrainsAsOnTheCpu) {
  SimulatedGpu simulated;
  const auto trained = [](Device device) {
    const VariableDeviceScope variables_there(device);
    const Variable w1(uniform_numbers({12, 9}, 1), "w1"), b1(uniform_numbers({9}, 2), "b1"),
        w2(uniform_numbers({9, 1}, 3), "w2");
    const std::vector<Variable> parameters{w1, b1, w2};
    const Tensor x = to_device(uniform_numbers({20, 12}, 4), device),
                 y = to_device(uniform_numbers({20, 1}, 5), device);
    optim::Adam optimizer({.learning_rate = 0.01});
    for (int i = 0; i < 10; ++i) {
      GradientTape tape;
      const Tensor loss = mean(square(matmul(relu(matmul(x, w1) + b1), w2) - y));
      optimizer.minimize(loss, parameters);
    }
    EXPECT_EQ(w1.device(), device);
    return std::vector{w1.tensor(), b1.tensor(), w2.tensor()};
  };
  const std::vector<Tensor> here = trained({}), there = trained(SimulatedGpu::kDevice);
  for (size_t p = 0; p < here.size(); ++p) EXPECT_TRUE(near(there[p], here[p], 0, 1e-5));
}

TEST(DeviceEager, DrawsAreTheCpus) {
  SimulatedGpu simulated;
  random::Generator here(17), there(17);
  there.move_to(SimulatedGpu::kDevice);
  const auto uniform = [](random::Generator& generator) {
    return random_uniform({100}, 0, 1, DType::kF32, generator);
  };
  for (int draw = 0; draw < 2; ++draw) {
    const Tensor want = uniform(here), got = uniform(there);
    EXPECT_EQ(got.device(), Device()) << "as data are made of it";
    EXPECT_TRUE(near(got, want, 0, 1e-7));
  }
  const Tensor x = ones({64});
  random::Generator other(17), third(17);
  EXPECT_TRUE(near(dropout(to_device(x, SimulatedGpu::kDevice), 0.5, true, other),
                   dropout(x, 0.5, true, third), 0, 1e-7));
}

TEST(DeviceEager, AKernelIsMadeOnceAndMemoryComesBack) {
  SimulatedGpu simulated;
  const Tensor x = to_device(uniform_numbers({7, 5}, 10), SimulatedGpu::kDevice);
  const auto call = [&] { return softmax(x * 3.0); };
  const std::vector<double> first = call().to_vector();
  const auto memory = [&] { return simulated.gpu->pool().stats().live_allocations; };
  const auto live = memory();
  const int64_t made = simulated.compiler.compilations;
  EXPECT_EQ(made, 2) << "a product and a softmax";
  simulated.controls->forget_calls();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(call().to_vector(), first);
  EXPECT_EQ(simulated.compiler.compilations, made);
  EXPECT_EQ(simulated.controls->calls("load"), 0);
  EXPECT_EQ(simulated.controls->calls("launch"), 40);
  EXPECT_EQ(memory(), live);
  graph::clear_eager_kernels();
  EXPECT_EQ(call().to_vector(), first);
  EXPECT_EQ(simulated.controls->calls("load"), 2);
}

TEST(DeviceEager, ResultsOfCapturedFunctionsGoOn) {
  SimulatedGpu simulated;
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  auto doubled = capture([](const Tensor& t) { return t * 2.0; }, options);
  const Tensor x = uniform_numbers({3, 4}, 11);
  EXPECT_TRUE(near(sum(copy(doubled(x))) + 1.0, sum(x * 2.0) + 1.0, 0, 1e-5));
}

TEST(DeviceEager, OpsWithoutAKernelAreNamed) {
  SimulatedGpu simulated;
  graph::OpDef row = ops::row("square");
  row.name = "nowhere";
  row.fusion = graph::FusionClass::kOpaque;
  static const graph::OpDef& op = ops::register_op(
      std::move(row), [](const graph::KernelRequest&) -> std::unique_ptr<graph::Kernel> { return nullptr; });
  EXPECT_ERROR(graph::apply_one(op, {to_device(uniform_numbers({3, 4}, 12), SimulatedGpu::kDevice)}, {}),
               ErrorCode::kUnsupported,
               "[nowhere] cuda:0 has no kernel for it; copy its inputs to the CPU with to_device()");
}

TEST(DeviceEager, ConditionsAreReadWhereTheyLive) {
  SimulatedGpu simulated;
  const Tensor x = uniform_numbers({4}, 13);
  const auto decided = [](const Tensor& t) {
    const Tensor large = greater(sum(t), scalar(-100));
    const Tensor chosen = cond(
        large, [&] { return std::vector{t * 2.0}; }, [&] { return std::vector{t * 3.0}; })[0];
    return update_if(large, std::vector{chosen},
                     [](std::span<const Tensor> state) { return std::vector{state[0] + 1.0}; })[0];
  };
  expect_same(decided, x);
}

TEST(DeviceEager, AccumulationAndLossScalesStepAsOnTheCpu) {
  SimulatedGpu simulated;
  const auto trained = [](Device device) {
    const VariableDeviceScope variables_there(device);
    const Variable w(uniform_numbers({5, 2}, 1), "w");
    const Tensor x = to_device(uniform_numbers({6, 5}, 4), device);
    optim::Adam optimizer(
        {.learning_rate = 0.01, .step = {.accumulate = 2, .loss_scale = optim::LossScale::dynamic(1024)}});
    for (int i = 0; i < 4; ++i) {
      GradientTape tape;
      optimizer.minimize(mean(square(matmul(x, w))), std::vector{w});
    }
    EXPECT_EQ(optimizer.step_count(), 2);
    return w.tensor();
  };
  EXPECT_TRUE(near(trained(SimulatedGpu::kDevice), trained({}), 0, 1e-5));
}

TEST(DeviceEager, NumbersOfADeviceAreConstantsOfACapture) {
  SimulatedGpu simulated;
  const Tensor two = constant(to_device(from_vector({1}, {2}), SimulatedGpu::kDevice)),
               x = uniform_numbers({3}, 14);
  CaptureOptions options;
  options.plan.device = SimulatedGpu::kDevice;
  auto doubled = capture([&](const Tensor& t) { return t * two + two; }, options);
  EXPECT_TRUE(near(doubled(x), x * 2.0 + 2.0, 0, 1e-6));
}

TEST(DeviceEager, AMovedGeneratorTellsAndSetsItsStep) {
  SimulatedGpu simulated;
  random::Generator here(3), there(3);
  there.move_to(SimulatedGpu::kDevice);
  for (random::Generator* generator : {&here, &there}) {
    random_uniform({2}, 0, 1, DType::kF32, *generator);
    generator->seek(generator->step() + 5);
  }
  EXPECT_EQ(there.step(), here.step());
  const Tensor got = random_uniform({9}, 0, 1, DType::kF32, there);
  EXPECT_TRUE(near(got, random_uniform({9}, 0, 1, DType::kF32, here), 0, 1e-7));
}

}  // namespace
}  // namespace isochron
