// Design rule 11: training with the same seed, number of threads and recorded choices gives the same bits,
// and so it does with choices made by rule.
#include <gtest/gtest.h>

#include <functional>

#include "isochron/backends/common/choices.h"
#include "isochron/core/base/rng.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/models/gpt.h"
#include "isochron/nn/models/models.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/optim/optimizers.h"

namespace isochron {
namespace {

constexpr int kSteps = 6;

Tensor numbers(const Shape& shape, Rng& rng) {
  return from_vector(shape, nn::init::normal(0, 1)(shape, rng));
}
Tensor classes(const Shape& shape, int64_t count, Rng& rng) {
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = static_cast<double>(rng.below(static_cast<uint64_t>(count)));
  return from_vector(shape, values, DType::kI32);
}

using Loss = std::function<Tensor(nn::Module&, const Tensor&, const Tensor&)>;
struct Task {
  std::function<std::unique_ptr<nn::Module>()> model;
  std::function<std::pair<Tensor, Tensor>(Rng&)> batch;
  Loss loss;
};

/// Losses of the steps, then every weight.
std::vector<std::vector<double>> train(const Task& task, uint64_t seed) {
  random::set_seed(seed);
  Rng rng(seed);
  const std::unique_ptr<nn::Module> model = task.model();
  optim::AdamW optimizer({.learning_rate = 1e-3});
  auto step = capture([&](const Tensor& x, const Tensor& y) {
    Tensor loss = task.loss(*model, x, y);
    optimizer.minimize(loss, model->parameters());
    return loss;
  });
  std::vector<std::vector<double>> results(1);
  for (int i = 0; i < kSteps; ++i) {
    const auto [x, y] = task.batch(rng);
    results[0].push_back(step(x, y).item<double>());
  }
  for (const Variable& weight : model->parameters()) results.push_back(weight.tensor().to_vector());
  return results;
}

/// Trains like another process that restored the recorded choices of the first; then by rule, twice. Returns
/// the number of choices made by timing.
size_t expect_reproducible(const Task& task) {
  ops::forget_choices();
  const auto first = train(task, 3);
  const std::map<std::string, std::string> choices = ops::recorded_choices();
  ops::forget_choices();
  ops::restore_choices(choices);
  EXPECT_EQ(train(task, 3), first);
  EXPECT_EQ(ops::recorded_choices(), choices) << "something was timed again";
  EXPECT_NE(train(task, 4)[0], first[0]) << "the seed must matter";

  ops::set_deterministic(true);
  ops::forget_choices();
  const auto by_rule = train(task, 3);
  EXPECT_TRUE(ops::recorded_choices().empty());
  EXPECT_EQ(train(task, 3), by_rule);
  ops::set_deterministic(false);
  ops::forget_choices();
  return choices.size();
}

TEST(ReproducibleTraining, OfAConvolutionalNetworkWithDropout) {
  const size_t timed = expect_reproducible(
      {.model =
           [] {
             auto model = std::make_unique<nn::Sequential>(nn::lenet());
             model->append(nn::Dropout(0.1));
             return model;
           },
       .batch =
           [](Rng& rng) {
             Tensor x = numbers({32, 28, 28, 1}, rng);
             return std::pair(x, classes({32}, 10, rng));
           },
       .loss = [](nn::Module& model, const Tensor& x,
                  const Tensor& y) { return nn::sparse_softmax_cross_entropy(model(x), y); }});
  EXPECT_GT(timed, 0u);
}

TEST(ReproducibleTraining, OfAnLstm) {
  expect_reproducible({.model = [] { return std::make_unique<nn::Sequential>(nn::lstm_forecaster(32, 2)); },
                       .batch =
                           [](Rng& rng) {
                             Tensor x = numbers({48, 24, 8}, rng);
                             return std::pair(x, numbers({48, 1}, rng));
                           },
                       .loss = [](nn::Module& model, const Tensor& x,
                                  const Tensor& y) { return nn::mean_squared_error(model(x), y); }});
}

TEST(ReproducibleTraining, OfAGpt) {
  const nn::GptOptions options{
      .vocabulary = 65, .context = 32, .layers = 2, .heads = 4, .width = 64, .dropout = 0.1};
  expect_reproducible({.model = [=] { return std::make_unique<nn::Gpt>(options); },
                       .batch =
                           [](Rng& rng) {
                             Tensor x = classes({8, 32}, 65, rng);
                             return std::pair(x, classes({8 * 32}, 65, rng));
                           },
                       .loss =
                           [](nn::Module& model, const Tensor& x, const Tensor& y) {
                             return nn::sparse_softmax_cross_entropy(reshape(model(x), {-1, 65}), y);
                           }});
}

}  // namespace
}  // namespace isochron
