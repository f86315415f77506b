// Moving averages of ranks that train together, and steps in which ranks exchange more than gradients.
#include <gtest/gtest.h>

#include "isochron/comm/transport/thread_communicator.h"
#include "isochron/data/stages/combine.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/normalization.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/loop/data_parallel.h"
#include "isochron/train/loop/trainer.h"
#include "support/expect_error.h"
#include "support/rank_threads.h"

namespace isochron::train {
namespace {

using Group = std::shared_ptr<comm::Group>;

data::TupleDataset<2> batches_of(int64_t rows, int64_t batch) {
  return data::from_tensor_slices(ones({rows, 2}), ones({rows, 1})).batch(batch);
}

TEST(RankAverages, BecomeTheMeanOfAllRanks) {
  run_ranks(3, [](const Group& group) {
    const double rank = group->rank();
    const Variable mean(from_vector({2}, {rank, 10 - rank * rank}), "mean", false);
    // 0.1 three times over, divided by 3, is another number in f64.
    const Variable equal(from_vector({1, 1}, {0.1}, DType::kF64), "equal", false);
    optim::Sgd optimizer({.step = {.group = group}});
    DataParallel parallel(optimizer, batches_of(6, 2).elements(), 0);
    const Variable averages[] = {mean, equal};
    parallel.merge_averages(averages);
    const double second = static_cast<float>(10 - 5.0 / 3);
    EXPECT_EQ(mean.tensor().to_vector(), (std::vector<double>{1, second}));
    EXPECT_EQ(equal.tensor().item<double>(), 0.1);
  });
}

/// The first of two ranks; the other one never takes part.
Group half_of_two(std::vector<std::unique_ptr<comm::Communicator>>& members) {
  return std::make_shared<comm::Group>([&] { return std::move(members[0]); });
}

TEST(DataParallelOfRanks, ForgetsAnEndThatAnEarlierFitWasAskedForTooLate) {
  auto members = comm::make_thread_group(2);
  const Group group = half_of_two(members);
  group->notes().request(true);
  optim::Sgd optimizer({.step = {.group = group}});
  const DataParallel parallel(optimizer, batches_of(6, 2).elements(), 0);
  std::vector<comm::RankNote> sent(2);
  group->notes().write(reinterpret_cast<std::byte*>(sent.data()), 0);
  EXPECT_EQ(sent[0].request, 0);
}

TEST(DataParallelOfRanks, TellMapsThePlacesThatOneProcessTells) {
  const auto make = [] {
    const data::Dataset told =
        data::from_tensor_slices({{"x", ones({7, 1})}})
            .map_with_position([](data::Element& element, const data::Position& position) {
              const double epoch = static_cast<double>(position.epoch);
              element =
                  data::Element{{"x", from_vector({2}, {epoch, static_cast<double>(position.element)})}};
            });
    return data::zip({{"x", told}}).shuffle(7, {.seed = 5}).batch(2);
  };
  using Batches = std::vector<std::vector<double>>;
  const auto some_of = [](data::Dataset::Iterator at, size_t most) {
    Batches result;
    for (; at != std::default_sentinel && result.size() < most; ++at) result.push_back((*at)[0].to_vector());
    return result;
  };
  Batches whole;
  for (data::Dataset batches = make(); whole.size() < 24;) {
    for (const auto& batch : some_of(batches.begin(), 24)) whole.push_back(batch);
  }
  run_ranks(2, [&](const Group& group) {
    optim::Sgd optimizer({.step = {.group = group}});
    Batches expected;
    for (size_t i = static_cast<size_t>(group->rank()); i < whole.size(); i += 2)
      expected.push_back(whole[i]);
    DataParallel parallel(optimizer, make(), 6);
    EXPECT_EQ(some_of(parallel.dataset().begin(), 12), expected);
    parallel.dataset().set_epoch(0);
    data::Dataset::Iterator at = parallel.dataset().begin();
    for (int i = 1; i < 5; ++i) ++at;
    DataParallel resumed(optimizer, make(), 6);
    EXPECT_EQ(some_of(resumed.dataset().resume(parallel.dataset().state()), 7),
              Batches(expected.begin() + 5, expected.end()));
  });
}

/// A weight after two fits in a row; each takes `steps` batches, or one pass if `steps` is 0.
std::vector<double> weights_after_two_fits(const Group& group, int accumulate, bool exact_sums,
                                           int64_t steps) {
  random::set_seed(1);  // each rank is a thread
  std::vector<double> numbers(24);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<double>(i * i % 17) / 17;
  auto batches = data::from_tensor_slices(from_vector({12, 2}, numbers), ones({12, 1}))
                     .shuffle(12, {.seed = 3})
                     .batch(2);
  nn::Dense model(1, nn::Activation::kNone, {.kernel_initializer = nn::init::zeros()});
  optim::Sgd optimizer(
      {.learning_rate = 0.3, .step = {.accumulate = accumulate, .group = group, .exact_sums = exact_sums}});
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  for (int fit = 0; fit < 2; ++fit) trainer.fit(batches, {.steps_per_epoch = steps, .progress = nullptr});
  return model.parameters()[0].tensor().to_vector();
}

TEST(DataParallelOfRanks, ASecondFitGoesOnWithTheData) {
  for (const int64_t steps : {0, 4, 8}) {
    SCOPED_TRACE(steps);
    const std::vector<double> expected = weights_after_two_fits(nullptr, 2, false, steps);
    const std::vector<double> exact = weights_after_two_fits(nullptr, 2, true, steps);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(exact[i], expected[i], 1e-6);
    run_ranks(2, [&](const Group& group) {
      const std::vector<double> got = weights_after_two_fits(group, 1, false, steps);
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-6);
    });
  }
}

TEST(RankAverages, AModelListsThoseOfItsNorms) {
  nn::Sequential model(nn::Dense(3), nn::BatchNorm());
  model.build({DType::kF32, {1, 2}});
  optim::Sgd optimizer;
  EXPECT_EQ(supervised(model, nn::mean_squared_error, optimizer).averages().size(), 2u);
}

TEST(RankAverages, ASynchronizedNormWantsAsManyBatchesOnAllRanks) {
  auto members = comm::make_thread_group(2);
  const Group group = half_of_two(members);
  nn::Sequential model(nn::BatchNorm({.synchronized = true, .group = group}), nn::Dense(1));
  optim::Sgd optimizer({.step = {.accumulate = 2, .group = group}});
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  auto uneven = batches_of(21, 3);
  EXPECT_ERROR(trainer.fit(uneven, {.progress = nullptr}), ErrorCode::kUnsupported,
               "all 2 ranks need the same number of batches, but the 7 batches of an epoch don't divide into "
               "updates of 4");
  EXPECT_ERROR(trainer.fit(uneven, {.progress = nullptr}), ErrorCode::kUnsupported,
               "set steps_per_epoch (--steps), which is rounded up to whole updates, or leave out 3 batches");
  EXPECT_EQ(group->stats().calls, 0) << "before anybody waits";
}

TEST(RankAverages, ExchangesOfAStepAreCountedBesideThoseOfGradients) {
  auto members = comm::make_thread_group(2);
  const Group group = half_of_two(members);
  for (const bool synchronized : {false, true}) {
    nn::Sequential model(nn::BatchNorm({.synchronized = synchronized, .group = group}), nn::Dense(1),
                         nn::BatchNorm({.synchronized = synchronized, .group = group}));
    optim::Sgd optimizer({.step = {.group = group, .bucket_bytes = 1}});
    auto batches = batches_of(synchronized ? 12 : 9, 3);
    DataParallel parallel(optimizer, batches.elements(), 0);
    CapturedFunction step(
        [&](std::span<const Tensor> in) {
          const Tensor loss = nn::mean_squared_error(model(in[0]), in[1]);
          optimizer.minimize(loss, model.parameters(), 3);
          return std::vector<Tensor>{};
        },
        {});
    step.prepare(batches.signatures()[0]);
    parallel.prepare(step);
    // Of two norms' moments forward and backward, but that the batch needs no gradient.
    EXPECT_EQ(parallel.step_exchanges(), synchronized ? 3 : 0);
  }
}

TEST(RankAverages, AStepOfTwoOptimizersWantsAsManyBatchesOnAllRanks) {
  auto members = comm::make_thread_group(2);
  const Group group = half_of_two(members);
  for (const int64_t accumulate : {1, 2}) {
    for (const bool second : {false, true}) {
      nn::Dense a(2), b(1);
      const optim::StepOptions options{.accumulate = accumulate, .group = group, .allow_untrained = second};
      optim::Sgd of_a({.step = options}), of_b({.step = options});
      auto batches = batches_of(9 * accumulate, 3);  // the first rank has more of them
      DataParallel parallel(of_a, batches.elements(), 0);
      CapturedFunction step(
          [&](std::span<const Tensor> in) {
            const Tensor loss = nn::mean_squared_error(b(a(in[0])), in[1]);
            if (second) {
              of_a.minimize(loss, a.parameters(), 3);
              of_b.minimize(loss, b.parameters(), 3);
            } else {
              std::vector<Variable> all = a.parameters();
              for (const Variable& parameter : b.parameters()) all.push_back(parameter);
              of_a.minimize(loss, all, 3);
            }
            return std::vector<Tensor>{};
          },
          {});
      step.prepare(batches.signatures()[0]);
      if (second) {
        EXPECT_ERROR(parallel.prepare(step), ErrorCode::kUnsupported,
                     "or the gradients of a second optimizer");
      } else {
        parallel.prepare(step);
        EXPECT_EQ(parallel.step_exchanges(), 0);
      }
    }
  }
}

}  // namespace
}  // namespace isochron::train
