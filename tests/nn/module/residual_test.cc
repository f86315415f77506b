#include "isochron/nn/module/residual.h"

#include <gmock/gmock.h>

#include "isochron/nn/layers/layers.h"
#include "isochron/nn/models/resnet.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

using testing::ElementsAre;

std::vector<float> values(const Tensor& x) { return {x.span<float>().begin(), x.span<float>().end()}; }
std::vector<std::string> names_of(Module& module) {
  std::vector<std::string> result;
  for (const auto& [name, variable] : module.named_parameters()) result.push_back(name);
  return result;
}
Function doubled() {
  return Function([](const Tensor& x) { return x * 2.0; });
}

TEST(Residual, AddsItsInput) {
  Residual module(doubled());
  EXPECT_THAT(values(module(full({2}, 3))), ElementsAre(9, 9));
}

TEST(Residual, TakesAShortcutWhereShapesDiffer) {
  Residual module(Sequential(Dense(4, Activation::kRelu), Dense(3)), Dense(3));
  EXPECT_EQ(module(ones({2, 5})).shape(), (Shape{2, 3}));
  EXPECT_THAT(names_of(module), ElementsAre("inner/dense/kernel", "inner/dense/bias", "inner/dense_1/kernel",
                                            "inner/dense_1/bias", "shortcut/kernel", "shortcut/bias"));
}

TEST(Residual, NeverBroadcasts) {
  Residual module{Dense(1)};
  EXPECT_ERROR(module(ones({2, 5})), ErrorCode::kShapeMismatch, "shortcut");
}

TEST(Parallel, PutsBranchesSideBySide) {
  Parallel module(-1, doubled(), Function([](const Tensor& x) { return -x; }));
  EXPECT_THAT(values(module(full({1, 2}, 3))), ElementsAre(6, 6, -3, -3));
  Parallel empty(-1);
  EXPECT_ERROR(empty(ones({2})), ErrorCode::kInvalidArgument, "no branches");
}

TEST(Function, MustNotBeEmpty) { EXPECT_ERROR(Function(nullptr), ErrorCode::kInvalidArgument, "empty"); }

TEST(ResNet, Of50LayersHasTheParametersOfThePaper) {
  ResNet model = resnet50();
  EXPECT_EQ(model.build({DType::kF32, {1, 64, 64, 3}}).shape, (Shape{1, 1000}));
  EXPECT_EQ(model.parameter_count(), 25557032);  // as torchvision counts them
}

TEST(ResNet, Of20LayersHasTheParametersOfThePaper) {
  ResNet model = resnet20();
  EXPECT_EQ(model.build({DType::kF32, {1, 32, 32, 3}}).shape, (Shape{1, 10}));
  EXPECT_EQ(model.parameter_count(), 272474);  // 0.27 million; 1x1 convolutions where widths change
}

}  // namespace
}  // namespace isochron::nn
