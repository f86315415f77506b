// Accumulation of micro-batches in the fit loop: the end of an epoch, classes of steps, no allocation.
#include <gtest/gtest.h>

#include "isochron/apps/allocation_counter.h"
#include "isochron/core/rng.h"
#include "isochron/nn/layers.h"
#include "isochron/nn/sequential.h"
#include "isochron/ops/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/trainer.h"

namespace isochron::train {
namespace {

constexpr int64_t kRows = 50;

/// y = 2 a - b + 0.5 for x = (a, b), in order.
struct Fixture {
  explicit Fixture(const optim::StepOptions& step)
      : optimizer({.learning_rate = optim::warmup(3, optim::cosine(0.1, 40)), .step = step}) {
    model(zeros({1, 2}));  // draws the weights
  }

  static data::TupleDataset<2> batches(int64_t batch) {
    Rng rng(7);
    std::vector<double> x, y;
    for (int64_t row = 0; row < kRows; ++row) {
      const double a = rng.uniform() - 0.5, b = rng.uniform() - 0.5;
      x.insert(x.end(), {a, b});
      y.push_back(2 * a - b + 0.5);
    }
    return data::from_tensor_slices(from_vector({kRows, 2}, x), from_vector({kRows, 1}, y)).batch(batch);
  }
  std::vector<double> weights() { return model.parameters()[0].tensor().to_vector(); }

  int set_seed = (nn::set_initializer_seed(3), 0);
  nn::Sequential model{nn::Dense(1)};
  optim::Adam optimizer;
  Trainer trainer{model, nn::mean_squared_error, optimizer};
};

TEST(TrainerAccumulation, TheLastGroupOfAnEpochIsUpdatedWithWhatItHolds) {
  Fixture small({.accumulate = 3});  // 16, 16, 16; 2
  Fixture large({});                 // 48; 2
  auto small_batches = Fixture::batches(16);
  auto large_batches = Fixture::batches(48);
  for (int epoch = 1; epoch <= 10; ++epoch) {
    const History a = small.trainer.fit(small_batches, {.progress = nullptr});
    const History b = large.trainer.fit(large_batches, {.progress = nullptr});
    EXPECT_EQ(small.optimizer.step_count(), 2 * epoch);
    EXPECT_EQ(small.optimizer.phase(), 0);
    EXPECT_NEAR(a.epochs[0].results["loss"], b.epochs[0].results["loss"], 1e-5);
  }
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(small.weights()[i], large.weights()[i], 1e-5);
  EXPECT_EQ(small.trainer.step().traces().size(), 2u) << "one for each batch size";
}

TEST(TrainerAccumulation, StepsThatUpdateAreAClassOfTheirOwn) {
  Fixture fixture({.accumulate = 3});
  auto batches = Fixture::batches(16);
  observe::Recorder recorder({.classes = 3});
  fixture.trainer.fit(batches, {.epochs = 4, .recorder = &recorder, .progress = nullptr});
  EXPECT_EQ(recorder.classes(), (std::vector<int>{0, 1, 2}));
}

TEST(TrainerAccumulation, AStepAllocatesNothing) {
  if (!allocations_counted()) GTEST_SKIP() << "a sanitizer has its own allocator";
  Fixture fixture({.accumulate = 2,
                   .loss_scale = optim::LossScale::dynamic(),
                   .clip = {.global_norm = 1},
                   .noise = {.eta = 0.01},
                   .average_decay = 0.9});
  auto batches = Fixture::batches(16).prefetch();
  observe::Recorder recorder({.heap_allocations = heap_allocations});
  fixture.trainer.fit(batches, {.epochs = 5, .recorder = &recorder, .progress = nullptr});
  EXPECT_EQ(recorder.totals().iterations, 4 * 4);
  EXPECT_EQ(recorder.totals().heap_allocations, 0);
  EXPECT_EQ(fixture.optimizer.step_count(), 5 * 2);
}

}  // namespace
}  // namespace isochron::train
