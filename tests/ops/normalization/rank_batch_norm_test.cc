// Batch normalization over ranks that are threads, compared with batch_norm on the batch of all ranks.
#include "isochron/ops/normalization/rank_batch_norm.h"

#include <gtest/gtest.h>

#include <mutex>
#include <numeric>

#include "isochron/autograd/autograd.h"
#include "isochron/autograd/checkpoint.h"
#include "isochron/core/base/rng.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"
#include "support/expect_error.h"
#include "support/near.h"
#include "support/rank_threads.h"

namespace isochron {
namespace {

constexpr double kEpsilon = 1e-3;
constexpr int64_t kChannels = 5;

Tensor numbers(const Shape& shape, uint64_t seed, DType dtype, double mean = 0) {
  Rng rng(seed);
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = mean + rng.normal();
  return from_vector(shape, values, dtype);
}

/// The batch of all ranks, and the scale and shift of each channel.
struct Batch {
  Tensor x, gamma, beta;
  Tensor weights;    // of the squares of y in the loss
  Tensor direction;  // in which the gradient of x is differentiated again
};
Batch batch_of(int64_t samples, DType dtype, double mean = 0) {
  const Shape shape{samples, 3, kChannels};
  return {numbers(shape, 1, dtype, mean), numbers({kChannels}, 2, dtype), numbers({kChannels}, 3, dtype),
          numbers(shape, 4, dtype), numbers(shape, 5, dtype)};
}

/// Those of `samples` from `begin` on.
Batch part_of(const Batch& whole, int64_t begin, int64_t samples) {
  const auto part = [&](const Tensor& x) { return graph::contiguous(narrow(x, 0, begin, samples)); };
  return {part(whole.x), whole.gamma, whole.beta, part(whole.weights), part(whole.direction)};
}

/// y, mean, variance, rows, the gradients of x, gamma and beta, and the second ones of x.
constexpr size_t kResults = 8, kOfGamma = 5, kOfBeta = 6;
using Results = std::vector<Tensor>;

Results results_of(const Batch& batch, const RankGroup& group, bool captured) {
  const auto all = [&](std::span<const Tensor> in) {
    GradientTape tape(true);
    const NormalizedRanks of = rank_batch_norm(in[0], in[1], in[2], kEpsilon, group);
    Results results = {of.y, of.moments.mean, of.moments.variance, of.rows};
    for (Tensor& gradient : tape.gradient(sum(in[3] * square(of.y) * of.y), in.first(3)))
      results.push_back(std::move(gradient));
    results.push_back(tape.gradient(sum(results[4] * in[4]), in.first(1))[0]);
    return results;
  };
  const Tensor in[] = {batch.x, batch.gamma, batch.beta, batch.weights, batch.direction};
  if (!captured) return all(in);
  CapturedFunction step(all, {.plan = {.threads = 1}});
  std::vector<const Tensor*> arguments;
  for (const Tensor& tensor : in) arguments.push_back(&tensor);
  Results results;
  for (const Tensor& result : step.call(arguments)) results.push_back(graph::copy(result));
  return results;
}

/// The joint results of ranks with these numbers of samples: rows concatenated, gradients of gamma and beta
/// summed.
Results results_of_ranks(const Batch& whole, const std::vector<int64_t>& samples, bool captured) {
  std::mutex mutex;
  std::vector<Results> of_rank(samples.size());
  run_ranks(static_cast<int>(samples.size()), [&](const RankGroup& group) {
    const auto rank = static_cast<size_t>(group->rank());
    const int64_t begin = std::accumulate(samples.begin(), samples.begin() + group->rank(), int64_t{0});
    Results own = results_of(part_of(whole, begin, samples[rank]), group, captured);
    const std::lock_guard lock(mutex);
    of_rank[rank] = std::move(own);
  });
  Results together;
  for (size_t i = 0; i < kResults; ++i) {
    std::vector<Tensor> each;
    for (const Results& own : of_rank) each.push_back(own[i]);
    const bool by_rows = i == 0 || i == 4 || i == 7;
    if (by_rows) {
      together.push_back(concatenate(each));
    } else if (i == kOfGamma || i == kOfBeta) {
      together.push_back(std::accumulate(each.begin() + 1, each.end(), each[0],
                                         [](const Tensor& a, const Tensor& b) { return a + b; }));
    } else {
      for (const Tensor& other : each) EXPECT_EQ(other.to_vector(), each[0].to_vector()) << "ranks differ";
      together.push_back(each[0]);
    }
  }
  return together;
}

void expect_near(const Results& got, const Results& expected, double tolerance) {
  ASSERT_EQ(got.size(), kResults);
  for (size_t i = 0; i < kResults; ++i) {
    const double scale = std::sqrt(mean(square(expected[i])).item<double>());
    EXPECT_TRUE(near(cast(got[i], DType::kF64), expected[i], tolerance, tolerance * scale)) << "result " << i;
  }
}

Results in_f64(Results results) {
  for (Tensor& result : results) result = cast(result, DType::kF64);
  return results;
}

const std::vector<int64_t> kSplits[] = {{4, 4}, {7, 1}, {1, 1}, {2, 5, 1}, {1, 9, 3, 2}};

TEST(RankBatchNorm, IsThatOfTheWholeBatchHoweverItIsDivided) {
  const auto alone = std::make_shared<comm::Group>();
  for (const std::vector<int64_t>& samples : kSplits) {
    const int64_t all = std::accumulate(samples.begin(), samples.end(), int64_t{0});
    for (const bool captured : {false, true}) {
      const Batch batch = batch_of(all, DType::kF64);
      const Results expected = results_of(batch, alone, captured);
      EXPECT_EQ(expected[3].item<double>(), static_cast<double>(3 * all));
      expect_near(results_of_ranks(batch, samples, captured), expected, 1e-10);
      const Batch narrow = batch_of(all, DType::kF32);
      expect_near(results_of_ranks(narrow, samples, captured), in_f64(results_of(narrow, alone, captured)),
                  1e-5);
    }
  }
}

TEST(RankBatchNorm, ItsGradientsAreDifferenceQuotients) {
  const std::vector<int64_t> samples = {3, 1, 2};
  Batch batch = batch_of(6, DType::kF64);
  const auto loss = [&] {
    const Results results = results_of_ranks(batch, samples, false);
    return sum(batch.weights * square(results[0]) * results[0]).item<double>();
  };
  const Results results = results_of_ranks(batch, samples, false);
  constexpr double kStep = 1e-5;
  const std::pair<Tensor*, const Tensor*> checked[] = {
      {&batch.x, &results[4]}, {&batch.gamma, &results[kOfGamma]}, {&batch.beta, &results[kOfBeta]}};
  for (const auto& [source, gradient] : checked) {
    for (const int64_t i : {int64_t{0}, int64_t{3}, source->elems() - 1}) {
      double& number = source->data<double>()[i];
      const double before = number;
      number = before + kStep;
      const double above = loss();
      number = before - kStep;
      const double below = loss();
      number = before;
      EXPECT_NEAR(gradient->to_vector()[static_cast<size_t>(i)], (above - below) / (2 * kStep), 1e-6) << i;
    }
  }
}

TEST(RankBatchNorm, ALargeMeanCostsTheVarianceNoDigits) {
  // A mean of 4,096 in f32, whose squares have no digit left for a variance of 1.
  const Batch batch = batch_of(40, DType::kF32, 4096);
  const Moments exact = channel_moments(cast(batch.x, DType::kF64));
  const Results results = results_of_ranks(batch, {17, 1, 22}, true);
  EXPECT_TRUE(near(results[1], cast(exact.mean, DType::kF32), 1e-7));
  EXPECT_TRUE(near(results[2], cast(exact.variance, DType::kF32), 1e-3));
}

TEST(RankBatchNorm, OfOneRankItIsBatchNorm) {
  const auto alone = std::make_shared<comm::Group>();
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    const Batch batch = batch_of(7, dtype);
    const NormalizedRanks ours = rank_batch_norm(batch.x, batch.gamma, batch.beta, kEpsilon, alone);
    const NormalizedBatch expected = batch_norm(batch.x, batch.gamma, batch.beta, kEpsilon);
    EXPECT_EQ(ours.y.to_vector(), expected.y.to_vector());
    EXPECT_EQ(ours.moments.mean.to_vector(), expected.moments.mean.to_vector());
    EXPECT_EQ(ours.moments.variance.to_vector(), expected.moments.variance.to_vector());
    EXPECT_EQ(ours.rows.item<double>(), 21);
  }
}

TEST(RankBatchNorm, HalfPrecisionGoesThroughF32) {
  const Batch batch = batch_of(6, DType::kBF16);
  const Tensor expected = batch_norm(batch.x, batch.gamma, batch.beta, kEpsilon).y;
  run_ranks(2, [&](const RankGroup& group) {
    const Batch own = part_of(batch, 3 * group->rank(), 3);
    const Tensor y = rank_batch_norm(own.x, own.gamma, own.beta, kEpsilon, group).y;
    EXPECT_EQ(y.dtype(), DType::kBF16);
    EXPECT_TRUE(near(y, graph::contiguous(narrow(expected, 0, 3 * group->rank(), 3)), 0x1p-7, 1e-3));
  });
}

TEST(RankBatchNorm, AStepExchangesOnceForwardAndOnceBackwardAlsoWhereItIsComputedAgain) {
  run_ranks(2, [](const RankGroup& group) {
    const Batch own = part_of(batch_of(8, DType::kF32), 4 * group->rank(), 4);
    std::vector<double> gradient;
    for (const bool again : {false, true}) {
      const auto norm = [&](const Tensor& x) { return rank_batch_norm(tanh(x), {}, {}, kEpsilon, group).y; };
      auto step = capture(
          [&](const Tensor& x, const Tensor& weights) {
            const Tensor y = again ? checkpoint(norm, x) : norm(x);
            return gradients(sum(square(y) * weights), {{x}})[0];
          },
          {.plan = {.threads = 1}});
      step(own.x, own.weights);
      const int64_t before = group->stats().calls;
      const std::vector<double> dx = Tensor(step(own.x, own.weights)).to_vector();
      EXPECT_EQ(group->stats().calls - before, 2);
      if (again) {
        EXPECT_EQ(dx, gradient);
      }
      gradient = dx;
    }
  });
}

TEST(RankBatchNorm, RefusesWrongCalls) {
  const auto alone = std::make_shared<comm::Group>();
  EXPECT_ERROR(rank_batch_norm(ones({2, 3}), {}, {}, kEpsilon, nullptr), ErrorCode::kInvalidArgument,
               "the group is null");
  EXPECT_ERROR(rank_batch_norm(ones({0, 3}), {}, {}, kEpsilon, alone), ErrorCode::kShapeMismatch,
               "at least one row");
  EXPECT_ERROR(rank_batch_norm(Tensor(), {}, {}, kEpsilon, alone), ErrorCode::kShapeMismatch, "undefined");
}

}  // namespace
}  // namespace isochron
