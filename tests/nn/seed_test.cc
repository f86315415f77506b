// One seed for all that is random: draws of ops, initial weights, the order of data.
#include <gtest/gtest.h>

#include "isochron/core/seed.h"
#include "isochron/data/combine.h"
#include "isochron/data/dataset.h"
#include "isochron/nn/layers.h"
#include "isochron/nn/sequential.h"
#include "isochron/ops/creation.h"
#include "isochron/ops/random.h"

namespace isochron::nn {
namespace {

std::vector<double> weights() {
  Sequential model(Dense(5), Dense(3));
  model.build({DType::kF32, {1, 4}});
  std::vector<double> all;
  for (const Variable& parameter : model.parameters())
    for (const double value : parameter.tensor().to_vector()) all.push_back(value);
  return all;
}

std::vector<double> order_of(data::Dataset dataset) {
  std::vector<double> order;
  for (auto& element : dataset) order.push_back(element[0].to_vector()[0]);
  return order;
}
data::Dataset rows() { return data::from_tensor_slices({{"x", arange(40)}}); }
std::vector<double> shuffled() { return order_of(rows().shuffle(40)); }
std::vector<double> sampled() {
  return order_of(data::sample_from_datasets({rows(), rows()}, {1, 1}).take(30));
}

TEST(Seed, SetsWeightsDrawsAndTheOrderOfData) {
  const auto all = [](uint64_t seed) {
    random::set_seed(seed);
    std::vector<std::vector<double>> results = {weights(), shuffled(), sampled()};
    results.push_back(random_normal({7}).to_vector());
    return results;
  };
  const auto first = all(1), again = all(1), other = all(2);
  EXPECT_EQ(first, again);
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NE(first[i], other[i]) << i;
}

TEST(Seed, WeightsDontDependOnOtherDraws) {
  random::set_seed(3);
  const std::vector<double> before = weights();
  random::set_seed(3);
  random_uniform({100});
  shuffled();
  random_normal({3});
  EXPECT_EQ(weights(), before);
  EXPECT_NE(weights(), before) << "the next model has its own";
  random::set_seed(3);
  weights();
  const std::vector<double> draws = random_uniform({5}).to_vector();
  random::set_seed(3);
  EXPECT_EQ(random_uniform({5}).to_vector(), draws) << "nor draws on weights";
}

TEST(Seed, TheStreamsDiffer) {
  // Without a derived seed, the first weights would be the first numbers drawn.
  random::set_seed(11);
  const std::vector<double> drawn = random_uniform({20}, -1, 1).to_vector();
  Dense dense(5, Activation::kNone, {.bias = false, .kernel_initializer = init::uniform(-1, 1)});
  dense.build({DType::kF32, {1, 4}});
  const std::vector<double> kernel = dense.kernel().tensor().to_vector();
  for (size_t i = 0; i < kernel.size(); ++i) EXPECT_NE(kernel[i], drawn[i]);
  EXPECT_NE(derived_seed(11, "a"), derived_seed(11, "b"));
  EXPECT_NE(derived_seed(11, "a"), derived_seed(12, "a"));
}

TEST(Seed, TheLastCallCounts) {
  random::set_seed(5);
  const std::vector<double> of_5 = weights();
  set_initializer_seed(7);
  const std::vector<double> of_7 = weights();
  EXPECT_NE(of_7, of_5);
  random::set_seed(5);
  EXPECT_EQ(weights(), of_5);
  set_initializer_seed(7);
  EXPECT_EQ(weights(), of_7);
  EXPECT_EQ(order_of(rows().shuffle(40, {.seed = 9})), [] {
    random::set_seed(6);
    return order_of(rows().shuffle(40, {.seed = 9}));
  }()) << "a seed of its own is kept";
}

}  // namespace
}  // namespace isochron::nn
