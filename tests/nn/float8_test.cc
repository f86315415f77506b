// Dense layers that are traced for Precision::kMixedFp8.
#include <gmock/gmock.h>

#include <cmath>

#include "isochron/core/rng.h"
#include "isochron/graph/apply.h"
#include "isochron/graph/captured.h"
#include "isochron/nn/layers.h"
#include "isochron/nn/losses.h"
#include "isochron/nn/models.h"
#include "isochron/nn/sequential.h"
#include "isochron/nn/weights.h"
#include "isochron/ops/control.h"
#include "isochron/ops/creation.h"
#include "isochron/ops/elementwise.h"
#include "isochron/ops/float8.h"
#include "isochron/ops/reduction.h"
#include "isochron/optim/optimizer.h"
#include "isochron/optim/optimizers.h"
#include "support/near.h"
#include "support/temp_folder.h"

namespace isochron::nn {
namespace {

Tensor normal(const Shape& shape, uint64_t seed) {
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
  Dense layer(5);
  optim::Optimizer optimizer{optim::Sgd({.learning_rate = 0.1})};
  const Tensor x = normal({16, 8}, 1);
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

TEST(DenseInFloat8, OtherPrecisionsAndLoopsMakeNone) {
  Dense layer(5), looped(8);
  looped.build({DType::kF32, {2, 8}});
  layer(ones({2, 8}));
  CaptureOptions options = in_float8();
  options.passes.precision = Precision::kMixedBf16;
  auto other = capture([&](const Tensor& in) { return layer(in); }, options);
  other(ones({2, 8}));
  EXPECT_TRUE(layer.named_buffers().empty());
  auto loop = capture(
      [&](const Tensor& in) {
        return while_loop([](std::span<const Tensor> state) { return state[0] < 3.0; },
                          [&](std::span<const Tensor> state) {
                            return std::vector<Tensor>{state[0] + 1.0, looped(state[1])};
                          },
                          {scalar(0, DType::kI64), in})[1];
      },
      in_float8());
  loop(ones({2, 8}));
  EXPECT_TRUE(looped.named_buffers().empty());
}

TEST(DenseInFloat8, LearnsAsInF32AndItsWeightsGoOnWhereTheyWere) {
  const Tensor x = normal({64, 12}, 1);
  const Tensor y = sum(x, {1}, true) * 0.3;
  const auto make = [] {
    set_initializer_seed(3);
    return mlp({16, 1});
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
  train(loaded, Precision::kMixedFp8, 1);  // builds
  load_weights(loaded, folder / "w.safetensors");
  for (size_t i = 0; i < low.named_buffers().size(); ++i)
    EXPECT_EQ(loaded.named_buffers()[i].second.tensor().to_vector(),
              low.named_buffers()[i].second.tensor().to_vector());
  EXPECT_EQ(low.named_buffers().size(), 6u);
}

}  // namespace
}  // namespace isochron::nn
