// Loss scaling inside the captured step, against torch.amp.GradScaler (tests/golden/README.md).
#include <gtest/gtest.h>

#include <cmath>

#include "isochron/data/formats/npy.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"

namespace isochron::optim {
namespace {

const float kInfinity = INFINITY;

class GoldenScale : public testing::TestWithParam<std::string> {};

TEST_P(GoldenScale, FollowsGradScaler) {
  static const data::NpzFile file =
      data::read_npz(std::string(ISOCHRON_SOURCE_DIR) + "/tests/golden/loss_scale_torch.npz");
  const std::vector<double> scales = file.at(GetParam() + ".scales").to_vector();
  const std::vector<double> overflows = file.at(GetParam() + ".overflows").to_vector();
  const std::vector<double> settings = file.at(GetParam() + ".settings").to_vector();
  const Variable p(zeros({1}), "p");
  Sgd sgd({.learning_rate = 1,
           .step = {.loss_scale = {.initial = settings[0],
                                   .growth_interval = static_cast<int64_t>(settings[1])}}});
  auto step = capture([&](const Tensor& x) { sgd.minimize(sum(p.tensor() * x), std::vector{p}); });
  for (size_t i = 0; i < scales.size(); ++i) {
    ASSERT_EQ(sgd.loss_scale(), scales[i]) << i;
    step(full({1}, overflows[i] == 0 ? 1.0 / 1024 : (i % 2 ? kInfinity : NAN)));
  }
  EXPECT_EQ(static_cast<double>(sgd.step_count()), settings[2]);
  EXPECT_EQ(static_cast<double>(sgd.step_count() + sgd.skipped_steps()), static_cast<double>(scales.size()));
  EXPECT_EQ(p.tensor().item<double>(), settings[3]);
  EXPECT_EQ(step.traces().size(), 1u) << "no new capture";
}

INSTANTIATE_TEST_SUITE_P(All, GoldenScale, testing::Values("frequent", "usual"));

TEST(LossScale, AnOverflowLeavesParametersStatesAndScheduleAlone) {
  const Variable p(ones({3}), "p");
  Adam adam({.learning_rate = exponential(0.1, 1, 0.5),
             .step = {.loss_scale = LossScale::dynamic(), .ema_decay = 0.5}});
  auto step = capture([&](const Tensor& x) { adam.minimize(sum(square(p.tensor() * x)), std::vector{p}); });
  step(ones({3}));
  const auto contents = [&] {
    std::vector<std::vector<double>> result = {p.tensor().to_vector()};
    for (const Variable& variable : adam.state()) {
      const std::string& name = variable.name();
      if (name != "loss_scale" && name != "clean_updates" && name != "skipped_steps")
        result.push_back(variable.tensor().to_vector());
    }
    return result;
  };
  const auto before = contents();
  step(full({3}, 1e30));
  EXPECT_EQ(contents(), before);
  EXPECT_EQ(adam.skipped_steps(), 1);
  EXPECT_EQ(adam.loss_scale(), 16384);
  step(ones({3}));
  EXPECT_EQ(adam.step_count(), 2);
  EXPECT_EQ(adam.learning_rate(), 0.025);
}

TEST(LossScale, AFixedOneStays) {
  const Variable p(zeros({1}), "p");
  Sgd sgd({.learning_rate = 1, .step = {.loss_scale = LossScale::fixed(1024)}});
  auto step = capture([&](const Tensor& x) {
    sgd.minimize(sum(p.tensor() * x), std::vector{p});
    return sgd.scaled(sum(x));
  });
  EXPECT_EQ(step(full({1}, 2)).item<float>(), 2048);
  step(full({1}, kInfinity));
  step(full({1}, 3));
  EXPECT_EQ(p.tensor().item<double>(), -5);
  EXPECT_EQ(sgd.loss_scale(), 1024);
  EXPECT_EQ(sgd.skipped_steps(), 1);
}

/// Steps on x in turn with the parameters (4) after each.
std::vector<std::vector<double>> trajectory(const StepOptions& options, const std::vector<double>& xs) {
  const Variable p(from_vector({4}, {1, -2, 0.5, 3}), "p");
  Sgd sgd({.learning_rate = 0.1, .momentum = 0.9, .step = options});
  auto step =
      capture([&](const Tensor& x) { sgd.minimize(mean(square(p.tensor() * x)), std::vector{p}, 3); });
  std::vector<std::vector<double>> result;
  for (const double x : xs) {
    step(full({}, x));
    result.push_back(p.tensor().to_vector());
  }
  return result;
}

TEST(LossScale, APowerOfTwoChangesNoBit) {
  const std::vector<double> xs = {1, 0.5, 2, 1.5, 1, 3};
  for (const int64_t accumulate : {1, 2}) {
    for (const Clipping& clip : {Clipping{}, {.value = 0.3}, {.norm = 0.5}, {.global_norm = 0.5}}) {
      StepOptions options{.accumulate = accumulate, .clip = clip};
      const auto plain = trajectory(options, xs);
      options.loss_scale = LossScale::dynamic();
      EXPECT_EQ(trajectory(options, xs), plain);
    }
  }
}

TEST(LossScale, AnOverflowInOneMicroBatchSkipsItsGroupAlone) {
  const StepOptions options{.accumulate = 2, .loss_scale = LossScale::dynamic()};
  const auto with = trajectory(options, {1, 0.5, 1, 1e25, 2, 1.5});
  const auto without = trajectory(options, {1, 0.5, 2, 1.5});
  EXPECT_EQ(with[3], with[1]);
  EXPECT_EQ(with[5], without[3]) << "the next group starts from nothing";
}

TEST(LossScale, GrowsNoFurtherThanGradientsStayNormalNumbers) {
  for (const int accumulate : {1, 2}) {
    const Variable p(zeros({1}), "p");
    Sgd sgd({.learning_rate = 1,
             .step = {.accumulate = accumulate,
                      .loss_scale = {.initial = 0x1p62, .growth_interval = 1},
                      .clip = {.global_norm = 0.25}}});
    auto step = capture([&](const Tensor& x) { sgd.minimize(sum(p.tensor() * x), std::vector{p}, 1024.0); });
    for (int i = 0; i < 200 * accumulate; ++i) step(full({1}, 0.5));
    EXPECT_EQ(sgd.loss_scale(), 0x1p64);
    EXPECT_EQ(p.tensor().item<double>(), -50);
  }
}

TEST(LossScale, FallsNoFurtherThanItsMinimum) {
  for (const double minimum : {1.0, 0.5, 0x1p-126}) {
    const Variable p(zeros({1}), "p");
    Sgd sgd({.learning_rate = 1,
             .step = {.loss_scale = {.initial = minimum * 4, .growth_interval = 2, .minimum = minimum}}});
    auto step = capture([&](const Tensor& x) { sgd.minimize(sum(p.tensor() * x), std::vector{p}); });
    for (int i = 0; i < 200; ++i) step(full({1}, kInfinity));
    EXPECT_EQ(sgd.loss_scale(), minimum);
    EXPECT_EQ(sgd.skipped_steps(), 200);
    step(full({1}, 1));
    step(full({1}, 1));
    EXPECT_EQ(sgd.loss_scale(), 2 * minimum) << "and grows again";
    EXPECT_EQ(p.tensor().item<double>(), -2);
  }
}

TEST(LossScale, RejectsWrongOptions) {
  EXPECT_ERROR(Optimizer(Sgd({.step = {.loss_scale = LossScale::fixed(1e-46)}})), ErrorCode::kInvalidArgument,
               "a loss scale must be 0 or lie in [2^-126, 2^126]");
  EXPECT_ERROR(Optimizer(AdamW({.weight_decay = {.rate = 1e39}})), ErrorCode::kInvalidArgument,
               "weight decay");
  EXPECT_ERROR(Sgd({.step = {.loss_scale = {.initial = 2, .growth_interval = 1, .minimum = 0}}}),
               ErrorCode::kInvalidArgument, "minimum");
  EXPECT_ERROR(Sgd({.step = {.loss_scale = {.initial = 2, .growth_interval = 1, .minimum = 4}}}),
               ErrorCode::kInvalidArgument, "minimum");
  EXPECT_ERROR(Sgd({.step = {.loss_scale = {.initial = -1}}}), ErrorCode::kInvalidArgument, "loss scale");
  EXPECT_ERROR(Sgd({.step = {.loss_scale = {.initial = 1, .growth_factor = 1}}}), ErrorCode::kInvalidArgument,
               "growth_factor");
  EXPECT_ERROR(Sgd({.step = {.loss_scale = {.initial = 1, .backoff_factor = 1}}}),
               ErrorCode::kInvalidArgument, "backoff_factor");
}

}  // namespace
}  // namespace isochron::optim
