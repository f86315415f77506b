// Accumulation of micro-batches in the fit loop: the end of an epoch, classes of steps, no allocation.
#include <gmock/gmock.h>

#include "isochron/apps/allocation_counter.h"
#include "isochron/core/base/rng.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/loop/trainer.h"
#include "support/expect_error.h"
#include "support/notices.h"

namespace isochron::train {
namespace {

constexpr int64_t kAllRows = 50;

/// y = 2 a - b + 0.5 for x = (a, b), in order.
struct Accumulation {
  explicit Accumulation(const optim::StepOptions& step)
      : optimizer({.learning_rate = optim::warmup(3, optim::cosine(0.1, 40)), .step = step}) {
    model(zeros({1, 2}));  // draws the weights
  }

  static data::TupleDataset<2> batches(int64_t batch) {
    Rng rng(7);
    std::vector<double> x, y;
    for (int64_t row = 0; row < kAllRows; ++row) {
      const double a = rng.uniform() - 0.5, b = rng.uniform() - 0.5;
      x.insert(x.end(), {a, b});
      y.push_back(2 * a - b + 0.5);
    }
    return data::from_tensor_slices(from_vector({kAllRows, 2}, x), from_vector({kAllRows, 1}, y))
        .batch(batch);
  }
  std::vector<double> weights() { return model.parameters()[0].tensor().to_vector(); }

  int set_seed = (nn::set_initializer_seed(3), 0);
  nn::Sequential model{nn::Dense(1)};
  optim::Adam optimizer;
  Trainer trainer{model, nn::mean_squared_error, optimizer};
};

TEST(TrainerAccumulation, TheLastGroupOfAnEpochIsUpdatedWithWhatItHolds) {
  Accumulation small({.accumulate = 3});  // 16, 16, 16; 2
  Accumulation large({});                 // 48; 2
  auto small_batches = Accumulation::batches(16);
  auto large_batches = Accumulation::batches(48);
  for (int epoch = 1; epoch <= 10; ++epoch) {
    const History a = small.trainer.fit(small_batches, {.progress = nullptr});
    const History b = large.trainer.fit(large_batches, {.progress = nullptr});
    EXPECT_EQ(small.optimizer.step_count(), 2 * epoch);
    EXPECT_EQ(small.optimizer.phase(), 0);
    EXPECT_NEAR(a.epochs()[0].results["loss"], b.epochs()[0].results["loss"], 1e-5);
  }
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(small.weights()[i], large.weights()[i], 1e-5);
  EXPECT_EQ(small.trainer.step().traces().size(), 2u) << "one for each batch size";
}

TEST(TrainerAccumulation, AFitForgetsTheUpdateThatAFailedOneBegan) {
  const auto weights_after = [](double x_of_failed) {
    Accumulation fixture({.accumulate = 2});
    auto failing = data::from_tensor_slices(full({4, 2}, x_of_failed), ones({4, 1}))
                       .batch(2)
                       .map([calls = 0](const Tensor& x, const Tensor& y) mutable {
                         if (++calls == 3) throw std::runtime_error("gone");  // the first infers the result
                         return std::array{x, y};
                       });
    EXPECT_ERROR(fixture.trainer.fit(failing, {.progress = nullptr}), ErrorCode::kInvalidArgument, "gone");
    EXPECT_EQ(fixture.optimizer.phase(), 1);
    auto batches = Accumulation::batches(16);
    fixture.trainer.fit(batches, {.progress = nullptr});
    return fixture.weights();
  };
  EXPECT_EQ(weights_after(0.5), weights_after(50));
  // Nor is a flush left that the failed one asked for.
  Accumulation fixture({.accumulate = 2});
  fixture.optimizer.flush_next();
  auto batches = Accumulation::batches(16);
  fixture.trainer.fit(batches, {.progress = nullptr});
  EXPECT_EQ(fixture.optimizer.step_count(), 2);
}

TEST(TrainerAccumulation, StepsThatUpdateAreAClassOfTheirOwn) {
  Accumulation fixture({.accumulate = 3});
  auto batches = Accumulation::batches(16);
  observe::Recorder recorder({.classes = 3});
  fixture.trainer.fit(batches, {.epochs = 4, .recorder = &recorder, .progress = nullptr});
  EXPECT_EQ(recorder.classes(), (std::vector<int>{0, 1, 2}));
}

TEST(TrainerAccumulation, CallsOfSeveralStepsAreOfOneClassEach) {
  const auto classes = [](int64_t steps_per_call, int64_t accumulate, int64_t batch) {
    Accumulation fixture({.accumulate = accumulate});
    auto batches = Accumulation::batches(batch);
    observe::Recorder recorder({.classes = 3});
    fixture.trainer.fit(
        batches, {.epochs = 4, .steps_per_call = steps_per_call, .recorder = &recorder, .progress = nullptr});
    return recorder.classes();
  };
  EXPECT_EQ(classes(2, 1, 5), (std::vector<int>{0})) << "10 full batches";
  EXPECT_EQ(classes(2, 1, 16), (std::vector<int>{0, 1})) << "the partial batch is the second of its call";
  EXPECT_EQ(classes(4, 1, 5), (std::vector<int>{0, 1})) << "4, 4, 2";
  EXPECT_EQ(classes(2, 2, 5), (std::vector<int>{0})) << "each updates once, in its second step";
  EXPECT_EQ(classes(2, 4, 5), (std::vector<int>{0, 2})) << "the second of two updates, in its second step";
}

TEST(TrainerAccumulation, FindsTheOpBehindTheUpdateOfAnEpochsLastStep) {
  // The gradient of mean(log(w x)) is 1 / w, so w is 1, then 0.4, then, by the epoch's last step, negative.
  const Variable w(ones({1}), "w");
  optim::Sgd optimizer({.learning_rate = 0.6, .step = {.accumulate = 2}});
  Trainer trainer({.train =
                       [&](const data::Element& batch) {
                         const Tensor loss = mean(log(batch[0] * w.tensor()));
                         optimizer.minimize(loss, std::vector{w});
                         return loss;
                       },
                   .optimizer = &optimizer,
                   .weights =
                       [&] {
                         return NamedVariables{{"w", w}};
                       },
                   .slots = [&] { return slots_of(optimizer); }});
  auto batches = data::from_tensor_slices(ones({6})).batch(2);
  EXPECT_ERROR(trainer.fit(batches, {.epochs = 3, .report_every = 1, .progress = nullptr}),
               ErrorCode::kNotANumber, "the loss of step 1 of epoch 2 is NaN or infinite: first in [log]");
}

TEST(TrainerLossScale, AnOverflowIsNotTheOriginOfANumber) {
  // The scaled gradient, mean(x) x 2^126, overflows in the first steps; the fourth batch has a loss of
  // log(0).
  for (const int64_t accumulate : {1, 2}) {
    const Variable w(ones({1}), "w");
    optim::Sgd optimizer(
        {.learning_rate = 1e-3,
         .step = {.accumulate = accumulate, .loss_scale = {.initial = 0x1p126, .growth_interval = 1000}}});
    Trainer trainer({.train =
                         [&](const data::Element& batch) {
                           const Tensor loss = mean(log(batch[0] * w.tensor())) + mean(batch[0] * w.tensor());
                           optimizer.minimize(loss, std::vector{w});
                           return loss;
                         },
                     .optimizer = &optimizer,
                     .weights =
                         [&] {
                           return NamedVariables{{"w", w}};
                         },
                     .slots = [&] { return slots_of(optimizer); }});
    auto batches =
        data::from_tensor_slices(from_vector({10}, {9, 9, 9, 9, 9, 9, 0, 9, 9, 9}, DType::kF32)).batch(2);
    EXPECT_ERROR(trainer.fit(batches, {.progress = nullptr}), ErrorCode::kNotANumber,
                 "the loss of step 4 of epoch 1 is NaN or infinite: first in [log]");
    EXPECT_GT(optimizer.skipped_steps(), 0);
  }
}

TEST(TrainerLossScale, ResultsTellTheScaleAndTheSkippedSteps) {
  Accumulation fixture({.loss_scale = {.initial = 0x1p120, .growth_interval = 1000}});
  std::vector<double> targets(50, 0.0);
  targets[2] = 1e12;
  auto batches =
      data::from_tensor_slices(ones({50, 2}), from_vector({50, 1}, targets, DType::kF32)).batch(16);
  std::vector<std::string> names;
  LambdaCallback watch({.on_train_begin = [&](RunState& run) { names = run.names; }});
  const History history = fixture.trainer.fit(
      batches, {.epochs = 2, .validation_data = {}, .callbacks = {&watch}, .progress = nullptr});
  EXPECT_EQ(names, (std::vector<std::string>{"loss", "loss_scale", "skipped_steps"}));
  EXPECT_EQ(history.values("skipped_steps"), (std::vector<double>{1, 2}));
  EXPECT_EQ(history.values("loss_scale"), (std::vector<double>{0x1p119, 0x1p118}));
  EXPECT_NE(history.csv().find(",skipped_steps"), std::string::npos);
  EXPECT_EQ((Results{{"loss", 0.123456}, {"loss_scale", 32768}, {"skipped_steps", 2}}).str(),
            "loss 0.1235  loss_scale 32768  skipped_steps 2");
}

TEST(TrainerAccumulation, AStepAllocatesNothing) {
  if (!allocations_counted()) GTEST_SKIP() << "a sanitizer has its own allocator";
  Accumulation fixture({.accumulate = 2,
                        .loss_scale = optim::LossScale::dynamic(),
                        .clip = {.global_norm = 1},
                        .noise = {.eta = 0.01},
                        .ema_decay = 0.9});
  auto batches = Accumulation::batches(16).prefetch();
  observe::Recorder recorder({.heap_allocations = heap_allocations});
  fixture.trainer.fit(batches, {.epochs = 5, .recorder = &recorder, .progress = nullptr});
  EXPECT_EQ(recorder.totals().iterations, 4 * 4);
  EXPECT_EQ(recorder.totals().heap_allocations, 0);
  EXPECT_EQ(fixture.optimizer.step_count(), 5 * 2);
}

TEST(TrainerLossScale, SaysThatItSkipsEveryUpdate) {
  const Variable w(ones({1}), "w");
  optim::Sgd optimizer({.learning_rate = 0.1, .step = {.loss_scale = optim::LossScale::dynamic()}});
  const auto fit = [&](bool infinite, int epochs) {
    Trainer trainer({.train =
                         [&](const data::Element& batch) {
                           const Tensor x = batch[0] * w.tensor();
                           const Tensor loss = mean(x) + (infinite ? mean(sqrt(x * 0.0)) : mean(square(x)));
                           optimizer.minimize(loss, std::vector{w});
                           return loss;
                         },
                     .optimizer = &optimizer});
    const Notices notices;
    auto batches = data::from_tensor_slices(ones({6})).batch(1);
    trainer.fit(batches, {.epochs = epochs, .progress = nullptr});
    return notices.texts();
  };
  EXPECT_THAT(fit(true, 1), testing::IsEmpty()) << "it may still find its scale";
  EXPECT_THAT(fit(false, 3), testing::IsEmpty());
  const std::vector<std::string> told = fit(true, 5);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0],
              testing::HasSubstr("updates were skipped and none was made, because their gradients aren't "
                                 "finite, now at a loss scale of"));
}

TEST(TrainerNumerics, ANumberThatOnlyFusedKernelsGiveIsSaidToBeTheirs) {
  const Variable w(ones({1}), "w");
  optim::Sgd optimizer;
  for (const Precision precision : {Precision::kF32, Precision::kMixedBf16}) {
    int traces = 0;
    Trainer trainer({.train =
                         [&](const data::Element& batch) {
                           // In place of a fault of the library: the step that runs op by op is another one.
                           const double sign = traces++ == 0 ? -1 : 1;
                           const Tensor loss = mean(log(batch[0] * w.tensor() * sign));
                           optimizer.minimize(loss, std::vector{w});
                           return loss;
                         },
                     .optimizer = &optimizer,
                     .precision = precision,
                     .weights =
                         [&] {
                           return NamedVariables{{"w", w}};
                         },
                     .slots = [&] { return slots_of(optimizer); }});
    auto batches = data::from_tensor_slices(ones({4})).batch(2);
    EXPECT_ERROR(trainer.fit(batches, {.progress = nullptr}), ErrorCode::kNotANumber,
                 precision == Precision::kF32
                     ? "run op by op, the step is finite, so its fused kernels give that number"
                     : "kernels round in mixed_bf16; try f32");
    w.assign(ones({1}));
  }
}

}  // namespace
}  // namespace isochron::train
