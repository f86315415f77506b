// Threads that train at the same time, each with a seed of its own.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "isochron/backends/common/choices.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::train {
namespace {

/// The losses of a fit with dropout, from new weights and in a new order.
std::vector<double> losses() {
  nn::Sequential model(nn::Dense(16, nn::Activation::kRelu), nn::Dropout(0.3), nn::Dense(1));
  optim::Adam optimizer({.learning_rate = 0.01});
  std::vector<double> numbers(40 * 3);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i % 7) - 3;
  auto batches =
      data::from_tensor_slices(from_vector({40, 3}, numbers), full({40, 1}, 2.0)).shuffle(40).batch(8);
  Trainer trainer{model, nn::mean_squared_error, optimizer};
  return trainer.fit(batches, {.epochs = 20, .progress = nullptr}).values("loss");
}

std::vector<double> losses_of(uint64_t seed) {
  random::set_seed(seed);
  return losses();
}

TEST(ThreadSeeds, ThreadsTrainAsIfAlone) {
  ops::set_deterministic(true);
  constexpr uint64_t kThreads = 4;
  std::vector<std::vector<double>> alone, together(kThreads);
  for (uint64_t seed = 0; seed < kThreads; ++seed) alone.push_back(losses_of(seed));
  EXPECT_NE(alone[0], alone[1]);
  {
    std::vector<std::jthread> threads;
    for (uint64_t seed = 0; seed < kThreads; ++seed)
      threads.emplace_back([&together, seed] { together[seed] = losses_of(seed); });
  }
  EXPECT_EQ(together, alone);
  ops::set_deterministic(false);
}

TEST(ThreadSeeds, AThreadKeepsItsSeedWhenAnotherSetsOne) {
  ops::set_deterministic(true);
  const std::vector<double> alone = losses_of(3);
  std::vector<double> beside;
  std::thread([&beside] {
    random::set_seed(3);
    std::thread([] { random::set_seed(4); }).join();
    beside = losses();
  }).join();
  EXPECT_EQ(beside, alone);
  ops::set_deterministic(false);
}

TEST(ThreadSeeds, ThreadsWithoutOneDrawDifferentNumbers) {
  random::set_seed(5);
  const std::vector<double> here = random_uniform({8}).to_vector();
  std::vector<double> first, second;
  std::thread([&] { first = random_uniform({8}).to_vector(); }).join();
  std::thread([&] { second = random_uniform({8}).to_vector(); }).join();
  EXPECT_NE(first, here);
  EXPECT_NE(first, second);
  random::set_seed(0);
}

}  // namespace
}  // namespace isochron::train
