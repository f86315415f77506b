// Batch normalization synchronized over ranks that are threads: the ranks train like one process on the
// batches of all of them.
#include <gtest/gtest.h>

#include <mutex>
#include <numeric>

#include "isochron/autograd/autograd.h"
#include "isochron/comm/group/world.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/normalization.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/models/resnet.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"
#include "support/near.h"
#include "support/rank_threads.h"

namespace isochron::nn {
namespace {

using Group = std::shared_ptr<comm::Group>;

constexpr int kUpdates = 3;
std::mutex mutex;  // layers draw their initial weights from one seed

Tensor numbers(const Shape& shape, int seed, DType dtype) {
  Rng rng(static_cast<uint64_t>(seed));
  return from_vector(shape, init::normal(0.5, 2)(shape, rng), dtype);
}

/// Norms one after another, and, where shapes change, beside one another.
ResNetOptions small(const Group& group, bool unbiased) {
  return {.blocks = {1, 1},
          .widths = {3, 4},
          .classes = 2,
          .norm = {.momentum = 0.9,
                   .epsilon = 1e-3,
                   .unbiased_moving_variance = unbiased,
                   .synchronized = true,
                   .group = group}};
}

/// The state of a trained model: its parameters and its averages.
std::vector<Tensor> contents_of(Module& model) {
  std::vector<Tensor> contents;
  for (const Variable& variable : model.parameters()) contents.push_back(graph::copy(variable.tensor()));
  for (const Variable& variable : model.buffers()) contents.push_back(graph::copy(variable.tensor()));
  return contents;
}

struct How {
  DType dtype = DType::kF64;
  bool captured = true;
  bool unbiased = false;
  Precision precision = Precision::kF32;
};

/// The results of all ranks after training; rank r trains on `samples[r]` of the images of each update.
std::vector<Tensor> train(const std::vector<int64_t>& samples, const How& how) {
  const int64_t all = std::accumulate(samples.begin(), samples.end(), int64_t{0});
  std::vector<std::vector<Tensor>> results(samples.size());
  run_ranks(static_cast<int>(samples.size()), [&](const Group& group) {
    const auto rank = static_cast<size_t>(group->rank());
    const int64_t begin = std::accumulate(samples.begin(), samples.begin() + group->rank(), int64_t{0});
    ResNet model(small(group, how.unbiased));
    {
      const std::lock_guard lock(mutex);
      set_initializer_seed(1);
      model.build({how.dtype, {1, 4, 4, 3}});
    }
    optim::Optimizer optimizer = optim::Sgd({.learning_rate = 0.05, .step = {.group = group}});
    const auto minimize = [&](const Tensor& x, const Tensor& y) {
      const GradientTape tape;
      const Tensor loss = mean_squared_error(model(x), y);
      optimizer.minimize(loss, model.parameters(), static_cast<double>(x.extent(0)));
    };
    auto step = capture(minimize, {.passes = {.precision = how.precision}, .plan = {.threads = 1}});
    for (int i = 0; i < kUpdates; ++i) {
      const auto part = [&](const Shape& shape, int seed) {
        return graph::contiguous(narrow(numbers(shape, seed, how.dtype), 0, begin, samples[rank]));
      };
      const Tensor x = part({all, 4, 4, 3}, i), y = part({all, 2}, 100 + i);
      if (how.captured) {
        step(x, y);
      } else {
        minimize(x, y);
      }
    }
    results[rank] = contents_of(model);
  });
  for (size_t rank = 1; rank < results.size(); ++rank) {
    for (size_t i = 0; i < results[0].size(); ++i)
      EXPECT_EQ(results[rank][i].to_vector(), results[0][i].to_vector()) << "rank " << rank << ", " << i;
  }
  return results[0];
}

void expect_near(const std::vector<Tensor>& got, const std::vector<Tensor>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(near(got[i], expected[i], tolerance, tolerance)) << i;
}

TEST(SynchronizedNorm, TrainsAsOneProcessOnTheBatchesOfAllRanks) {
  for (const bool captured : {false, true}) {
    for (const bool unbiased : {false, true}) {
      const How how{.captured = captured, .unbiased = unbiased};
      const std::vector<Tensor> whole = train({7}, how);
      for (const std::vector<int64_t>& samples : {std::vector<int64_t>{4, 3}, {1, 4, 2}, {2, 1, 1, 3}})
        expect_near(train(samples, how), whole, 1e-10);
    }
  }
  const How narrow{.dtype = DType::kF32};
  expect_near(train({1, 4, 2}, narrow), train({7}, narrow), 1e-5);
}

TEST(SynchronizedNorm, TrainsInMixedPrecision) {
  const How how{.dtype = DType::kF32, .precision = Precision::kMixedBf16};
  expect_near(train({3, 4}, how), train({7}, how), 0.03);
}

/// y, the gradients and the averages after two steps.
std::vector<Tensor> steps_of(const BatchNormOptions& options) {
  BatchNorm norm(options);
  auto step = capture([&](const Tensor& x, const Tensor& weights) {
    const Tensor y = norm(x);
    const std::vector<Variable> parameters = norm.parameters();
    std::vector<Tensor> results = gradients(sum(square(y) * weights), {{x, parameters[0], parameters[1]}});
    results.push_back(y);
    return results;
  });
  std::vector<Tensor> all;
  for (int i = 0; i < 2; ++i) {
    for (const Tensor& result : step(numbers({5, 3, 4}, i, DType::kF32), numbers({5, 3, 4}, 9, DType::kF32)))
      all.push_back(graph::copy(result));
  }
  for (const Tensor& content : contents_of(norm)) all.push_back(content);
  return all;
}

TEST(SynchronizedNorm, OfOneRankIsTheOrdinaryLayerBitForBit) {
  for (const bool unbiased : {false, true}) {
    const std::vector<Tensor> ordinary = steps_of({.unbiased_moving_variance = unbiased});
    const std::vector<Tensor> ours = steps_of({.unbiased_moving_variance = unbiased, .synchronized = true});
    ASSERT_EQ(ours.size(), ordinary.size());
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_EQ(ours[i].to_vector(), ordinary[i].to_vector()) << i;
  }
  EXPECT_EQ(BatchNorm({.synchronized = true}).options().group, comm::world());
}

TEST(SynchronizedNorm, InferenceAndFrozenLayersExchangeNothing) {
  run_ranks(2, [](const Group& group) {
    BatchNorm norm({.synchronized = true, .group = group});
    const Tensor x = numbers({4, 2}, group->rank(), DType::kF32);
    {
      const std::lock_guard lock(mutex);
      norm.build(x.spec());
    }
    norm(x);
    EXPECT_EQ(group->stats().calls, 1);
    const std::vector<double> average = norm.averages()[0].tensor().to_vector();
    {
      const TrainingScope inference(false);
      norm(x);
    }
    norm.set_trainable(false);
    norm(x);
    EXPECT_EQ(group->stats().calls, 1);
    EXPECT_EQ(norm.averages()[0].tensor().to_vector(), average);
  });
}

}  // namespace
}  // namespace isochron::nn
