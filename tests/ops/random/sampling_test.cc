// Draws of integers: their distributions, their bounds, and a new draw at each replay.
#include "isochron/ops/random/sampling.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>

#include "isochron/graph/step/captured.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "support/expect_error.h"

namespace isochron {
namespace {

/// How often each of `classes` numbers occurs.
std::vector<double> counts(const Tensor& drawn, size_t classes) {
  std::vector<double> result(classes);
  for (const int64_t number : drawn.span<int64_t>()) ++result.at(static_cast<size_t>(number));
  return result;
}
/// Within five standard deviations of the binomial distribution.
void expect_frequency(double count, double draws, double probability) {
  EXPECT_NEAR(count, draws * probability, 5 * std::sqrt(draws * probability * (1 - probability)) + 1e-9);
}

TEST(Sampling, IntegersAreUniformInTheirRange) {
  random::Generator generator(3);
  constexpr int64_t kSamples = 100000;
  const Tensor drawn = random_integers({kSamples}, 0, 7, generator);
  for (const double count : counts(drawn, 7)) expect_frequency(count, kSamples, 1.0 / 7);
  const Tensor shifted = random_integers({50, 20}, -3, 0, generator);
  EXPECT_THAT(shifted.span<int64_t>(), testing::Each(testing::AllOf(testing::Ge(-3), testing::Lt(0))));
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min();
  const Tensor extreme = random_integers({1000}, kLowest, kLowest + 2, generator);
  EXPECT_THAT(extreme.span<int64_t>(), testing::Contains(kLowest));
  EXPECT_THAT(extreme.span<int64_t>(), testing::Contains(kLowest + 1));
  EXPECT_THAT(random_integers({5}, 9, 10, generator).span<int64_t>(), testing::Each(9));
}

TEST(Sampling, PermutationsHoldEachNumberOnceInAnyOrder) {
  random::Generator generator(4);
  std::vector<double> first(5);
  for (int i = 0; i < 4000; ++i) {
    const Tensor drawn = random_permutation(5, generator);
    ++first.at(static_cast<size_t>(drawn.span<int64_t>()[0]));
    EXPECT_THAT(drawn.span<int64_t>(), testing::UnorderedElementsAre(0, 1, 2, 3, 4));
  }
  for (const double count : first) expect_frequency(count, 4000, 0.2);
}

TEST(Sampling, ClassesComeWithTheirProbabilities) {
  constexpr int64_t kSamples = 60000;
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> probabilities{0.5, 0, 0.125, 0.375};
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    random::Generator generator(5);
    const Tensor logits =
        from_vector({4}, {std::log(8.0), -infinity, std::log(2.0), std::log(6.0)}, DType::kF64);
    const Tensor rows = broadcast_to(cast(logits, dtype), {kSamples, 4});
    const Tensor drawn = random_categorical(rows, generator);
    EXPECT_EQ(drawn.shape(), Shape{kSamples});
    const std::vector<double> found = counts(drawn, 4);
    EXPECT_EQ(found[1], 0);
    if (dtype == DType::kBF16) continue;  // whose logits are rounded
    for (size_t i = 0; i < 4; ++i) expect_frequency(found[i], kSamples, probabilities[i]);
  }
  random::Generator generator(6);
  EXPECT_THAT(random_categorical(zeros({3, 2, 1}), generator).span<int64_t>(), testing::Each(0));
}

TEST(Sampling, ACapturedStepDrawsAnewAndSeedsRepeatIt) {
  random::Generator generator(7);
  auto step = capture([&](const Tensor& logits) {
    return std::tuple(random_categorical(logits, generator), random_integers({40}, 0, 1000, generator),
                      random_permutation(30, generator));
  });
  const Tensor logits = zeros({50, 10});
  const auto draw = [&] {
    const auto [classes, integers, order] = step(logits);
    std::vector<double> all = classes.to_vector();
    for (const Tensor& more : {integers, order})
      for (const double number : more.to_vector()) all.push_back(number);
    return all;
  };
  const std::vector<double> first = draw(), second = draw();
  EXPECT_NE(first, second);
  generator.set_seed(7);
  EXPECT_EQ(draw(), first);
  EXPECT_EQ(draw(), second);
}

TEST(Sampling, RefusesWhatCannotBeDrawn) {
  EXPECT_ERROR(random_integers({2}, 3, 3), ErrorCode::kInvalidArgument, "[random_integers");
  EXPECT_ERROR(random_integers({2}, 0, (int64_t{1} << 53) + 1), ErrorCode::kInvalidArgument, "at most 2^53");
  EXPECT_ERROR(random_permutation(0), ErrorCode::kInvalidArgument, "at least one number");
  EXPECT_ERROR(random_categorical(arange(3)), ErrorCode::kDtypeMismatch, "takes floating logits");
  EXPECT_ERROR(random_categorical(scalar(1)), ErrorCode::kShapeMismatch, "at least one class");
  EXPECT_ERROR(random_categorical(Tensor()), ErrorCode::kDtypeMismatch, "an undefined tensor");
}

}  // namespace
}  // namespace isochron
