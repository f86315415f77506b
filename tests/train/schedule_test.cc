// The schedule in the step: the same numbers on the host and in ops, and the updates that follow from them.
#include "isochron/train/schedule.h"

#include <gmock/gmock.h>

#include "isochron/data/dataset.h"
#include "isochron/nn/layers.h"
#include "isochron/ops/creation.h"
#include "isochron/ops/elementwise.h"
#include "isochron/ops/reduction.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/trainer.h"
#include "support/expect_error.h"

namespace isochron::train {
namespace {

constexpr WarmupCosine kSchedule{.peak = 0.2, .warmup_steps = 4, .total_steps = 12, .final_share = 0.1};

TEST(WarmupCosine, RisesToThePeakAndFallsToItsShare) {
  EXPECT_DOUBLE_EQ(kSchedule.rate(0), 0.05);
  EXPECT_DOUBLE_EQ(kSchedule.rate(3), 0.2);
  EXPECT_DOUBLE_EQ(kSchedule.rate(4), 0.2);
  EXPECT_DOUBLE_EQ(kSchedule.rate(8), 0.2 * 0.55) << "half of the cosine";
  EXPECT_NEAR(kSchedule.rate(12), 0.02, 1e-15);
  EXPECT_NEAR(kSchedule.rate(1000), 0.02, 1e-15);
}

TEST(WarmupCosine, IsTheSameInOps) {
  for (int64_t step = 0; step < 16; ++step) {
    EXPECT_NEAR(kSchedule.rate(full({}, static_cast<double>(step), DType::kI64)).item<double>(),
                kSchedule.rate(step), 1e-12);
  }
}

TEST(Scheduled, EveryStepUsesItsOwnRate) {
  // d loss / d w = 1, so plain descent takes the learning rate itself from w in each step.
  const Variable w(zeros({1}), "w");
  optim::Sgd optimizer({.learning_rate = 123});
  BatchFunctions functions{.train = [&](const data::Element& batch) {
    const Tensor loss = sum(w.tensor() * batch[0]);
    optimizer.minimize(loss, std::vector<Variable>{w});
    return loss;
  }};
  Trainer trainer(scheduled(std::move(functions), optimizer, kSchedule));
  EXPECT_DOUBLE_EQ(optimizer.learning_rate(), kSchedule.rate(0));
  auto rows = data::from_tensor_slices(ones({12, 1})).batch(1);
  double expected = 0;
  for (int64_t step = 0; step < 12; ++step) {
    trainer.fit(rows, {.steps_per_epoch = 1, .progress = nullptr});
    expected -= kSchedule.rate(step);
    EXPECT_NEAR(w.tensor().to_vector()[0], expected, 1e-6) << step;
  }
}

TEST(Scheduled, RejectsOptionsOutOfRange) {
  optim::Sgd optimizer;
  EXPECT_ERROR(scheduled({}, optimizer, {.peak = 0}), ErrorCode::kInvalidArgument, "peak");
  EXPECT_ERROR(scheduled({}, optimizer, {.final_share = 2}), ErrorCode::kInvalidArgument, "final_share");
  EXPECT_ERROR(scheduled({}, optimizer, {.warmup_steps = 3, .total_steps = 3}), ErrorCode::kInvalidArgument,
               "warmup_steps");
}

}  // namespace
}  // namespace isochron::train
