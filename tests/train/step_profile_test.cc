#include "isochron/train/callbacks/step_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "isochron/nn/layers/embedding.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/simulated/training_gpu.h"

namespace isochron::train {
namespace {

using ::testing::HasSubstr;

/// A network with dropout and Adam, whose step depends on variables, states and random numbers.
struct ProfiledTraining {
  nn::Sequential model{nn::Dense(32, nn::Activation::kRelu), nn::Dropout(0.5), nn::Dense(1)};
  optim::Adam optimizer{optim::AdamOptions{.learning_rate = 1e-2}};
  Tensor x = full({16, 8}, 0.5), y = ones({16, 1});
  Captured<std::function<Tensor(const Tensor&, const Tensor&)>> step;

  explicit ProfiledTraining(Precision precision = Precision::kF32)
      : step(
            [this](const Tensor& a, const Tensor& b) {
              Tensor loss = nn::mean_squared_error(model(a), b);
              optimizer.minimize(loss, model.parameters());
              return loss;
            },
            CaptureOptions{.passes = {.precision = precision}}) {
    model.build(x.spec());
    for (const Variable& parameter : model.parameters()) parameter.assign(full(parameter.shape(), 0.1));
    random::set_seed(7);
  }
  std::vector<float> losses(int steps) {
    std::vector<float> result;
    for (int i = 0; i < steps; ++i) result.push_back(step(x, y).item<float>());
    return result;
  }
};

constexpr ProfileOptions kQuick{.rounds = 3};

TEST(StepProfile, LeavesTheTrainingAsItWas) {
  std::vector<float> expected;
  {
    ProfiledTraining plain;
    expected = plain.losses(8);
  }
  ProfiledTraining profiled;
  std::vector<float> found = profiled.losses(4);
  profile(profiled.step, kQuick);
  const std::vector<float> rest = profiled.losses(4);
  found.insert(found.end(), rest.begin(), rest.end());
  EXPECT_EQ(found, expected);
}

TEST(StepProfile, WithArgumentsTakesOneStep) {
  std::vector<float> expected;
  {
    ProfiledTraining plain;
    expected = plain.losses(3);
  }
  ProfiledTraining profiled;
  EXPECT_FALSE(profile(profiled.step, profiled.x, profiled.y).kernels.empty());
  EXPECT_EQ(profiled.losses(2), std::vector<float>(expected.begin() + 1, expected.end()));
}

TEST(StepProfile, HasEveryKernelWithItsLimit) {
  ProfiledTraining training;
  training.losses(1);
  const StepProfile result = profile(training.step, kQuick);
  EXPECT_EQ(result.kernels.size(), training.step.plan_report().instructions);
  EXPECT_GT(result.limits.flops_per_ns, 0);
  EXPECT_EQ(result.limits.half_flops_per_ns, 0);
  double ns = 0, limit_ns = 0;
  bool product = false, elements = false;
  for (const ProfiledKernel& kernel : result.kernels) {
    ns += kernel.ns;
    limit_ns += kernel.limit_ns;
    const double moving = kernel.bytes / result.limits.bytes_per_ns;
    EXPECT_GE(kernel.limit_ns, 0.999 * moving) << kernel.name;
    EXPECT_FALSE(kernel.half) << kernel.name;
    if (kernel.op == "matmul") {
      product = true;
      EXPECT_DOUBLE_EQ(kernel.limit_ns, kernel.flops / result.limits.flops_per_ns + moving);
    } else if (kernel.op == "fused") {
      elements = true;
      EXPECT_DOUBLE_EQ(kernel.limit_ns, moving) << kernel.name;
    }
  }
  EXPECT_TRUE(product && elements);
  EXPECT_NEAR(result.ns(), ns, 1e-6 * ns);
  EXPECT_NEAR(result.share(), limit_ns / ns, 1e-9);
}

TEST(StepProfile, OfTablesTheRowsCountThatAreReadAndWritten) {
  constexpr int64_t kRows = 50'000, kWidth = 8, kRead = 64;
  nn::Embedding table(kRows, kWidth, {.sparse = true});
  optim::Adam optimizer;
  auto step = capture([&](const Tensor& indices) {
    const Tensor loss = mean(square(table(indices)));
    optimizer.minimize(loss, table.parameters());
  });
  const Tensor indices = full({kRead}, 7, DType::kI64);
  step(indices);
  int rows_alone = 0;
  for (const ProfiledKernel& kernel : profile(step, kQuick).kernels) {
    EXPECT_LT(kernel.bytes, kRows * kWidth) << kernel.name;
    const double row = kWidth * sizeof(float), index = sizeof(int64_t);
    if (kernel.op == "gather") {
      EXPECT_EQ(kernel.bytes, kRead * (2 * row + index));
    } else if (kernel.op == "update_rows") {
      EXPECT_EQ(kernel.bytes, kRead * (7 * row + index)) << "parameter and two states, there and back";
    }
    rows_alone += kernel.op == "gather" || kernel.op == "update_rows" ? 1 : 0;
  }
  EXPECT_EQ(rows_alone, 2);
}

TEST(StepProfile, HalfProductsAreHeldAgainstHalfProducts) {
  ProfiledTraining training(Precision::kMixedBf16);
  training.losses(1);
  const StepProfile result = profile(training.step, kQuick);
  EXPECT_GT(result.limits.half_flops_per_ns, 0);
  int half = 0;
  for (const ProfiledKernel& kernel : result.kernels) {
    if (!kernel.half) continue;
    ++half;
    EXPECT_DOUBLE_EQ(kernel.limit_ns, kernel.flops / result.limits.half_flops_per_ns +
                                          kernel.bytes / result.limits.bytes_per_ns);
  }
  EXPECT_GT(half, 2);
  EXPECT_THAT(result.text(), HasSubstr("(16-bit matrix product)"));
}

TEST(StepProfile, ItsTextHasAsManyKernelsAsAskedFor) {
  StepProfile result;
  result.limits = {.flops_per_ns = 100, .bytes_per_ns = 10};
  for (const char* name : {"first_1", "second_2", "third_3"}) {
    ProfiledKernel& kernel = result.kernels.emplace_back();
    kernel.name = name;
    kernel.op = "matmul";
    kernel.ns = 2000;
    kernel.limit_ns = 1000;
  }
  EXPECT_THAT(result.text(), HasSubstr("third_3"));
  const std::string two = result.text(2);
  EXPECT_THAT(two, HasSubstr("second_2"));
  EXPECT_THAT(two, ::testing::Not(HasSubstr("third_3")));
  EXPECT_THAT(two, HasSubstr("and 1 further kernel,"));
  EXPECT_THAT(two, HasSubstr("the limits account for 0.50 of the time"));
  EXPECT_EQ(StepProfile().share(), 0);
}

TEST(StepProfile, WrongCallsAreErrors) {
  ProfiledTraining training;
  EXPECT_ERROR(profile(training.step), ErrorCode::kInvalidArgument, "");
  training.losses(1);
  EXPECT_ERROR(profile(training.step, {.rounds = 0}), ErrorCode::kInvalidArgument, "rounds");
  auto outer = capture([&](const Tensor& a) {
    profile(training.step);
    return a;
  });
  EXPECT_ERROR(outer(ones({1})), ErrorCode::kCaptureViolation, "between its calls");
}

/// Two products of the same factors and their sum. The products may run side by side if `concurrent`,
/// otherwise in order.
Captured<std::function<Tensor(const Tensor&)>> two_products(bool concurrent, bool tf32 = false) {
  CaptureOptions options;
  options.plan = {.device = SimulatedGpu::kDevice, .concurrent = concurrent};
  options.passes.precision = tf32 ? Precision::kTf32 : Precision::kF32;
  return {[](const Tensor& x) { return matmul(x, x) + matmul(x, x, true, false); }, options};
}

constexpr double kInstant = 1e30;

TEST(StepPrediction, IsTheLongestPathOfLaunchesWhereWorkTakesNoTime) {
  const TrainingGpu simulated;
  const DataSheet sheet{"fast", "A fast device", kInstant, kInstant, kInstant, kInstant};
  for (const bool concurrent : {true, false}) {
    auto step = two_products(concurrent);
    step(ones({8, 8}));
    const graph::PlanReport& report = step.plan_report();
    const StepPrediction found = predict(step, sheet);
    EXPECT_NEAR(found.launches,
                static_cast<double>(report.longest_chain) * report.device_nodes /
                    static_cast<double>(report.instructions),
                1e-9);
    EXPECT_NEAR(found.ns, found.launches * kNodeNs, 1e-6);
    EXPECT_LT(found.work_ns, 1e-9);
  }
}

TEST(StepPrediction, TakesTheRateOfThePrecision) {
  const TrainingGpu simulated;
  const DataSheet sheet{"slow", "A slow device", 1e-3, 1e-2, 1e-1, kInstant};
  for (const bool tf32 : {false, true}) {
    auto step = two_products(false, tf32);
    step(ones({8, 8}));
    const double ns = 2 * 2 * 8 * 8 * 8 / (tf32 ? sheet.tf32_flops_per_ns : sheet.flops_per_ns);
    const StepPrediction found = predict(step, sheet);
    EXPECT_NEAR(found.work_ns, ns, 0.2 * ns) << "the sum adds little";
    EXPECT_NEAR(found.path_ns, found.work_ns + found.launches * kNodeNs, 1e-6 * found.path_ns);
  }
}

TEST(StepPrediction, BytesGoAtTheBandwidth) {
  const TrainingGpu simulated;
  auto step = two_products(false);
  step(ones({8, 8}));
  const DataSheet sheet{"thin", "A device of little bandwidth", kInstant, kInstant, kInstant, 1e-3};
  double bytes = 0;
  for (size_t i = 0; i < step.plan().instruction_count(); ++i) bytes += step.plan().instruction(i).bytes;
  const StepPrediction found = predict(step, sheet);
  EXPECT_NEAR(found.work_ns, bytes / sheet.bytes_per_ns, 1e-6 * found.work_ns);
  EXPECT_THAT(found.text(), HasSubstr("A device of little bandwidth"));
}

TEST(StepPrediction, IsOfPlansForADevice) {
  ProfiledTraining training;
  EXPECT_ERROR(predict(training.step, data_sheets()[0]), ErrorCode::kInvalidArgument, "");
  training.losses(1);
  EXPECT_ERROR(predict(training.step, data_sheets()[0]), ErrorCode::kUnsupported, "planned for the CPU");
}

}  // namespace
}  // namespace isochron::train
