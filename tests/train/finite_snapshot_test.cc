// The last good state: what is kept, what is looked for, and how looks are spaced.
#include "isochron/train/checkpoints/finite_snapshot.h"

#include <gmock/gmock.h>

#include <cmath>

#include "isochron/ops/shape/creation.h"

namespace isochron::train {
namespace {

using testing::HasSubstr;

int64_t simulated_ns = 0;

NamedVariables two_variables() {
  return {{"weight", Variable(ones({3}), "weight")},
          {"mask", Variable(full({2}, -INFINITY), "mask", false)},
          {"optimizer/weight/gradient_sum", Variable(zeros({3}), "weight/gradient_sum", false)}};
}

TEST(FiniteWatch, TellsWhatBecameNotFinite) {
  const NamedVariables variables = two_variables();
  const FiniteWatch watch(variables);
  EXPECT_EQ(watch.look(), "") << "the mask never was finite";
  variables[2].second.assign(full({3}, INFINITY));
  EXPECT_THAT(watch.look(), HasSubstr("gradient_sum")) << "an update will make it the weight's";
  variables[0].second.assign(full({3}, NAN));
  EXPECT_EQ(watch.look(), "'weight' f32(3): 3 of 3 elements are NaN or infinite, the first at (0)");
}

TEST(FiniteWatch, SumsMayOverflowUnderLossScaling) {
  NamedVariables variables = two_variables();
  variables.emplace_back("optimizer/loss_scale", Variable(ones({}), "loss_scale", false));
  const FiniteWatch watch(variables);
  variables[2].second.assign(full({3}, INFINITY));
  EXPECT_EQ(watch.look(), "");
}

TEST(FiniteSnapshot, WhatTheDatasetTakesForItsStateCountsInTheSpacing) {
  const NamedVariables variables = two_variables();
  const FiniteWatch watch(variables);
  simulated_ns = 1000;
  FiniteSnapshot good(variables, watch, [] { return simulated_ns; });
  EXPECT_TRUE(good.due());
  EXPECT_EQ(good.look(7,
                      [] {
                        simulated_ns += 500;
                        return std::string("state");
                      }),
            "");
  EXPECT_EQ(good.data(), "state");
  EXPECT_EQ(good.total_steps(), 7);
  simulated_ns += FiniteSnapshot::kSpacing * 500 - 1;
  EXPECT_FALSE(good.due());
  simulated_ns += 1;
  EXPECT_TRUE(good.due());
}

TEST(FiniteSnapshot, KeepsNothingThatIsNotFinite) {
  const NamedVariables variables = two_variables();
  const FiniteWatch watch(variables);
  FiniteSnapshot good(variables, watch);
  good.look(1, [] { return std::string("first"); });
  variables[0].second.assign(full({3}, NAN));
  EXPECT_THAT(good.look(2, [] { return std::string("second"); }), HasSubstr("'weight'"));
  EXPECT_EQ(good.data(), "first");
  good.restore();
  EXPECT_EQ(variables[0].second.tensor().to_vector(), std::vector<double>(3, 1));
}

}  // namespace
}  // namespace isochron::train
