#include "isochron/nn/layers/layers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "isochron/graph/step/captured.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::nn {
namespace {

TEST(Dense, IsProductPlusBiasUnderActivation) {
  Dense dense(2, Activation::kRelu);
  dense.build({DType::kF32, {1, 3}});
  dense.kernel().assign(from_vector({3, 2}, {1, -1, 2, -2, 3, -3}));
  dense.bias().assign(from_vector({2}, {0.5, 15}));
  EXPECT_EQ(dense(from_vector({1, 3}, {1, 2, 3})).to_vector(), (std::vector<double>{14.5, 1}));
  EXPECT_EQ(dense(ones({4, 5, 3})).shape(), (Shape{4, 5, 2}));
}

TEST(Dense, TakesInitializersAndNoBias) {
  Dense dense(2, Activation::kNone, {.bias = false, .kernel_initializer = init::constant(2)});
  EXPECT_EQ(dense(ones({1, 3})).to_vector(), (std::vector<double>{6, 6}));
  EXPECT_EQ(dense.parameters().size(), 1u);
  EXPECT_ERROR(Dense(0), ErrorCode::kInvalidArgument, "units");
}

TEST(Flatten, KeepsTheFirstAxis) {
  EXPECT_EQ(Flatten()(ones({2, 3, 4})).shape(), (Shape{2, 12}));
  EXPECT_EQ(Flatten()(ones({5})).shape(), (Shape{5, 1}));
  EXPECT_EQ(Flatten()(ones({0, 3})).shape(), (Shape{0, 3}));
  EXPECT_ERROR(Flatten()(scalar(1)), ErrorCode::kShapeMismatch, "samples");
}

TEST(Dropout, DrawsAnewAtEveryReplayAndOnlyInTraining) {
  Dropout layer(0.25);
  auto train = capture([&](const Tensor& x) { return layer(x); });
  const Tensor x = ones({1000});
  const std::vector<double> first = train(x).to_vector();
  const std::vector<double> second = train(x).to_vector();
  EXPECT_NE(first, second);
  for (const std::vector<double>& values : {first, second}) {
    const auto zeros = std::count(values.begin(), values.end(), 0.0);
    EXPECT_NEAR(static_cast<double>(zeros), 250, 70);  // five standard deviations
    EXPECT_EQ(std::count(values.begin(), values.end(), static_cast<double>(1 / 0.75f)), 1000 - zeros);
  }
  const TrainingScope evaluate(false);
  EXPECT_EQ(layer(x).to_vector(), x.to_vector());
  EXPECT_ERROR(Dropout(1), ErrorCode::kInvalidArgument, "rate");
}

TEST(Activation, EveryNameHasItsFunction) {
  const Tensor x = from_vector({1, 3}, {-1, 0.5, 8}, DType::kF64);
  const std::pair<Activation, std::vector<double>> expected[] = {
      {Activation::kNone, {-1, 0.5, 8}},
      {Activation::kRelu, {0, 0.5, 8}},
      {Activation::kRelu6, {0, 0.5, 6}},
      {Activation::kLeakyRelu, {-0.3, 0.5, 8}},
      {Activation::kElu, {-0.63212055882855767, 0.5, 8}},
      {Activation::kSelu, {-1.1113307378125625, 0.52535049400334937, 8.4056079040535899}},
      {Activation::kGelu, {-0.15865525393145705, 0.34573123063700656, 7.999999999999995}},
      {Activation::kGeluTanh, {-0.15880800939172324, 0.34571400982514394, 7.9999999999999893}},
      {Activation::kSilu, {-0.2689414213699951, 0.31122966560092729, 7.9973171988956091}},
      {Activation::kSoftplus, {0.31326168751822286, 0.97407698418010668, 8.0003354063729}},
      {Activation::kSigmoid, {0.2689414213699951, 0.62245933120185459, 0.99966464986953363}},
      {Activation::kTanh, {-0.76159415595576485, 0.46211715726000979, 0.99999977492967596}},
      {Activation::kSoftmax, {0.00012332637451279219, 0.00055271046473839966, 0.99932396316074878}}};
  for (const auto& [activation, values] : expected) {
    EXPECT_TRUE(near(Activate(activation)(x), from_vector({1, 3}, values, DType::kF64), 1e-6))
        << static_cast<int>(activation);
  }
}

}  // namespace
}  // namespace isochron::nn
