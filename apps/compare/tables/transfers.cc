// NaN and infinity: which culprit is reported, and the cost of checking for them.
#include "isochron/apps/compare/tables/transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "isochron/apps/compare/tables/measure.h"
#include "isochron/core/base/error.h"
#include "isochron/core/base/rng.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/graph/capture/variable.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::apps {
namespace {

using observe::duration_text;

constexpr int64_t kRows = 320, kFeatures = 100, kBatch = 32;

Tensor uniform(const Shape& shape, Rng& rng) {
  Tensor result = empty({DType::kF32, shape});
  for (float& value : result.span<float>()) value = static_cast<float>(rng.uniform());
  return result;
}

/// A training on random numbers. Its data, loss or learning rate can be corrupted before it begins.
struct Spoilt {
  const Device device;
  Tensor x, y;
  nn::Sequential model{nn::Dense(32, nn::Activation::kRelu), nn::Dense(1)};
  optim::Sgd optimizer{{.learning_rate = 0.01}};

  explicit Spoilt(Device where) : device(where) {
    Rng rng(5);
    x = uniform({kRows, kFeatures}, rng);
    y = uniform({kRows, 1}, rng);
  }
  data::Dataset batches() const { return data::Dataset({{"x", x}, {"y", y}}).batch(kBatch); }
  train::Trainer trainer(const train::Loss& loss) {
    train::BatchFunctions functions = train::supervised(model, loss, optimizer);
    functions.device = device;
    return train::Trainer(std::move(functions));
  }
  /// The error message of a fit, without the advice at its end.
  std::string verdict(const train::Loss& loss) {
    train::Trainer trained = trainer(loss);
    data::Dataset data = batches();
    try {
      trained.fit(data, {.epochs = 3, .progress = nullptr});
    } catch (const Error& error) {
      const std::string text = error.what();
      return text.substr(0, text.find("; lower the learning rate"));
    }
    return "nothing";
  }
};

std::string of_data(Device device) {
  Spoilt training(device);
  training.x.span<float>()[static_cast<size_t>(170 * kFeatures + 7)] =
      std::numeric_limits<float>::quiet_NaN();
  return training.verdict(nn::mean_squared_error);
}

std::string of_loss(Device device) {
  Spoilt training(device);
  return training.verdict(
      [](const Tensor& prediction, const Tensor&) { return mean(log(prediction - 100.0)); });
}

std::string of_gradient(Device device) {
  Spoilt training(device);
  // The root's value is 0, but its derivative is infinite.
  return training.verdict(
      [](const Tensor& prediction, const Tensor&) { return mean(sqrt(prediction - prediction)); });
}

std::string of_learning_rate(Device device) {
  Spoilt training(device);
  training.optimizer.set_learning_rate(1e20);
  return training.verdict(nn::mean_squared_error);
}

}  // namespace

observe::Table culprits_table(Device device) {
  return {.title = "NaN and infinity, inserted one at a time",
          .columns = {"inserted", "what fit reports"},
          .rows = {{"a NaN in row 170 of the data", of_data(device)},
                   {"the logarithm of negative numbers as the loss", of_loss(device)},
                   {"a root at zero: finite loss, infinite gradient", of_gradient(device)},
                   {"a learning rate of 1e20", of_learning_rate(device)}},
          .says =
              "fit detects each of them after the step in which it appeared, and names the tensor or op that "
              "had it first. To find that, fit restores the last finite snapshot and runs the steps since "
              "then again, with every result checked."};
}

observe::Table checks_table(Device device, double seconds) {
  constexpr int kEpochs = 20;
  Spoilt training(device);
  train::Trainer trainer = training.trainer(nn::mean_squared_error);
  data::Dataset data = training.batches();
  int epochs = 0;
  const auto fit = [&](bool trace, int64_t report_every) {
    epochs += kEpochs;
    trainer.fit(data, {.epochs = epochs,
                       .initial_epoch = epochs - kEpochs,
                       .report_every = report_every,
                       .trace_not_finite = trace,
                       .progress = nullptr});
  };
  const std::function<void()> ways[] = {[&] { fit(false, 100); }, [&] { fit(true, 100); },
                                        [&] { fit(true, 1); }};
  const std::vector<double> times = times_in_turns(ways, seconds);
  const double steps = kEpochs * static_cast<double>(kRows / kBatch);
  observe::Table table{.title = "What checking for NaN and infinity costs",
                       .columns = {"what is checked", "per step", "vs the first row"},
                       .rows = {},
                       .says = ""};
  const char* names[] = {"the loss, every 100 steps", "the same, with a snapshot to find the origin",
                         "the loss, every step, with a snapshot"};
  for (size_t i = 0; i < times.size(); ++i) {
    table.rows.push_back(
        {names[i], duration_text(times[i] / steps), fmt::format("{:.3f}x", times[i] / times[0])});
  }
  table.says = fmt::format(
      "The snapshot, which allows fit to find the origin, changes the time of a step by {:+.1f} %.",
      100 * (times[1] / times[0] - 1));
  return table;
}

}  // namespace isochron::apps
