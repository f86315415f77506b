#include <fstream>

#include "causes/models.h"
#include "causes/planted.h"
#include "isochron/data/sources/datasets.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/layers/convolution_layers.h"
#include "isochron/nn/layers/recurrent.h"
#include "isochron/ops/control/control.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/train/callbacks/callbacks.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/callbacks/tensor_board.h"
#include "isochron/train/loop/trainer.h"
#include "support/temp_folder.h"

namespace isochron::causes {
namespace {

using observe::Phase;
using observe::PhaseScope;
using observe::Recorder;
using observe::RunReport;

/// A correct loop: planned for both batch sizes, fed by a pipeline, with the loss read in every step.
RunReport captured_and_prefetched() {
  Regression problem(1000, 32, 512);
  auto batches = problem.rows().shuffle(1000).batch(32).prefetch();
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train(x, y); },
                      batches.signatures(), {.name = "train_step"});
  auto at = batches.begin();
  double loss = 0;
  return run_loop([&](Recorder& recorder, int64_t) {
    if (at == std::default_sentinel) at = batches.begin();
    {
      const PhaseScope compute(recorder, Phase::kCompute);
      const auto& [x, y] = *at;
      loss = step(x, y).item<float>();
    }
    const PhaseScope fetch(recorder, Phase::kDataWait);
    ++at;
  });
}

RunReport op_by_op() {
  Regression problem(256);
  return run_loop([&](Recorder& recorder, int64_t) {
    const PhaseScope compute(recorder, Phase::kCompute);
    problem.train_eager(problem.x, problem.y);
  });
}

/// The same without phases, with summed losses.
RunReport op_by_op_in_no_phase() {
  Regression problem(64, 8, 16);
  problem.optimizer = optim::Sgd({.learning_rate = 1e-3});
  double sum = 0;
  return run_loop(
      [&](Recorder&, int64_t) { sum += problem.train_eager(problem.x, problem.y).item<float>(); });
}

RunReport loop_in_the_graph() {
  auto step = capture([](const Tensor& x) {
    return sum(while_loop([](std::span<const Tensor> s) { return s[0] < 200.0; },
                          [](std::span<const Tensor> s) {
                            return std::vector<Tensor>{s[0] + 1.0, s[1] * 0.99};
                          },
                          {scalar(0), x})[1]);
  });
  const Tensor x = normal({8, 8}, 3);
  return run_loop([&](Recorder&, int64_t) { static_cast<void>(step(x).item<float>()); });
}

/// Keeps three checkpoints, writes scalars and histograms for TensorBoard and a table of epochs, and
/// validates. With few and short epochs, most of the work is one-time setup.
RunReport digits_with_callbacks(int epochs, int64_t steps, int save_every) {
  const TempFolder folder;
  const data::Digits digits = data::load_digits();
  data::Dataset batches = data::Dataset({{"x", digits.train.images}, {"y", digits.train.labels}})
                              .shuffle(1000)
                              .batch(32)
                              .prefetch();
  data::Dataset validation = data::Dataset({{"x", digits.test.images}, {"y", digits.test.labels}}).batch(32);
  nn::Sequential model(nn::Conv2D(4, {3, 3}, nn::Activation::kRelu), nn::Flatten(), nn::Dense(10));
  optim::Optimizer optimizer = optim::Adam();
  train::Trainer trainer(
      model,
      [](const Tensor& logits, const Tensor& labels) {
        return nn::sparse_softmax_cross_entropy(logits, labels);
      },
      optimizer);
  train::ModelCheckpoint checkpoints(
      {.filepath = folder / "cp-{epoch:04d}", .every_epochs = save_every, .keep_last = 3});
  train::TensorBoard board(folder / "board");
  train::CsvLogger table(folder / "history.csv");
  Recorder recorder(recorder_options());
  trainer.fit(batches, {.epochs = epochs,
                        .steps_per_epoch = steps,
                        .validation_data = train::Batches(validation),
                        .callbacks = {&checkpoints, &board, &table},
                        .recorder = &recorder,
                        .progress = nullptr});
  recorder.sample();
  return make_report(recorder, "digits", report_options());
}

RunReport long_fit() { return digits_with_callbacks(60, 0, 10); }
RunReport five_epochs() { return digits_with_callbacks(5, 0, 1); }
RunReport short_epochs() { return digits_with_callbacks(60, 4, 1); }

/// Recorded from the first step on. That step is traced, as are a later step of another size and an
/// evaluation.
RunReport recorded_from_the_first_step() {
  Regression problem(256);
  const Tensor x = narrow(problem.x, 0, 0, 64), y = narrow(problem.y, 0, 0, 64);
  auto step = capture([&](const Tensor& a, const Tensor& b) { return problem.train(a, b); });
  auto evaluate = capture([&](const Tensor& a, const Tensor& b) { return problem.loss(a, b); });
  std::vector<Tensor> kept;
  return run_loop(
      [&](Recorder&, int64_t i) {
        if (i < 4) kept.push_back(zeros({100'000}));
        step(x, y);
        if (i == 40 || i == 80) evaluate(problem.x, problem.y);
      },
      {.warmup = 0, .least = 120, .seconds = 0, .most = 120});
}

RunReport forecaster() {
  const data::Co2Windows windows = data::load_co2({}, {.window_weeks = 12}).train;
  const Tensor x = reshape(windows.inputs, {windows.inputs.extent(0), 12, 1});
  data::Dataset batches =
      data::Dataset({{"x", x}, {"y", windows.targets}}).shuffle(1000).batch(64).prefetch();
  nn::Sequential model(nn::GRU(8), nn::Dense(1));
  optim::Optimizer optimizer = optim::RmsProp();
  train::Trainer trainer(model, nn::mean_squared_error, optimizer);
  Recorder recorder(recorder_options());
  trainer.fit(batches, {.epochs = 60, .recorder = &recorder, .progress = nullptr});
  recorder.sample();
  return make_report(recorder, "co2", report_options());
}

/// A vector of the newest losses, an occasional log line, one long file: bounded growth is no fault.
RunReport bounded_history() {
  Regression problem(256);
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train(x, y); });
  std::vector<float> newest(100);
  const TempFolder folder;
  return run_loop([&](Recorder& recorder, int64_t i) {
    {
      const PhaseScope compute(recorder, Phase::kCompute);
      newest[static_cast<size_t>(i) % newest.size()] = step(problem.x, problem.y).item<float>();
    }
    const PhaseScope callbacks(recorder, Phase::kCallbacks);
    std::string text;
    for (int k = 0; k < 4; ++k) text += fmt::format(" {:.3f}", newest[static_cast<size_t>(k)]);
    if (i != 500) return;
    std::ofstream summary(folder / "summary");
    for (int line = 0; line < 50'000; ++line)
      summary << "a line of a table that is as long as a line may well be, and no longer\n";
  });
}

}  // namespace

std::vector<Planted> healthy_loops() {
  return {{"", "captured, planned for both batch sizes, prefetched", captured_and_prefetched},
          {"", "op by op", op_by_op},
          {"", "op by op, in no phase", op_by_op_in_no_phase},
          {"", "a loop in the graph", loop_in_the_graph},
          {"", "digits in fit, with callbacks and checkpoints", long_fit},
          {"", "the same for five epochs, a checkpoint each", five_epochs},
          {"", "epochs of four steps, a checkpoint each", short_epochs},
          {"", "recorded from the first step on", recorded_from_the_first_step},
          {"", "a forecaster in fit", forecaster},
          {"", "a bounded history", bounded_history},
          {"", "two ranks whose work takes as long", ranks_alike}};
}

}  // namespace isochron::causes
