#include "isochron/nn/weights/copy_weights.h"

#include <gtest/gtest.h>

#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/normalization.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"

namespace isochron::nn {
namespace {

struct CopyWeights : testing::Test {
  Sequential make(int64_t units = 4) { return Sequential(Dense(units), BatchNorm(), Dense(2)); }
  std::vector<std::vector<double>> contents(Module& module) {
    std::vector<std::vector<double>> all;
    for (const Variable& variable : module.parameters()) all.push_back(variable.tensor().to_vector());
    for (const Variable& variable : module.buffers()) all.push_back(variable.tensor().to_vector());
    return all;
  }
  const Tensor x = random_normal({6, 3});
};

TEST_F(CopyWeights, GivesParametersAndBuffersToTheOther) {
  Sequential net = make(), target = make();
  net(x);
  target.build(x.spec());
  ASSERT_NE(contents(net), contents(target));
  copy_weights(net, target);
  EXPECT_EQ(contents(net), contents(target));
  net.parameters()[0].assign(zeros({3, 4}));
  EXPECT_NE(contents(net), contents(target)) << "they are variables of their own";
}

TEST_F(CopyWeights, ATargetNetworkFollowsInACapturedStep) {
  Sequential net(Dense(1)), target(Dense(1));
  net.build(x.spec());
  target.build(x.spec());
  copy_weights(net, target);
  optim::Sgd sgd({.learning_rate = 0.1});
  auto step = capture([&](const Tensor& inputs) {
    sgd.minimize(mean_squared_error(net(inputs), add(ones({6, 1}), stop_gradient(target(inputs)))),
                 net.parameters());
    copy_weights(net, target, 0.25);
  });
  for (int i = 0; i < 3; ++i) {
    const double before = target.parameters()[0].tensor().to_vector()[0];
    step(x);
    const double after = net.parameters()[0].tensor().to_vector()[0];
    EXPECT_NEAR(target.parameters()[0].tensor().to_vector()[0], before + 0.25 * (after - before), 1e-6);
    EXPECT_NE(before, after);
  }
}

TEST_F(CopyWeights, ModulesThatDifferAreRefusedAndStay) {
  Sequential net = make(), unbuilt = make(), wider = make(5), other(Dense(4), Dense(2));
  EXPECT_ERROR(copy_weights(unbuilt, net), ErrorCode::kInvalidArgument, "has no parameters yet");
  net(x);
  wider(x);
  other(x);
  EXPECT_ERROR(
      copy_weights(net, unbuilt), ErrorCode::kInvalidArgument,
      "the module copied to has no parameter 'dense/kernel'; both must be of one structure, and built");
  const auto before = contents(wider);
  EXPECT_ERROR(copy_weights(net, wider), ErrorCode::kShapeMismatch,
               "'dense/kernel' is f32(3, 4) in the module copied from, but f32(3, 5) in the other");
  EXPECT_EQ(contents(wider), before);
  EXPECT_ERROR(copy_weights(net, other), ErrorCode::kInvalidArgument,
               "copied to has no parameter 'batch_norm/");
  EXPECT_ERROR(copy_weights(other, net), ErrorCode::kInvalidArgument,
               "copied from has no parameter 'batch_norm/");
  for (const double share : {0.0, -0.5, 1.5, std::nan("")})
    EXPECT_ERROR(copy_weights(net, net, share), ErrorCode::kInvalidArgument, "the share must be above 0");
}

}  // namespace
}  // namespace isochron::nn
