// Captured steps after a change of what is trained, of the training mode, or of the schedule.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/normalization.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

using ::testing::HasSubstr;

struct TrainingSettings : ::testing::Test {
  const Tensor x = random_normal({8, 3});
  const Tensor y = random_normal({8, 2});
};

std::vector<double> content(const Variable& variable) { return variable.tensor().to_vector(); }

TEST_F(TrainingSettings, FreezingStopsACapturedStepFromUpdating) {
  Sequential model(Dense(4, Activation::kTanh), Dense(2));
  optim::Adam adam;
  auto step = capture([&](const Tensor& inputs, const Tensor& targets) {
    const Tensor loss = mean_squared_error(model(inputs), targets);
    adam.minimize(loss, model.parameters());
    return loss;
  });
  step(x, y);
  model[0].set_trainable(false);
  const std::vector<double> frozen = content(model[0].parameters()[0]);
  const std::vector<double> head = content(model[1].parameters()[0]);
  step(x, y);
  EXPECT_EQ(content(model[0].parameters()[0]), frozen);
  EXPECT_NE(content(model[1].parameters()[0]), head);
  EXPECT_THAT(step.traces()[1].changed, HasSubstr("whether 'dense/kernel' is trainable"));
  model[0].set_trainable(true);
  step(x, y);
  EXPECT_NE(content(model[0].parameters()[0]), frozen);
  EXPECT_EQ(step.plan_count(), 3u) << "in the first, all parameters have the same number of updates";
  for (const bool trainable : {false, true}) {
    model[0].set_trainable(trainable);
    step(x, y);
  }
  EXPECT_EQ(step.plan_count(), 3u) << "the newest plans serve again";
}

TEST_F(TrainingSettings, UnfreezingWhatTheOptimizerNeverHadIsAnError) {
  Sequential model(Dense(4), Dense(2));
  model(x);
  model[0].set_trainable(false);
  optim::Adam adam;
  auto step = capture([&](const Tensor& inputs, const Tensor& targets) {
    adam.minimize(mean_squared_error(model(inputs), targets), model.parameters());
  });
  step(x, y);
  model[0].set_trainable(true);
  EXPECT_ERROR(
      step(x, y), ErrorCode::kInvalidArgument,
      "parameter 'dense/kernel' was not among the 2 that the first step updated: it was left out then, or "
      "frozen");
}

TEST_F(TrainingSettings, AFrozenBatchNormUsesItsAveragesInACapturedStep) {
  BatchNorm norm;
  auto forward = capture([&](const Tensor& inputs) { return norm(inputs); });
  const std::vector<double> of_batch = forward(x).to_vector();
  norm.set_trainable(false);
  const std::vector<double> averages = content(norm.buffers()[0]);
  EXPECT_NE(forward(x).to_vector(), of_batch);
  EXPECT_EQ(content(norm.buffers()[0]), averages);
}

TEST_F(TrainingSettings, TheModeAtTheCallDecides) {
  Dropout dropout(0.5);
  auto forward = capture([&](const Tensor& inputs) { return dropout(inputs); });
  const Tensor many = ones({1000});
  const auto dropped = [&] { return min(forward(many)).item<double>() == 0; };
  EXPECT_TRUE(dropped());
  {
    const TrainingScope evaluation(false);
    EXPECT_FALSE(dropped());
    {
      const TrainingScope training_again(true);
      EXPECT_TRUE(dropped());
    }
    EXPECT_FALSE(dropped());
  }
  EXPECT_TRUE(dropped());
  EXPECT_EQ(forward.plan_count(), 2u);
}

TEST_F(TrainingSettings, AModeThatTheStepItselfSetsHoldsForBoth) {
  Dropout dropout(0.5);
  auto inference = capture([&](const Tensor& inputs) {
    const TrainingScope evaluation(false);
    return dropout(inputs);
  });
  auto both = capture([&](const Tensor& inputs) {  // a teacher in inference mode, then its student
    Tensor teacher;
    {
      const TrainingScope evaluation(false);
      teacher = dropout(inputs);
    }
    return std::pair(teacher, dropout(inputs));
  });
  const Tensor many = ones({1000});
  const auto smallest = [&] {
    const auto [teacher, student] = both(many);
    return std::pair(min(teacher).item<double>(), min(student).item<double>());
  };
  EXPECT_EQ(min(inference(many)).item<double>(), 1);
  EXPECT_EQ(smallest().first, 1);
  EXPECT_EQ(smallest().second, 0);
  const TrainingScope evaluation(false);
  EXPECT_EQ(min(inference(many)).item<double>(), 1);
  EXPECT_EQ(inference.plan_count(), 1u);
  EXPECT_EQ(smallest().second, 1);
}

TEST_F(TrainingSettings, ANewScheduleTakesEffectInACapturedStep) {
  const Variable p(zeros({1}, DType::kF64), "p");
  optim::Sgd sgd({.learning_rate = 1});
  auto step = capture([&](const Tensor& g) { sgd.apply(std::vector{p}, std::vector{g}); });
  const Tensor one = ones({1}, DType::kF64);
  step(one);
  sgd.set_schedule(optim::Schedule([](const Tensor& steps) { return cast(steps, DType::kF64) * 2.0; }));
  step(one);  // learning rate 2
  EXPECT_EQ(content(p)[0], -3);
  step(one);  // 4
  EXPECT_EQ(content(p)[0], -7);
}

TEST_F(TrainingSettings, AStepUnderAveragedWeightsIsRefused) {
  const Variable p(zeros({1}, DType::kF64), "p");
  optim::Sgd sgd({.learning_rate = 1, .step = {.ema_decay = 0.75}});
  const std::vector<Variable> parameters = {p};
  auto step = capture([&](const Tensor& g) { sgd.apply(parameters, std::vector{g}); });
  const Tensor one = ones({1}, DType::kF64);
  step(one);
  step(one);
  {
    const optim::AveragedWeights averages(sgd);
    EXPECT_ERROR(step(one), ErrorCode::kInvalidArgument, "a step can't run while AveragedWeights");
    EXPECT_ERROR(sgd.apply(parameters, std::vector{one}), ErrorCode::kInvalidArgument,
                 "a step can't run while AveragedWeights");
    EXPECT_EQ(content(p)[0], -1.25);
  }
  step(one);
  EXPECT_EQ(content(p)[0], -3);
  EXPECT_EQ(step.plan_count(), 1u);
}

}  // namespace
}  // namespace isochron::nn
