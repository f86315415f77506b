// Callbacks: their order, and the behavior of the built-in callbacks.
#include "isochron/train/callbacks/callbacks.h"

#include <gmock/gmock.h>

#include <fstream>
#include <limits>
#include <memory>

#include "isochron/core/files/file.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/loop/trainer.h"
#include "support/expect_error.h"
#include "support/file_size_limit.h"
#include "support/temp_folder.h"

namespace isochron::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Three batches of two rows; a step only tallies.
struct Loop {
  data::TupleDataset<1> batches = data::from_tensor_slices(ones({6})).batch(2);
  data::TupleDataset<1> validation = data::from_tensor_slices(ones({2})).batch(2);
  BatchFunction function = [](const data::Element& batch) { return mean(batch[0]); };
  Trainer trainer{BatchFunctions{.train = function, .evaluate = function}};

  History fit(std::vector<Callback*> callbacks, int epochs) {
    return trainer.fit(batches, {.epochs = epochs,
                                 .validation_data = validation,
                                 .callbacks = std::move(callbacks),
                                 .report_every = 2,
                                 .progress = nullptr});
  }
};

class Log : public Callback {
 public:
  Log(std::string name, std::vector<std::string>& lines) : name_(std::move(name)), lines_(lines) {}
  void on_train_begin(RunState& run) override { add("begin", run); }
  void on_epoch_begin(RunState& run) override { add("epoch begin", run); }
  void on_batch_end(RunState& run, const Results& results) override { add("batch " + results.str(), run); }
  void on_epoch_end(RunState& run, const Results& results) override { add("epoch " + results.str(), run); }
  void on_train_end(RunState& run) override { add("end", run); }

 private:
  void add(const std::string& what, const RunState& run) {
    lines_.push_back(fmt::format("{}{}.{} {}", name_, run.epoch, run.step, what));
  }
  std::string name_;
  std::vector<std::string>& lines_;
};

TEST(Callback, AreCalledInOrder) {
  std::vector<std::string> lines;
  Log a("a", lines), b("b", lines);
  Loop().fit({&a, &b}, 2);
  EXPECT_THAT(lines, ElementsAre("a0.0 begin", "b0.0 begin",                                        //
                                 "a1.0 epoch begin", "b1.0 epoch begin",                            //
                                 "a1.2 batch loss 1", "b1.2 batch loss 1",                          //
                                 "a1.3 epoch loss 1  val_loss 1", "b1.3 epoch loss 1  val_loss 1",  //
                                 "a2.0 epoch begin", "b2.0 epoch begin",                            //
                                 "a2.2 batch loss 1", "b2.2 batch loss 1",                          //
                                 "a2.3 epoch loss 1  val_loss 1", "b2.3 epoch loss 1  val_loss 1",  //
                                 "a2.3 end", "b2.3 end"));
}

TEST(Callback, StopEndsTheEpochAfterTheStep) {
  LambdaCallback stop({.on_batch_end = [](RunState& run, const Results&) {
    run.stop("first");
    run.stop("second");
  }});
  const History history = Loop().fit({&stop}, 5);
  EXPECT_EQ(history.stopped, "first");
  ASSERT_EQ(history.epochs().size(), 1u);
  EXPECT_EQ(history.epochs()[0].steps, 2);
}

/// Calls a callback as a run with one of these values per epoch would. Returns the epoch in which it stops, 0
/// if none.
int epochs_until_stop(Callback& callback, const std::vector<double>& values, const Variable& weights = {}) {
  RunState run{.epochs = static_cast<int>(values.size()), .names = {"loss", "val_loss"}, .stop_reason = {}};
  callback.on_train_begin(run);
  int stopped = 0;
  for (const double value : values) {
    ++run.epoch;
    if (weights.defined()) weights.assign(full({1}, run.epoch));
    callback.on_epoch_end(run, {{"loss", 1}, {"val_loss", value}});
    if (!run.stop_reason.empty()) {
      stopped = run.epoch;
      break;
    }
  }
  callback.on_train_end(run);
  return stopped;
}

TEST(EarlyStopping, WaitsForPatienceAndRestoresTheBest) {
  struct Model : nn::Module {
    Tensor forward(const Tensor& x) override { return x; }
    void members(nn::Members& list) override { list("weights", weights).buffer("mean", mean); }
    Variable weights{zeros({1}), "weights"}, mean{zeros({1}), "mean"};
  } model;
  const Variable& weights = model.weights;
  EarlyStopping stopping({.patience = 2, .restore_best = &model});
  EXPECT_EQ(epochs_until_stop(stopping, {5, 3, 4, 2, 2, 2.5, 1}, weights), 6);
  EXPECT_EQ(stopping.best_epoch(), 4);
  EXPECT_EQ(stopping.best(), 2);
  EXPECT_EQ(weights.tensor().item<int>(), 4);
  EXPECT_EQ(epochs_until_stop(stopping, {5, 4, 3}), 0) << "every run begins anew";
  EXPECT_EQ(stopping.best_epoch(), 3);
}

TEST(EarlyStopping, MindsModeDeltaAndNaN) {
  EarlyStopping highest({.mode = Mode::kMax});
  EXPECT_EQ(epochs_until_stop(highest, {1, 2, 3, 3, 4}), 4);
  EarlyStopping delta({.min_delta = 0.5});
  EXPECT_EQ(epochs_until_stop(delta, {5, 4, 3.6, 1}), 3);
  EarlyStopping nan;
  EXPECT_EQ(epochs_until_stop(nan, {5, std::numeric_limits<double>::quiet_NaN(), 1}), 2);
  EXPECT_EQ(epochs_until_stop(nan, {std::numeric_limits<double>::quiet_NaN(), 1}), 1);
}

TEST(Modes, AreToldByTheMonitorsName) {
  for (const char* name : {"loss", "val_loss", "val_mean_squared_error", "mae", "Perplexity"})
    EXPECT_EQ(resolved_mode(Mode::kAuto, name, "test"), Mode::kMin) << name;
  for (const char* name : {"accuracy", "val_top_5_accuracy", "val_auc", "f1", "mean_iou"})
    EXPECT_EQ(resolved_mode(Mode::kAuto, name, "test"), Mode::kMax) << name;
  EXPECT_EQ(resolved_mode(Mode::kMin, "accuracy", "test"), Mode::kMin);
  for (const char* name : {"margin", "accuracy_loss", "glossary"})
    EXPECT_ERROR(resolved_mode(Mode::kAuto, name, "test"), ErrorCode::kInvalidArgument,
                 "doesn't tell whether smaller or larger is better; set mode to Mode::kMin or Mode::kMax");
  EXPECT_ERROR(EarlyStopping({.monitor = "margin"}), ErrorCode::kInvalidArgument, "[early_stopping]");
  optim::Sgd optimizer;
  EXPECT_ERROR(ReduceLearningRateOnPlateau(optimizer, {.monitor = "margin"}), ErrorCode::kInvalidArgument,
               "the name 'margin'");
  EXPECT_ERROR(ModelCheckpoint({.filepath = "best", .monitor = "margin", .save_top_k = 1}),
               ErrorCode::kInvalidArgument, "the name 'margin'");
  EXPECT_NO_THROW(ModelCheckpoint({.filepath = "all", .monitor = "margin"})) << "which it doesn't look at";
  EXPECT_THAT(EarlyStopping({.monitor = "accuracy"}).settings(), testing::HasSubstr("the largest accuracy"));
}

TEST(EarlyStopping, RefusesAMonitorThatNothingMeasures) {
  EarlyStopping typo({.monitor = "val_accuracy"});
  EXPECT_ERROR(Loop().fit({&typo}, 3), ErrorCode::kInvalidArgument,
               "there is no result 'val_accuracy'; results are loss, val_loss");
  EXPECT_ERROR(EarlyStopping({.patience = -1}), ErrorCode::kInvalidArgument, "patience");
  EXPECT_ERROR(EarlyStopping({.min_delta = -1}), ErrorCode::kInvalidArgument, "min_delta");
}

TEST(ReduceLearningRate, UnderAScheduleIsRefusedAtTheBeginning) {
  optim::Sgd optimizer({.learning_rate = optim::cosine(0.1, 10)});
  ReduceLearningRateOnPlateau reduce(optimizer);
  EXPECT_ERROR(Loop().fit({&reduce}, 1), ErrorCode::kInvalidArgument,
               "a schedule computes the learning rate");
}

TEST(LearningRateScheduler, ReachesTheCapturedStep) {
  const Variable weight(zeros({1}), "weight");
  optim::Sgd optimizer({.learning_rate = 1});
  std::vector<double> weights;
  Trainer trainer({.train = [&](const data::Element& batch) {
    const Tensor loss = mean(batch[0] * weight.tensor());  // its gradient is 1
    optimizer.minimize(loss, std::vector{weight});
    return loss;
  }});
  LearningRateScheduler halve(optimizer, [](int epoch, double rate) { return epoch == 1 ? rate : rate / 2; });
  LambdaCallback watch({.on_epoch_end = [&](RunState&, const Results&) {
    weights.push_back(weight.tensor().item<double>());
  }});
  auto batches = data::from_tensor_slices(ones({4})).batch(4);
  trainer.fit(batches, {.epochs = 3, .callbacks = {&halve, &watch}, .progress = nullptr});
  EXPECT_THAT(weights, ElementsAre(-1, -1.5, -1.75));
  EXPECT_EQ(trainer.step().traces().size(), 1u);
}

/// The learning rates after each epoch of `values`.
std::vector<double> rates_of(const ReduceLearningRateOnPlateauOptions& options,
                             const std::vector<double>& values, size_t resume_before = 0) {
  optim::Sgd optimizer({.learning_rate = 1});
  auto callback = std::make_unique<ReduceLearningRateOnPlateau>(optimizer, options);
  RunState run{.epochs = 100, .names = {"val_loss"}};
  callback->on_train_begin(run);
  std::vector<double> rates;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0 && i == resume_before) {
      const std::string state = callback->state();
      callback = std::make_unique<ReduceLearningRateOnPlateau>(optimizer, options);
      callback->on_train_begin(run);
      callback->restore(run, state);
    }
    ++run.epoch;
    callback->on_epoch_end(run, {{"val_loss", values[i]}});
    rates.push_back(optimizer.learning_rate());
  }
  return rates;
}

TEST(ReduceLearningRateOnPlateau, ReducesAfterPatienceAndCoolsDown) {
  const std::vector<double> values = {5, 5, 5, 5, 5, 5, 4, 4, 4, 4, 4};
  // What Keras 3.15.1 gives: tests/golden/make_plateau_keras.py.
  const std::vector<double> cooled = {1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125};
  const ReduceLearningRateOnPlateauOptions options = {.factor = 0.5, .patience = 2, .cooldown = 2};
  EXPECT_EQ(rates_of(options, values), cooled);
  for (size_t i = 1; i < values.size(); ++i)
    EXPECT_EQ(rates_of(options, values, i), cooled) << "resumed at " << i;
  EXPECT_THAT(rates_of({.factor = 0.5, .patience = 1, .min_learning_rate = 0.4}, {5, 5, 5, 5}),
              ElementsAre(1, 0.5, 0.4, 0.4));
  EXPECT_THAT(rates_of({.factor = 0.5, .patience = 1, .min_delta = 0.5}, {5, 4.6, 4.4, 4.4}),
              ElementsAre(1, 0.5, 0.5, 0.25));
  EXPECT_THAT(rates_of({.mode = Mode::kMax, .factor = 0.5, .patience = 1}, {5, 6, 6}),
              ElementsAre(1, 1, 0.5));
  optim::Sgd optimizer;
  EXPECT_ERROR(ReduceLearningRateOnPlateau(optimizer, {.factor = 1}), ErrorCode::kInvalidArgument, "factor");
  EXPECT_ERROR(ReduceLearningRateOnPlateau(optimizer, {.patience = -1}), ErrorCode::kInvalidArgument,
               "patience");
  ReduceLearningRateOnPlateau plateau(optimizer);
  EXPECT_ERROR(plateau.restore({}, "1 2"), ErrorCode::kBadFormat, "'1 2' is not the state of this callback");
  EXPECT_ERROR(plateau.restore({}, "1 2 3 4"), ErrorCode::kBadFormat, "reduce_learning_rate_on_plateau");
  EXPECT_ERROR(plateau.restore({}, "x 2 3"), ErrorCode::kBadFormat, "state");
}

TEST(EarlyStopping, MindsBaselineAndStart) {
  EarlyStopping baseline({.patience = 2, .baseline = 3});
  EXPECT_EQ(epochs_until_stop(baseline, {5, 4, 3.5, 3.4}), 0) << "improving each time";
  EarlyStopping waits({.patience = 2, .baseline = 3});
  EXPECT_EQ(epochs_until_stop(waits, {5, 5, 2}), 2)
      << "an improvement that misses the baseline doesn't wait anew";
  EarlyStopping late({.start_from_epoch = 3});
  EXPECT_EQ(epochs_until_stop(late, {1, 2, 3, 4}), 4);
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(CsvLogger, WritesARowAnEpochAndAppends) {
  const TempFolder folder;
  const std::filesystem::path path = folder / "log.csv";
  std::ofstream(path) << "old content that is longer than what comes now, so that it must be cut off\n\n\n";
  CsvLogger log(path);
  Loop().fit({&log}, 2);
  EXPECT_EQ(text_of(path), "epoch,loss,val_loss\n1,1,1\n2,1,1\n");
  CsvLogger more(path, {.append = true});
  Loop().fit({&more}, 1);
  EXPECT_EQ(text_of(path), "epoch,loss,val_loss\n1,1,1\n2,1,1\n1,1,1\n");
  CsvLogger other(path, {.separator = ';', .append = true});
  EXPECT_ERROR(Loop().fit({&other}, 1), ErrorCode::kInvalidArgument, "its header is 'epoch,loss,val_loss'");
  CsvLogger elsewhere(folder / "new" / "log.csv");
  Loop().fit({&elsewhere}, 1);
  EXPECT_EQ(text_of(folder / "new" / "log.csv"), "epoch,loss,val_loss\n1,1,1\n")
      << "in a folder that it makes";
  CsvLogger lost(path / "log.csv");  // in a file
  EXPECT_ERROR(Loop().fit({&lost}, 1), ErrorCode::kIo, "log.csv");
}

TEST(CsvLogger, HalfALineIsTakenBack) {
  const TempFolder folder;
  const std::filesystem::path path = folder / "log.csv";
  RunState run{.epochs = 3, .names = {"loss"}};
  CsvLogger log(path);
  log.on_train_begin(run);
  run.epoch = 1;
  log.on_epoch_end(run, {{"loss", 0.5}});
  const std::string whole = text_of(path);
  run.epoch = 2;
  {
    const FileSizeLimit full(whole.size() + 3);
    EXPECT_ERROR(log.on_epoch_end(run, {{"loss", 0.25}}), ErrorCode::kIo, "cannot write: File too large");
  }
  EXPECT_EQ(text_of(path), whole);
  log.on_epoch_end(run, {{"loss", 0.25}});
  EXPECT_EQ(text_of(path), whole + "2,0.25\n");
}

TEST(CsvLogger, AResumedRunCutsOffWhatCameAfterTheCheckpoint) {
  const TempFolder folder;
  const std::filesystem::path path = folder / "log.csv";
  RunState run{.epochs = 3, .names = {"loss"}};
  std::string state;
  {
    CsvLogger log(path);
    log.on_train_begin(run);
    run.epoch = 1;
    log.on_epoch_end(run, {{"loss", 0.5}});
    state = log.state();
    run.epoch = 2;
    log.on_epoch_end(run, {{"loss", 0.25}});
  }
  CsvLogger log(path);
  log.on_train_begin(run);
  log.restore(run, state);
  EXPECT_EQ(text_of(path), "epoch,loss\n1,0.5\n2,0.25\n")
      << "a run that isn't resumed after all cuts nothing";
  log.on_epoch_end(run, {{"loss", 0.125}});
  log.on_train_end(run);
  EXPECT_EQ(text_of(path), "epoch,loss\n1,0.5\n2,0.125\n");
}

TEST(CsvLogger, AResumedRunGoesOnBehindWholeLinesUnderTheSameHeader) {
  const TempFolder folder;
  const std::filesystem::path path = folder / "log.csv";
  RunState run{.epoch = 3, .epochs = 3, .names = {"loss"}};
  const auto resumed = [&](const std::string& content, int64_t length) {
    write_file_atomically(path, content);
    CsvLogger log(path);
    log.on_train_begin(run);
    log.restore(run, std::to_string(length));
    log.on_epoch_end(run, {{"loss", 0.125}});
    log.on_train_end(run);
    return text_of(path);
  };
  // The power failed before all of the file was on the disk.
  EXPECT_EQ(resumed("epoch,loss\n1,0.5\n2,0.2", 24), "epoch,loss\n1,0.5\n3,0.125\n");
  EXPECT_EQ(resumed("epoch,lo", 24), "epoch,loss\n3,0.125\n");
  EXPECT_ERROR(resumed("epoch,loss,val_loss\n1,0.5,0.5\n", 31), ErrorCode::kInvalidArgument,
               "its header is 'epoch,loss,val_loss', but this run's is 'epoch,loss'");
  write_file_atomically(path, "epoch,loss\n1,0.5\n2,0.2");
  CsvLogger appending(path, {.append = true});
  appending.on_train_begin(run);
  appending.on_epoch_end(run, {{"loss", 0.125}});
  appending.on_train_end(run);
  EXPECT_EQ(text_of(path), "epoch,loss\n1,0.5\n3,0.125\n");
}

TEST(SwapWeights, ValidatesWithOthersAndEndsWithThem) {
  std::vector<std::string> lines;
  SwapWeights swap([&] { lines.push_back("swap"); });
  Log log("", lines);
  Loop().fit({&swap, &log}, 1);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "swap"), 3);
  EXPECT_EQ(lines.back(), "1.3 end");
  EXPECT_EQ(lines[lines.size() - 2], "swap") << "for good";
}

/// One weight, which is 100 + epoch in training, and the value that replaces it in the validation.
struct Averaged : nn::Module {
  Tensor forward(const Tensor& x) override { return x; }
  void members(nn::Members& list) override { list("weight", weight); }
  void swap() {
    const Tensor before = copy(weight.tensor());
    weight.assign(average.tensor());
    average.assign(before);
  }
  History fit(std::vector<Callback*> callbacks) {
    LambdaCallback epoch({.on_epoch_begin = [this](RunState& run) {
      weight.assign(full({}, 100 + run.epoch));
      average.assign(full({}, std::abs(run.epoch - 2)));  // the second epoch's is best
    }});
    callbacks.push_back(&epoch);
    const auto loss = [this](const data::Element& batch) { return mean(batch[0]) * weight.tensor(); };
    Trainer trainer(BatchFunctions{.train = loss, .evaluate = loss, .weights = [this] {
                                     return NamedVariables{{"weight", weight}};
                                   }});
    auto batches = data::from_tensor_slices(ones({2})).batch(2), validation = batches;
    return trainer.fit(
        batches,
        {.epochs = 4, .validation_data = validation, .callbacks = std::move(callbacks), .progress = nullptr});
  }
  Variable weight{zeros({}), "weight"}, average{zeros({}), "average", false};
};

TEST(SwapWeights, WhatIsRestoredIsWhatWasJudged) {
  for (const bool first : {false, true}) {
    for (const bool keep_at_end : {false, true}) {
      for (const char* monitor : {"val_loss", "loss"}) {
        Averaged model;
        SwapWeights swap([&] { model.swap(); }, keep_at_end);
        EarlyStopping best({.monitor = monitor, .patience = 9, .restore_best = &model});
        model.fit(first ? std::vector<Callback*>{&swap, &best} : std::vector<Callback*>{&best, &swap});
        const bool averaged = best.best_epoch() == 2;
        EXPECT_EQ(averaged, monitor == std::string("val_loss"));
        EXPECT_EQ(model.weight.tensor().item<double>(), averaged ? 0 : 101)
            << monitor << keep_at_end << first;
      }
    }
  }
}

TEST(SwapWeights, AveragesOfAnOptimizerAreValidatedAndKept) {
  for (const bool keep_at_end : {false, true}) {
    nn::Dense model(1, nn::Activation::kNone, {.bias = false});
    optim::Sgd optimizer({.learning_rate = 0.25, .step = {.ema_decay = 0.5}});
    auto batches = data::from_tensor_slices(ones({4, 1}), full({4, 1}, 3.0)).batch(2), validation = batches;
    Trainer trainer{model, nn::mean_squared_error, optimizer};
    SwapWeights swap(optimizer, keep_at_end);
    std::vector<double> validated;
    const auto weight = [&] { return model.parameters()[0].tensor().item<double>(); };
    LambdaCallback after({.on_epoch_end = [&](RunState&, const Results& results) {
      const double trained = weight(), loss = results["val_loss"];
      validated.push_back(3 - std::sqrt(loss));
      EXPECT_GT(std::abs(trained - validated.back()), 1e-3) << "another weight was validated";
    }});
    const FitOptions options{
        .epochs = 2, .validation_data = validation, .callbacks = {&swap, &after}, .progress = nullptr};
    trainer.fit(batches, options);
    ASSERT_EQ(validated.size(), 2u);
    EXPECT_EQ(std::abs(weight() - validated.back()) < 1e-5, keep_at_end);
    EXPECT_NO_THROW(trainer.fit(batches, options)) << "a step can run again";
  }
}

TEST(SwapWeights, TwoOfTheSameWeights) {
  // Each keeps something else in the place of the one weight.
  double weight = 1, first = 2, second = 3;
  bool fails = false;
  SwapWeights outer([&] { std::swap(weight, first); }, false);
  SwapWeights inner(
      [&] {
        if (fails) throw std::runtime_error("no memory");
        std::swap(weight, second);
      },
      false);
  const auto expect_as_before = [&] {
    EXPECT_EQ((std::vector{weight, first, second}), (std::vector<double>{1, 2, 3}));
  };
  RunState run;
  outer.on_train_begin(run);
  inner.on_train_begin(run);
  run.with_weights_of("val_loss", [&] { EXPECT_EQ(weight, 3); });
  expect_as_before();
  fails = true;
  EXPECT_THROW(run.with_weights_of("val_loss", [] { FAIL(); }), std::runtime_error);
  expect_as_before();

  const auto fit = [&] {
    const auto loss = [](const data::Element& batch) { return mean(batch[0]); };
    Trainer trainer(BatchFunctions{.train = loss, .evaluate = loss});
    auto batches = data::from_tensor_slices(ones({2})).batch(2), validation = batches;
    trainer.fit(
        batches,
        {.epochs = 2, .validation_data = validation, .callbacks = {&outer, &inner}, .progress = nullptr});
  };
  EXPECT_ANY_THROW(fit());
  expect_as_before();
  fails = false;
  fit();
  expect_as_before();
}

TEST(SwapWeights, WhatIsSavedAsBestIsWhatWasJudged) {
  for (const bool asynchronous : {false, true}) {
    const TempFolder folder;
    Averaged model;
    SwapWeights swap([&] { model.swap(); });
    const auto options = [&](const char* name, const char* monitor, bool best) {
      return ModelCheckpointOptions{.filepath = folder / name,
                                    .save_weights_only = true,
                                    .monitor = monitor,
                                    .save_best_only = best,
                                    .asynchronous = asynchronous};
    };
    ModelCheckpoint judged(options("judged", "val_loss", true)), trained(options("trained", "loss", true)),
        newest(options("newest", "val_loss", false));
    model.fit({&judged, &swap, &trained, &newest});
    const auto saved = [&](const char* name) {
      return Checkpoint(folder / (name + std::string(".safetensors"))).read("weight").item<double>();
    };
    EXPECT_EQ(saved("judged"), 0);
    EXPECT_EQ(saved("trained"), 101);
    EXPECT_EQ(saved("newest"), 104);
  }
}

TEST(SwapWeights, SwapsBackWhenTheValidationFails) {
  int swapped = 0;
  SwapWeights swap([&] { ++swapped; });
  Trainer trainer({.train = [](const data::Element& batch) { return mean(batch[0]); },
                   .evaluate = [](const data::Element& batch) { return mean(batch[0]); }});
  auto batches = data::from_tensor_slices(ones({4})).batch(4);
  int calls = 0;
  auto failing = data::from_tensor_slices(ones({4}))
                     .map([&](const Tensor& x) {
                       if (++calls > 1) throw std::runtime_error("disk gone");
                       return x;
                     })
                     .batch(4);
  EXPECT_ERROR(trainer.fit(batches, {.validation_data = failing, .callbacks = {&swap}, .progress = nullptr}),
               ErrorCode::kInvalidArgument, "disk gone");
  EXPECT_EQ(swapped, 2);
}

TEST(History, KeepsTheNewestEpochsAndWritesCsv) {
  History history;
  for (int epoch = 1; epoch <= static_cast<int>(History::kMaxEpochs) + 2; ++epoch) {
    history.add({.epoch = epoch, .steps = 4, .seconds = 0.5, .step_p50_ns = 100, .results = {{"loss", 2}}});
  }
  EXPECT_EQ(history.epochs().size(), History::kMaxEpochs);
  EXPECT_EQ(history.dropped_epochs, 2);
  EXPECT_EQ(history.epochs().front().epoch, 3);
  History two;
  two.add({.epoch = 1, .steps = 4, .seconds = 0.5, .step_p50_ns = 100, .results = {{"loss", 2}}});
  two.add({.epoch = 2,
           .steps = 4,
           .seconds = 0.25,
           .step_p50_ns = 90,
           .results = {{"loss", 1}, {"val_loss", 3}}});
  EXPECT_EQ(two.csv(), "epoch,steps,seconds,step_p50_ns,loss,val_loss\n1,4,0.5,100,2,\n2,4,0.25,90,1,3\n");
  History odd;
  odd.add({.epoch = 1, .steps = 4, .seconds = 0.5, .step_p50_ns = 100, .results = {{"of \"a\", in all", 2}}});
  EXPECT_EQ(odd.csv(), "epoch,steps,seconds,step_p50_ns,\"of \"\"a\"\", in all\"\n1,4,0.5,100,2\n");
  EXPECT_EQ(two.last()["val_loss"], 3);
  EXPECT_THAT(two.values("loss"), ElementsAre(2, 1));
  EXPECT_ERROR(two.last()["acc"], ErrorCode::kInvalidArgument, "no result 'acc'; results are loss, val_loss");
  EXPECT_ERROR(History().last(), ErrorCode::kInvalidArgument, "no epoch");
}

}  // namespace
}  // namespace isochron::train
