// Measures what optimizers, accumulation and precision cost and save when training on the images.
#include "isochron/apps/compare/tables/long_run.h"

#include <fmt/format.h>

#include <memory>

#include "isochron/apps/compare/models/image_or_series.h"
#include "isochron/apps/compare/tables/measure.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/optim/optimizers.h"

namespace isochron::apps {
namespace {

using observe::bytes_text;
using observe::duration_text;

/// One training on the images, a captured step at a time.
class Training {
 public:
  Training(optim::Optimizer optimizer, Precision precision = Precision::kF32, int64_t batch = kLongRunBatch)
      : optimizer_(std::move(optimizer)),
        batches_(problem_.batches(batch)),
        step_("train_step", true, training(problem_, optimizer_), {.passes = {.precision = precision}}) {
    step_.prepare(batches_);
    at_.emplace(batches_.begin());
  }

  /// Trains on one batch and returns its loss.
  double step() {
    const double loss = step_.call(**at_)[0].item<float>();
    ++*at_;
    return loss;
  }
  /// Trains on `batches` batches and returns the mean loss of the `last` batches after them.
  double loss_after(int64_t batches, int64_t last) {
    for (int64_t i = 0; i < batches; ++i) step();
    double sum = 0;
    for (int64_t i = 0; i < last; ++i) sum += step();
    return sum / static_cast<double>(last);
  }
  size_t state_bytes() const { return optimizer_.state_bytes(); }
  const graph::PlanReport& plan() const { return step_.captured().plan_report(); }

 private:
  ImageOrSeries problem_ = images();
  optim::Optimizer optimizer_;
  data::Dataset batches_;
  train::BatchPlan step_;
  std::optional<data::Dataset::Iterator> at_;
};

/// Time of a step of each training, measured alternately.
std::vector<double> step_times(const std::vector<std::unique_ptr<Training>>& trainings,
                               const std::vector<int64_t>& steps, double seconds) {
  std::vector<std::function<void()>> calls;
  for (size_t i = 0; i < trainings.size(); ++i) {
    calls.push_back([training = trainings[i].get(), count = steps[i]] {
      for (int64_t s = 0; s < count; ++s) training->step();
    });
  }
  return times_in_turns(calls, seconds);
}

}  // namespace

observe::Table optimizers_table(double seconds) {
  std::vector<std::unique_ptr<Training>> trainings;
  trainings.push_back(std::make_unique<Training>(optim::Sgd()));
  trainings.push_back(std::make_unique<Training>(optim::Sgd({.momentum = 0.9})));
  trainings.push_back(std::make_unique<Training>(optim::RmsProp()));
  trainings.push_back(std::make_unique<Training>(optim::Adam()));
  const char* names[] = {"SGD", "SGD with momentum", "RMSprop", "Adam"};
  const std::vector<double> times = step_times(trainings, std::vector<int64_t>(trainings.size(), 1), seconds);
  observe::Table table{.title = "What an optimizer keeps in addition to the parameters (images)",
                       .columns = {"optimizer", "optimizer state", "arena of the step", "per step"},
                       .rows = {},
                       .says = ""};
  for (size_t i = 0; i < trainings.size(); ++i) {
    table.rows.push_back({names[i], bytes(trainings[i]->state_bytes()),
                          bytes(trainings[i]->plan().arena_bytes), duration_text(times[i])});
  }
  table.says = fmt::format(
      "Adam keeps two numbers per parameter ({} here), RMSprop one, plain SGD none. All are allocated before "
      "the first step, and none grows.",
      bytes(trainings.back()->state_bytes()));
  return table;
}

observe::Table accumulation_table(double seconds) {
  constexpr int64_t kImages = 64, kUpdates = 100;
  std::vector<std::unique_ptr<Training>> trainings;
  std::vector<int64_t> batches_an_update;
  for (const int64_t batch : {64, 32, 16, 8, 4}) {
    batches_an_update.push_back(kImages / batch);
    trainings.push_back(std::make_unique<Training>(optim::Adam({.step = {.accumulate = kImages / batch}}),
                                                   Precision::kF32, batch));
  }
  const std::vector<double> times = step_times(trainings, batches_an_update, seconds);
  observe::Table table{.title = fmt::format("{} images per update: batch size against accumulation", kImages),
                       .columns = {"batch", "batches per update", "arena", "arena vs first row", "per update",
                                   "time vs first row", fmt::format("loss after {} updates", kUpdates)},
                       .rows = {},
                       .says = ""};
  const auto ratio = [](double value, double first) { return fmt::format("{:.2f}x", value / first); };
  for (size_t i = 0; i < trainings.size(); ++i) {
    const int64_t batches = batches_an_update[i];
    const auto arena = static_cast<double>(trainings[i]->plan().arena_bytes);
    const auto first = static_cast<double>(trainings[0]->plan().arena_bytes);
    // Uses a new training, because the number of updates of the timed one depends on its speed.
    Training fresh(optim::Adam({.step = {.accumulate = batches}}), Precision::kF32, kImages / batches);
    const double loss = fresh.loss_after((kUpdates - 1) * batches, batches);
    table.rows.push_back({fmt::format("{}", kImages / batches), fmt::format("{}", batches), bytes_text(arena),
                          ratio(arena, first), duration_text(times[i]), ratio(times[i], times[0]),
                          fmt::format("{:.3f}", loss)});
  }
  table.says =
      "Smaller batches need less memory, almost in proportion, but each one adds the fixed time of a step "
      "and of a fetch. The losses differ because each training shuffles the images in its own order.";
  return table;
}

observe::Table precisions_table(double seconds) {
  const Precision precisions[] = {Precision::kF32, Precision::kMixedBf16, Precision::kMixedF16};
  const auto optimizer = [](Precision precision) {
    return optim::Adam({.step = {.loss_scale = precision == Precision::kMixedF16 ? optim::LossScale::dynamic()
                                                                                 : optim::LossScale()}});
  };
  std::vector<std::unique_ptr<Training>> trainings;
  for (const Precision precision : precisions) {
    trainings.push_back(std::make_unique<Training>(optimizer(precision), precision));
  }
  const std::vector<double> times = step_times(trainings, std::vector<int64_t>(trainings.size(), 1), seconds);
  observe::Table table{.title = "Precision (images)",
                       .columns = {"policy", "activations", "arena", "per step", "loss after 500 steps"},
                       .rows = {},
                       .says = ""};
  for (size_t i = 0; i < trainings.size(); ++i) {
    const graph::PlanReport& plan = trainings[i]->plan();
    Training fresh(optimizer(precisions[i]), precisions[i]);
    table.rows.push_back({std::string(precision_name(precisions[i])), bytes(plan.activation_bytes),
                          bytes(plan.arena_bytes), duration_text(times[i]),
                          fmt::format("{:.3f}", fresh.loss_after(450, 50))});
  }
  table.says = fmt::format(
      "16-bit floats halve the activations that the backward pass keeps. In a step this small, {} ({:.2f}x "
      "the time with bf16).",
      times[1] < times[0] ? "they also save time" : "casting costs more time than it saves",
      times[1] / times[0]);
  return table;
}

}  // namespace isochron::apps
