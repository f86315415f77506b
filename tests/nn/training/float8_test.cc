// Dense layers that are traced for Precision::kMixedFp8.
#include <gmock/gmock.h>

#include <cmath>

#include "isochron/core/base/rng.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/models/models.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/nn/weights/weights.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/elementwise/float8.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizer.h"
#include "isochron/optim/optimizers.h"
#include "support/near.h"
#include "support/temp_folder.h"

namespace isochron::nn {
namespace {

Tensor normal_batch(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  return from_vector(shape, init::normal(0, 1)(shape, rng));
}

CaptureOptions in_float8() {
  CaptureOptions options;
  options.passes.precision = Precision::kMixedFp8;
  return options;
}

double largest_of(const Tensor& x) {
  double largest = 0;
  for (const double value : x.to_vector()) largest = std::max(largest, std::abs(value));
  return largest;
}

bool has_op(const graph::Graph& graph, std::string_view name) {
  return std::ranges::any_of(graph.nodes(), [&](const auto& node) { return node->op->name == name; });
}

TEST(DenseInFloat8, TrainingAddsToItsHistoriesAndEvaluationDoesNot) {
  Dense layer(16);
  optim::Optimizer optimizer{optim::Sgd({.learning_rate = 0.1})};
  const Tensor x = normal_batch({5, 32}, 1);
  auto train = capture(
      [&](const Tensor& in) {
        const Tensor loss = mean(square(layer(in)));
        optimizer.minimize(loss, layer.parameters());
        return loss;
      },
      in_float8());
  auto evaluate = capture(
      [&](const Tensor& in) {
        const TrainingScope scope(false);
        return layer(in);
      },
      in_float8());
  train(x);
  ASSERT_EQ(layer.named_buffers().size(), 3u);
  const auto content = [&](size_t i) { return layer.named_buffers()[i].second.tensor().to_vector(); };
  EXPECT_EQ(layer.named_buffers()[0].first, "input_history");
  EXPECT_FLOAT_EQ(content(0).back(), largest_of(x));
  EXPECT_GT(content(1).back(), 0);
  EXPECT_GT(content(2).back(), 0);
  EXPECT_EQ(content(0)[kFloat8History - 2], 0);
  const Tensor kernel_before = copy(layer.kernel().tensor());
  train(x * 3.0);
  EXPECT_FLOAT_EQ(content(0).back(), 3 * largest_of(x));
  EXPECT_FLOAT_EQ(content(0)[kFloat8History - 2], largest_of(x));
  EXPECT_FLOAT_EQ(content(1).back(), largest_of(kernel_before));
  const std::vector<double> before = content(0);
  evaluate(x * 100.0);
  EXPECT_EQ(content(0), before);
  EXPECT_TRUE(has_op(evaluate.graph(), "matmul_float8"));
}

TEST(DenseInFloat8, EvaluationAloneKeepsNothingAndScalesByWhatIsThere) {
  Dense layer(16, Activation::kNone, {.bias = false});
  const Tensor x = normal_batch({4, 32}, 1) * 1e-5;
  auto evaluate = capture(
      [&](const Tensor& in) {
        const TrainingScope scope(false);
        return layer(in);
      },
      in_float8());
  const std::vector<double> got = evaluate(x).to_vector(), want = layer(x).to_vector();
  EXPECT_TRUE(layer.named_buffers().empty());
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::abs(got[i] - want[i]);
    size += std::abs(want[i]);
  }
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 0.06 * size);
}

TEST(DenseInFloat8, EachLayerOfAStackLearnsFromTheFirstStep) {
  Sequential model(Dense(16), Dense(32), Dense(16), Dense(16));
  optim::Optimizer optimizer{optim::Sgd({.step = {.keep_gradients = true}})};
  auto step = capture(
      [&](const Tensor& in) {
        const Tensor loss = mean(square(model(in))) * 1e-6;
        optimizer.minimize(loss, model.parameters());
      },
      in_float8());
  step(normal_batch({8, 16}, 1));
  for (const auto& gradient : optimizer.kept_gradients()) EXPECT_GT(largest_of(gradient), 0);
}

TEST(DenseInFloat8, OtherPrecisionsAndLoopsMakeNone) {
  Dense layer(16), looped(16), narrow(8), left_out(16, Activation::kNone, {.float8 = false});
  looped.build({DType::kF32, {2, 16}});
  layer(ones({2, 16}));
  CaptureOptions options = in_float8();
  options.passes.precision = Precision::kMixedBf16;
  auto other = capture([&](const Tensor& in) { return layer(in); }, options);
  other(ones({2, 16}));
  EXPECT_TRUE(layer.named_buffers().empty());
  auto others = capture([&](const Tensor& in) { return narrow(left_out(in)); }, in_float8());
  others(ones({2, 16}));
  EXPECT_FALSE(has_op(others.graph(), "matmul_float8"));
  auto loop = capture(
      [&](const Tensor& in) {
        return while_loop([](std::span<const Tensor> state) { return state[0] < 3.0; },
                          [&](std::span<const Tensor> state) {
                            return std::vector<Tensor>{state[0] + 1.0, looped(state[1])};
                          },
                          {scalar(0, DType::kI64), in})[1];
      },
      in_float8());
  loop(ones({2, 16}));
  EXPECT_TRUE(looped.named_buffers().empty());
}

TEST(DenseInFloat8, LearnsAsInF32AndItsWeightsGoOnWhereTheyWere) {
  const Tensor x = normal_batch({64, 16}, 1);
  const Tensor y = sum(x, {1}, true) * 0.3;
  const auto make = [] {
    set_initializer_seed(3);
    return mlp({32, 16, 1});
  };
  const auto train = [&](Module& model, Precision precision, int steps) {
    optim::Optimizer optimizer{optim::Adam({.learning_rate = 0.01})};
    CaptureOptions options;
    options.passes.precision = precision;
    auto step = capture(
        [&](const Tensor& in, const Tensor& target) {
          const Tensor loss = mean_squared_error(model(in), target);
          optimizer.minimize(loss, model.parameters());
          return loss;
        },
        options);
    double loss = 0;
    for (int i = 0; i < steps; ++i) loss = step(x, y).template item<float>();
    return loss;
  };
  auto full = make(), low = make();
  const double want = train(full, Precision::kF32, 300), got = train(low, Precision::kMixedFp8, 300);
  EXPECT_LT(want, 0.01);
  EXPECT_LT(got, 0.02);
  const TempFolder folder;
  save_weights(low, folder / "w.safetensors");
  auto loaded = make();
  train(loaded, Precision::kMixedFp8, 1);
  load_weights(loaded, folder / "w.safetensors");
  for (size_t i = 0; i < low.named_buffers().size(); ++i)
    EXPECT_EQ(loaded.named_buffers()[i].second.tensor().to_vector(),
              low.named_buffers()[i].second.tensor().to_vector());
  EXPECT_EQ(low.named_buffers().size(), 6u) << "two layers of which units are a multiple of 16";
  auto fresh = make();
  fresh.build(x.spec());
  EXPECT_EQ(load_weights(fresh, folder / "w.safetensors").loaded, 6u);
  save_weights(fresh, folder / "f.safetensors");
  load_weights(loaded, folder / "f.safetensors");
}

}  // namespace
}  // namespace isochron::nn
