// A small network on random numbers: the model of the document on slow GPU epochs, with that document's line
// per epoch.
#include <cmath>

#include "isochron/apps/train/families.h"
#include "isochron/apps/train/session.h"
#include "isochron/core/base/clock.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/models/models.h"
#include "isochron/ops/random/random.h"

namespace isochron::apps {
namespace {

/// The mean squared error of always predicting the mean.
double error_of_mean(const Tensor& values) {
  double sum = 0, squares = 0;
  for (const float value : values.span<float>()) {
    sum += value;
    squares += double{value} * value;
  }
  const auto count = static_cast<double>(values.elems());
  return squares / count - sum / count * (sum / count);
}

void train_regress(const TrainOptions& options) {
  require(options.data.empty(), ErrorCode::kInvalidArgument, "train",
          "regress generates its own data; --data is for the other models");
  TrainSession session(options, {.epochs = 10, .batch = 32, .decay = false});
  const Tensor x = random_normal({1000, 100});
  const Tensor y = random_normal({1000, 1});
  const Tensor other_x = random_normal({200, 100}), other_y = random_normal({200, 1});
  fmt::print(
      "regress: 1000 rows of 100 standard normal numbers with random targets; 200 more for validation\n");
  nn::Sequential model = nn::mlp({10, 1});
  auto batches = session.batches(data::from_tensor_slices(x, y));
  train::Trainer trainer =
      session.trainer(train::supervised(model, nn::mean_squared_error, session.optimizer()), batches);
  int64_t began_ns = 0;
  train::LambdaCallback lines({.on_epoch_begin = [&](train::RunState&) { began_ns = now_ns(); },
                               .on_epoch_end =
                                   [&](train::RunState& run, const train::Results&) {
                                     fmt::print("Epoch {}, Time: {:.4f} seconds\n", run.epoch,
                                                static_cast<double>(now_ns() - began_ns) * 1e-9);
                                   }});
  auto others = data::from_tensor_slices(other_x, other_y).batch(200);
  session.fit(trainer, batches, {.validation_data = others, .callbacks = {&lines}, .epoch_lines = false});
  auto all = data::from_tensor_slices(x, y).batch(1000);
  const double loss = trainer.evaluate(all)["loss"], mean = error_of_mean(y);
  session.finish({.title = "A small network on random numbers",
                  .task = "the 1,000 rows it was trained on, which are random: it can only memorize them",
                  .result = fmt::format("Explained variance: {:.0f} %.", 100 * (1 - loss / mean)),
                  .measures = {"mean squared error"},
                  .compared = {{"this model", {loss}}, {"always the mean", {mean}}},
                  .test = {{"loss", loss}, {"always_the_mean_loss", mean}}});
}

}  // namespace

std::vector<TrainableModel> random_models() {
  return {{"regress", "a 100-10-1 network on random numbers", train_regress}};
}

}  // namespace isochron::apps
