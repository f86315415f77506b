// Parameters that are shared by layers, and parts of a model that don't train.
#include <gtest/gtest.h>

#include "isochron/autograd/autograd.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/attention.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "support/expect_error.h"
#include "support/near.h"

namespace isochron::nn {
namespace {

Tensor normal_batch(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  return from_vector(shape, init::normal(0, 1)(shape, rng), DType::kF64);
}

std::vector<std::vector<double>> contents(Module& module) {
  std::vector<std::vector<double>> result;
  for (const Variable& parameter : module.parameters()) result.push_back(parameter.tensor().to_vector());
  return result;
}

/// A trunk and a head.
Sequential make_model() {
  return Sequential(Sequential(Dense(6, Activation::kTanh), Dense(5, Activation::kTanh)), Dense(2));
}

TEST(Freezing, OnlyTheHeadTrains) {
  const Tensor x = normal_batch({16, 4}, 1), y = normal_batch({16, 2}, 2);
  Sequential model = make_model();
  model.build(x.spec());
  model[0].set_trainable(false);
  const auto trunk = contents(model[0]);
  const auto head = contents(model[1]);
  optim::Adam optimizer({.learning_rate = 0.05});
  auto step = capture([&](const Tensor& inputs, const Tensor& targets) {
    const Tensor loss = mean_squared_error(model(inputs), targets);
    optimizer.minimize(loss, model.parameters());
    return loss;
  });
  const double first = step(x, y).item<double>();
  for (int i = 0; i < 50; ++i) step(x, y);
  EXPECT_LT(step(x, y).item<double>(), 0.8 * first);
  EXPECT_EQ(contents(model[0]), trunk) << "bit for bit";
  EXPECT_NE(contents(model[1]), head);
  EXPECT_EQ(optimizer.state().size(), 3u + 2 * 2) << "states of the head alone";

  // The result must be the same as if the head alone had been trained on the features of the trunk.
  Sequential alone(Dense(2));
  const Tensor features = model[0](x);
  alone.build(features.spec());
  for (size_t i = 0; i < head.size(); ++i) {
    const Variable parameter = alone.parameters()[i];
    parameter.assign(from_vector(parameter.shape(), head[i], DType::kF64));
  }
  optim::Adam other({.learning_rate = 0.05});
  for (int i = 0; i < 52; ++i) {
    GradientTape tape;
    other.minimize(mean_squared_error(alone(features), y), alone.parameters());
  }
  for (size_t i = 0; i < head.size(); ++i) {
    EXPECT_TRUE(near(model[1].parameters()[i], alone.parameters()[i], 1e-9, 1e-12));
  }
}

/// Divides by a running scale that it reads and updates: a variable with default options, listed as a buffer.
class RunningScale : public Module {
 public:
  Tensor forward(const Tensor& x) override {
    const Tensor y = x / scale_.tensor();
    scale_.assign(scale_.tensor() * 0.9 + mean(stop_gradient(x * x)) * 0.1);
    return y;
  }
  void members(Members& list) override { list.buffer("scale", scale_); }

 private:
  Variable scale_{ones({}, DType::kF64), "scale"};
};

TEST(Freezing, BuffersAreNeverTrained) {
  const Tensor x = normal_batch({16, 4}, 1), y = normal_batch({16, 2}, 2);
  for (const bool captured : {true, false}) {
    Sequential model(RunningScale(), Dense(2));
    optim::Sgd optimizer({.learning_rate = 0.05});
    const auto train = [&](const Tensor& inputs, const Tensor& targets) {
      const Tensor loss = mean_squared_error(model(inputs), targets);
      optimizer.minimize(loss, model.parameters());
      return loss;
    };
    if (captured) {
      auto step = capture(train);
      EXPECT_NO_THROW(step(x, y));
    } else {
      GradientTape tape;
      EXPECT_NO_THROW(train(x, y));
    }
    ASSERT_EQ(model.buffers().size(), 1u);
    EXPECT_FALSE(model.buffers()[0].trainable());
    const double squares = mean(x * x).item<double>();
    EXPECT_NEAR(model.buffers()[0].tensor().item<double>(), 0.9 + 0.1 * squares, 1e-12);
    EXPECT_EQ(optimizer.parameters().size(), 2u);
    model.set_trainable(true);
    EXPECT_FALSE(model.buffers()[0].trainable()) << "thawing is for parameters";
  }
}

TEST(Freezing, AFrozenTrunkHasNoBackwardPass) {
  const Tensor x = normal_batch({4, 3}, 1);
  const auto nodes = [&](bool frozen) {
    Sequential model = make_model();
    model.build(x.spec());
    model[0].set_trainable(!frozen);
    optim::Sgd optimizer;
    auto step = capture(
        [&](const Tensor& inputs) { optimizer.minimize(mean(square(model(inputs))), model.parameters()); });
    step(x);
    return step.plan_report().instructions;
  };
  EXPECT_LT(nodes(true), nodes(false));
}

TEST(Freezing, ThawedParametersJoinTheirOptimizerByPrepare) {
  const Tensor x = normal_batch({4, 3}, 1);
  Sequential model = make_model();
  model.build(x.spec());
  const auto train = [&](optim::Optimizer& optimizer) {
    auto step = capture(
        [&](const Tensor& inputs) { optimizer.minimize(mean(square(model(inputs))), model.parameters()); });
    step(x);
  };
  model[0].set_trainable(false);
  const auto before = contents(model[0]);
  optim::Adam head;
  train(head);
  EXPECT_EQ(contents(model[0]), before);
  model.set_trainable(true);
  EXPECT_ERROR(train(head), ErrorCode::kInvalidArgument, "add it by prepare()");
  head.prepare(model.parameters());
  train(head);
  EXPECT_NE(contents(model[0]), before);
  const auto now = contents(model[0]);
  optim::Adam all;
  train(all);
  EXPECT_NE(contents(model[0]), now);
  model.set_trainable(false);
  EXPECT_ERROR(train(all), ErrorCode::kInvalidArgument, "none of the 6 parameters is trainable");
}

/// One dense layer used twice, or two of the same content.
class Twice : public Module {
 public:
  explicit Twice(bool tied) : tied_(tied) {}
  Tensor forward(const Tensor& x) override { return second()(tanh(first_(x))); }
  void members(Members& list) override { list("first", first_)("second", second()); }

 private:
  Dense& second() { return tied_ ? first_ : second_; }
  bool tied_;
  Dense first_{3}, second_{3};
};

TEST(Tying, GradientsOfAllUsesAreSummed) {
  const Tensor x = normal_batch({5, 3}, 1);
  Twice tied(true), apart(false);
  tied.build(x.spec());
  apart.build(x.spec());
  const std::vector<Variable> shared = tied.parameters(), own = apart.parameters();
  ASSERT_EQ(shared.size(), 2u);
  ASSERT_EQ(own.size(), 4u);
  for (size_t i = 0; i < own.size(); ++i) own[i].assign(shared[i % 2].tensor());
  const auto gradients_of = [&](Module& module) {
    const std::vector<Variable> parameters = module.parameters();
    auto step = capture([&, parameters](const Tensor& inputs) {
      return gradients(sum(square(module(inputs))),
                       std::vector<Tensor>(parameters.begin(), parameters.end()));
    });
    std::vector<Tensor> copies;
    for (const Tensor& gradient : step(x))
      copies.push_back(from_vector(gradient.shape(), gradient.to_vector(), DType::kF64));
    return copies;
  };
  const std::vector<Tensor> of_shared = gradients_of(tied), of_own = gradients_of(apart);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(near(of_shared[i], of_own[i] + of_own[i + 2], 1e-12, 1e-13));
}

TEST(Tying, AnOptimizerMovesASharedParameterOnce) {
  const Tensor x = normal_batch({5, 3}, 1);
  Twice model(true);
  model.build(x.spec());
  optim::Sgd optimizer({.learning_rate = 0.25});
  const std::vector<double> before = model.parameters()[0].tensor().to_vector();
  std::vector<double> gradient;
  {
    GradientTape tape;
    gradient = tape.gradient(sum(square(model(x))), model.parameters()[0]).to_vector();
  }
  auto step = capture(
      [&](const Tensor& inputs) { optimizer.minimize(sum(square(model(inputs))), model.parameters()); });
  step(x);
  std::vector<double> expected;
  for (size_t i = 0; i < before.size(); ++i) expected.push_back(before[i] - 0.25 * gradient[i]);
  EXPECT_TRUE(near(model.parameters()[0], from_vector({3, 3}, expected, DType::kF64), 1e-12, 1e-13));
}

TEST(Tying, AnEmbeddingAsInputAndOutput) {
  Embedding table(4, 3, {.initializer = init::normal(0, 1), .dtype = DType::kF64});
  const Tensor tokens = from_vector({5}, {2, 0, 2, 2, 3}, DType::kI64);
  const Tensor weights = normal_batch({5, 4}, 3);
  GradientTape tape;
  const Tensor x = table(tokens);
  const Tensor loss = sum(table.scores(x) * weights);
  const std::vector<double> got = tape.gradient(loss, table.table()).to_vector();
  // d/dE of sum_i W_i . E x_i with x_i = E[token_i]: rows of W^T x, and E^T W_i onto the rows of the tokens.
  const std::vector<double> e = table.table().tensor().to_vector(), w = weights.to_vector(),
                            t = tokens.to_vector();
  std::vector<double> expected(12);
  for (size_t i = 0; i < 5; ++i) {
    const auto row = static_cast<size_t>(t[i]);
    for (size_t v = 0; v < 4; ++v) {
      for (size_t d = 0; d < 3; ++d) {
        expected[v * 3 + d] += w[i * 4 + v] * e[row * 3 + d];
        expected[row * 3 + d] += w[i * 4 + v] * e[v * 3 + d];
      }
    }
  }
  EXPECT_TRUE(
      near(from_vector({12}, got, DType::kF64), from_vector({12}, expected, DType::kF64), 1e-12, 1e-13));
}

}  // namespace
}  // namespace isochron::nn
