// A run that ends at any step and continues in new objects equals an uninterrupted run, bit for bit.
#include <gmock/gmock.h>

#include <csignal>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/normalization.h"
#include "isochron/nn/module/residual.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/checkpoint_folder.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/loop/trainer.h"
#include "support/expect_error.h"
#include "support/notices.h"
#include "support/stop_after.h"
#include "support/temp_folder.h"

namespace isochron::train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int kAllEpochs = 4;
constexpr int64_t kStepsAnEpoch = 6;  // the last of a partial batch

/// Everything that a training has state in: dropout, batch normalization, Adam, a schedule in the step,
/// shuffled batches made ahead, metrics, early stopping that keeps the best weights, a plateau.
struct ResumedTraining {
  explicit ResumedTraining(uint64_t own_seed = 3) : seed(own_seed) {
    Rng rng(7);
    std::vector<double> x, y;
    for (int row = 0; row < 42; ++row) {
      for (int i = 0; i < 5; ++i) x.push_back(rng.uniform() - 0.5);
      y.push_back(x.back() * 2 - x[x.size() - 2]);
    }
    inputs = from_vector({42, 5}, x);
    targets = from_vector({42, 1}, y);
  }

  History fit(std::vector<Callback*> more, bool counted = false, int64_t steps_per_call = 1) {
    random::set_seed(seed);
    auto batches = data::from_tensor_slices(inputs, targets).shuffle(42, {.seed = 9}).batch(8).prefetch();
    auto validation = data::from_tensor_slices(inputs, targets)  // other rows in each epoch
                          .shuffle(42, {.seed = 4})
                          .map([this](const Tensor& x, const Tensor& y) {
                            if (validation_fails) throw Stopped();
                            return std::array{x, y};
                          })
                          .take(16)
                          .batch(8);
    optimizer.set_schedule(optim::warmup(3, optim::cosine(0.02, 27)));
    Trainer trainer(model, nn::mean_squared_error, optimizer, {metric("mae", nn::MeanAbsoluteError())});
    EarlyStopping stopping({.monitor = "mae", .patience = 100, .restore_best = &model});
    std::vector<Callback*> callbacks = {&stopping};
    callbacks.insert(callbacks.end(), more.begin(), more.end());
    History history = trainer.fit(batches, {.epochs = kAllEpochs,
                                            .steps_per_epoch = counted ? 5 : 0,
                                            .steps_per_call = steps_per_call,
                                            .validation_data = validation,
                                            .callbacks = callbacks,
                                            .after_iteration = after_iteration,
                                            .report_every = 2,
                                            .finish_on_signals = true,
                                            .progress = nullptr});
    best_epoch = stopping.best_epoch();
    return history;
  }

  /// All variables and the random state, for comparison bit for bit.
  std::vector<std::vector<double>> content() {
    std::vector<std::vector<double>> all;
    for (const auto& [name, variable] : weights_of(model)) all.push_back(variable.tensor().to_vector());
    for (const auto& [name, variable] : slots_of(optimizer)) all.push_back(variable.tensor().to_vector());
    all.push_back(random::default_generator().state().to_vector());
    return all;
  }

  uint64_t seed;
  Tensor inputs, targets;
  nn::Sequential model{nn::Dense(16, nn::Activation::kRelu), nn::BatchNorm(), nn::Dropout(0.3), nn::Dense(1)};
  optim::Adam optimizer;
  int best_epoch = 0;
  bool validation_fails = false;
  std::function<void()> after_iteration;
};

/// The numbers of a history that don't depend on time.
std::vector<std::pair<int64_t, std::vector<std::pair<std::string, double>>>> numbers_of(
    const History& history) {
  std::vector<std::pair<int64_t, std::vector<std::pair<std::string, double>>>> all;
  for (const EpochRecord& record : history.epochs()) {
    all.push_back({record.steps, {record.results.begin(), record.results.end()}});
  }
  return all;
}

ModelCheckpointOptions every_step_in(const TempFolder& folder) {
  return {.filepath = folder / "cp-{epoch:04d}-{step:04d}", .every_steps = 1, .keep_last = 3, .resume = true};
}

/// A run that ends after `stop` steps, as far as it got to save.
void train_until(int64_t stop, const ModelCheckpointOptions& options, bool counted = false,
                 int64_t steps_per_call = 1) {
  ResumedTraining first;
  ModelCheckpoint saving(options);
  StopAfter stopper(stop);
  EXPECT_THROW(first.fit({&saving, &stopper}, counted, steps_per_call), Stopped);
}

void expect_equal(const History& resumed, ResumedTraining& second, const History& whole,
                  ResumedTraining& reference) {
  EXPECT_TRUE(numbers_of(resumed) == numbers_of(whole));
  EXPECT_TRUE(second.content() == reference.content());
  EXPECT_EQ(second.best_epoch, reference.best_epoch);
}

TEST(Resume, AnyStepAndTheRestEqualTheWholeRun) {
  ResumedTraining reference;
  const History whole = reference.fit({});
  ASSERT_THAT(whole.epochs(), SizeIs(kAllEpochs));
  for (int64_t stop = 1; stop < kAllEpochs * kStepsAnEpoch; ++stop) {
    SCOPED_TRACE(stop);
    const TempFolder folder;
    train_until(stop, every_step_in(folder));
    ResumedTraining second(stop);  // other weights, other draws: all must come from the file
    ModelCheckpoint resuming(every_step_in(folder));
    StopAfter never(-1);
    const History resumed = second.fit({&resuming, &never});
    expect_equal(resumed, second, whole, reference);
    EXPECT_LE(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 4)
        << "3 files are kept and the folder of temporary ones";
  }
}

TEST(Resume, CountedEpochsGoOnWithinThePass) {
  ResumedTraining reference;
  const History whole = reference.fit({}, true);
  for (const int64_t stop : {1, 4, 5, 6, 9, 10, 11, 17}) {
    SCOPED_TRACE(stop);
    const TempFolder folder;
    train_until(stop, every_step_in(folder), true);
    ResumedTraining second(stop);
    ModelCheckpoint resuming(every_step_in(folder));
    const History resumed = second.fit({&resuming}, true);
    expect_equal(resumed, second, whole, reference);
  }
}

TEST(Resume, SeveralStepsACallComputeTheSame) {
  ResumedTraining reference;
  const History whole = reference.fit({});
  ResumedTraining other;
  expect_equal(other.fit({}, false, 4), other, whole, reference);
  const TempFolder folder;
  train_until(10, every_step_in(folder), false, 4);
  ResumedTraining second(1);
  ModelCheckpoint resuming(every_step_in(folder));
  expect_equal(second.fit({&resuming}, false, 4), second, whole, reference);
}

TEST(Resume, ASignalEndsInGoodOrderAndNothingIsLost) {
  ResumedTraining reference;
  const History whole = reference.fit({});
  const TempFolder folder;
  const ModelCheckpointOptions only_signals = {.filepath = folder / "cp", .every_epochs = 0, .resume = true};
  ResumedTraining first;
  ModelCheckpoint saving(only_signals);
  LambdaCallback raise({.on_batch_end = [&](RunState& run, const Results&) {
    if (run.total_steps == 8) std::raise(SIGTERM);
  }});
  const History stopped = first.fit({&saving, &raise});
  EXPECT_EQ(stopped.stopped, "interrupted by SIGTERM");
  EXPECT_THAT(stopped.epochs(), SizeIs(1));
  ResumedTraining second(1);
  ModelCheckpoint resuming(only_signals);
  LambdaCallback nothing({});
  expect_equal(second.fit({&resuming, &nothing}), second, whole, reference);
}

TEST(Resume, AFinishedRunStaysFinished) {
  const TempFolder folder;
  ResumedTraining first, second(8);
  ModelCheckpoint saving(every_step_in(folder)), resuming(every_step_in(folder));
  const History whole = first.fit({&saving});
  expect_equal(second.fit({&resuming}), second, whole, first);
}

TEST(Resume, AnEmptyFolderStartsFreshAndDamagedFilesArePassedOver) {
  const TempFolder folder;
  ResumedTraining reference, first, second(2);
  const History whole = reference.fit({});
  ModelCheckpointOptions options = every_step_in(folder);
  options.keep_last = 0;
  options.asynchronous = false;
  ModelCheckpoint saving(options);
  expect_equal(first.fit({&saving}), first, whole, reference);
  fs::resize_file(folder / "cp-0004-0006.safetensors", 2000);
  {
    std::fstream file(folder / "cp-0004-0005.safetensors", std::ios::in | std::ios::out);
    file.seekp(-5, std::ios::end);
    file.put('x');
  }
  std::ofstream(folder / "cp-0009-0001.safetensors") << "no checkpoint";
  const Notices notices;
  const std::optional<FoundCheckpoint> found = newest_checkpoint(folder.path());
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->path.filename(), "cp-0004-0004.safetensors");
  EXPECT_THAT(notices.texts(), SizeIs(3));
  EXPECT_THAT(notices.texts(), testing::Contains(HasSubstr("its checksum is")));
  ModelCheckpoint resuming(options);
  expect_equal(second.fit({&resuming}), second, whole, reference);
}

TEST(Resume, AnotherModelIsRefusedAndNothingChanged) {
  const TempFolder folder;
  ResumedTraining first;
  ModelCheckpoint saving(every_step_in(folder));
  first.fit({&saving});
  ResumedTraining other(5);
  other.model = nn::Sequential(nn::Dense(16), nn::Dense(2), nn::Dense(1));
  ModelCheckpoint resuming(every_step_in(folder));
  std::vector<double> before;
  LambdaCallback watch({.on_train_begin = [&](RunState&) {
    before = weights_of(other.model)[0].second.tensor().to_vector();
  }});
  EXPECT_ERROR(other.fit({&watch, &resuming}), ErrorCode::kShapeMismatch,
               "the checkpoint does not match this run");
  EXPECT_ERROR(other.fit({&resuming}), ErrorCode::kShapeMismatch, "missing in the file");
  EXPECT_ERROR(other.fit({&resuming}), ErrorCode::kShapeMismatch, "batch_norm");
  EXPECT_EQ(weights_of(other.model)[0].second.tensor().to_vector(), before);
}

TEST(Resume, OneThatFailsChangesNothing) {
  const TempFolder folder;
  train_until(8, every_step_in(folder));
  const auto expect_refused = [&](Callback& more, const Tensor& inputs, ErrorCode code, const char* text) {
    ResumedTraining second(5);
    second.inputs = inputs;
    std::vector<std::vector<double>> before;
    LambdaCallback watch({.on_train_begin = [&](RunState&) { before = second.content(); }});
    ModelCheckpoint resuming(every_step_in(folder));
    EXPECT_ERROR(second.fit({&resuming, &more, &watch}), code, text);
    EXPECT_THAT(before, testing::Not(IsEmpty()));
    EXPECT_TRUE(second.content() == before);
  };
  // StopAfter's state is the empty text, which is none of a logger's.
  struct Damaged : StopAfter {
    Damaged() : StopAfter(-1) {}
    void restore(const RunState&, const std::string&) override {
      fail(ErrorCode::kBadFormat, "damaged", "this state is not mine");
    }
  } damaged;
  const ResumedTraining any;
  expect_refused(damaged, any.inputs, ErrorCode::kBadFormat, "this state is not mine");
  // A dataset of other rows, which can't have this state.
  struct FewerRows : ResumedTraining {
    FewerRows() : ResumedTraining(5) { targets = zeros({40, 1}); }
  } fewer;
  fewer.inputs = zeros({40, 5});
  std::vector<std::vector<double>> before;
  LambdaCallback watch({.on_train_begin = [&](RunState&) { before = fewer.content(); }});
  ModelCheckpoint resuming(every_step_in(folder));
  EXPECT_ERROR(fewer.fit({&resuming, &watch}), ErrorCode::kBadFormat, "made by the same chain of calls");
  EXPECT_TRUE(fewer.content() == before);
}

/// How a training ends that fails where `callbacks` or the validation do, and what was saved then.
void expect_resumable_after(const char* what, std::vector<Callback*> callbacks, bool validation, bool saved,
                            std::function<void()> after_iteration = {}) {
  SCOPED_TRACE(what);
  ResumedTraining reference;
  const History whole = reference.fit({});
  const TempFolder folder;
  const ModelCheckpointOptions options = {
      .filepath = folder / "cp", .every_epochs = 0, .on_exception = true, .resume = true};
  const Notices notices;
  {
    ResumedTraining first;
    first.after_iteration = std::move(after_iteration);
    ModelCheckpoint saving(options);
    LambdaCallback fails_validation(
        {.on_epoch_begin = [&](RunState& run) { first.validation_fails = validation && run.epoch == 2; }});
    callbacks.insert(callbacks.begin(), {&saving, &fails_validation});
    EXPECT_ANY_THROW(first.fit(callbacks));
  }
  EXPECT_EQ(fs::exists(folder / "cp.safetensors"), saved);
  EXPECT_EQ(notices.texts().size(), saved ? 0u : 1u);
  if (!saved) {
    ASSERT_THAT(notices.texts(), testing::Contains(HasSubstr("nothing was saved after a failure")));
    return;
  }
  ResumedTraining second(2);
  ModelCheckpoint resuming(options);
  expect_equal(second.fit({&resuming}), second, whole, reference);
}

TEST(Resume, AFailureOfTheDataSavesNothing) {
  const TempFolder folder;
  nn::Dense model(1);
  optim::Sgd optimizer;
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  auto batches = data::from_tensor_slices(arange(20, DType::kF32), ones({20, 1}))
                     .map([](const Tensor& x, const Tensor& y) {
                       if (x.item<float>() == 13) throw std::runtime_error("disk gone");
                       return std::array{ones({1}), y};
                     })
                     .batch(4);
  const Notices notices;
  ModelCheckpoint saving({.filepath = folder / "cp-{total_steps}",
                          .every_steps = 2,
                          .on_exception = true,
                          .asynchronous = false});
  EXPECT_ERROR(trainer.fit(batches, {.callbacks = {&saving}, .progress = nullptr}),
               ErrorCode::kInvalidArgument, "disk gone");
  EXPECT_FALSE(fs::exists(folder / "cp-3.safetensors"));
  EXPECT_TRUE(fs::exists(folder / "cp-2.safetensors"));
  EXPECT_THAT(notices.texts(), ElementsAre(HasSubstr("in the middle of reading data")));
}

TEST(Resume, AFailureSavesAWholeStateOrNothing) {
  const auto at_epoch_2 = [](RunState& run) {
    if (run.epoch == 2) throw Stopped();
  };
  const auto with_results = [at_epoch_2](RunState& run, const Results&) { at_epoch_2(run); };
  LambdaCallback begin({.on_epoch_begin = at_epoch_2}), batch({.on_batch_end = with_results}),
      end({.on_epoch_end = with_results});
  expect_resumable_after("the start of an epoch", {&begin}, false, false);
  expect_resumable_after("a batch's end", {&batch}, false, true);
  expect_resumable_after("the validation", {}, true, true);
  expect_resumable_after("the end of an epoch", {&end}, false, false);
  struct FailsSaving : Callback {
    void on_save(RunState& run, SavePoint point) override {
      if (point == SavePoint::kStep && run.total_steps == 11) throw Stopped();
    }
  } saving;
  expect_resumable_after("saving", {&saving}, false, true);
  expect_resumable_after("the next batch was fetched", {}, false, false, [calls = 0]() mutable {
    if (++calls == 9) throw Stopped();
  });
}

/// Simulates the end of the process between two callbacks that save.
struct EndsBetween : Callback {
  EndsBetween(SavePoint where, int64_t after) : point(where), step(after) {}
  void on_save(RunState& run, SavePoint at) override {
    if (at == point && run.total_steps >= step) throw Stopped();
  }
  std::string_view kind() const override { return "ends_between"; }

  SavePoint point;
  int64_t step;
};

TEST(Resume, WhoWasToSaveAfterTheOneResumedFromStillDoes) {
  const auto files_of = [](const TempFolder& folder, const ModelCheckpoint& checkpoints) {
    std::vector<std::string> kept, there;
    for (const fs::path& file : checkpoints.files()) kept.push_back(file.filename());
    for (const auto& entry : fs::directory_iterator(folder / "own"))
      if (entry.is_regular_file()) there.push_back(entry.path().filename());
    std::ranges::sort(kept);
    std::ranges::sort(there);
    EXPECT_EQ(kept, there);
    return there;
  };
  const auto every_time = [](const TempFolder& folder) {
    return ModelCheckpointOptions{
        .filepath = folder / "cp-{total_steps}", .every_steps = 5, .asynchronous = false, .resume = true};
  };
  for (const bool by_epoch : {true, false}) {
    SCOPED_TRACE(by_epoch);
    const auto own = [by_epoch](const TempFolder& folder) {
      return by_epoch ? ModelCheckpointOptions{.filepath = folder / "own" / "cp-{epoch}",
                                               .monitor = "mae",
                                               .save_top_k = 2,
                                               .asynchronous = false}
                      : ModelCheckpointOptions{.filepath = folder / "own" / "cp-{total_steps}",
                                               .every_epochs = 0,
                                               .every_steps = 5,
                                               .keep_last = 3,
                                               .asynchronous = false};
    };
    const TempFolder whole_folder;
    ResumedTraining reference;
    ModelCheckpoint whole_first(every_time(whole_folder)), whole_own(own(whole_folder));
    const History whole = reference.fit({&whole_first, &whole_own});
    const std::vector<std::string> expected = files_of(whole_folder, whole_own);
    for (const int64_t after : {5, 10, 13, 20}) {
      SCOPED_TRACE(after);
      const TempFolder folder;
      {
        ResumedTraining first;
        ModelCheckpoint resumed(every_time(folder)), others(own(folder));
        EndsBetween between(by_epoch ? SavePoint::kEpoch : SavePoint::kStep, after);
        if (!by_epoch && after % 5 != 0) continue;
        EXPECT_THROW(first.fit({&resumed, &between, &others}), Stopped);
      }
      ResumedTraining second(2);
      ModelCheckpoint resumed(every_time(folder)), others(own(folder));
      expect_equal(second.fit({&resumed, &others}), second, whole, reference);
      EXPECT_EQ(files_of(folder, others), expected);
      for (const std::string& file : expected) {
        const auto data_of = [&](const TempFolder& run) {
          return Checkpoint(run / "own" / file).blob(kDataBlob);
        };
        EXPECT_EQ(data_of(folder), data_of(whole_folder)) << file;
      }
    }
  }
}

TEST(Resume, TheDatasetsStateIsABlob) {
  constexpr int64_t kRows = 1000;
  const TempFolder folder;
  struct Sizes {
    size_t blob, document;
  };
  const auto sizes_with = [&](int64_t shuffled) {
    nn::Dense model(1);
    optim::Sgd optimizer;
    Trainer trainer(model, nn::mean_squared_error, optimizer);
    auto batches = data::from_tensor_slices(ones({4000, 8}), ones({4000, 1}))
                       .filter([](const Tensor&, const Tensor&) { return true; })
                       .shuffle(shuffled)
                       .batch(4, {.drop_remainder = true});
    ModelCheckpoint saving({.filepath = folder / "cp", .every_epochs = 0, .every_steps = 3});
    trainer.fit(batches, {.steps_per_epoch = 3, .callbacks = {&saving}, .progress = nullptr});
    const Checkpoint checkpoint(folder / "cp.safetensors");
    return Sizes{checkpoint.blob(kDataBlob).size(), checkpoint.document().size()};
  };
  // The document holds the kernels' choices too, of all that the process ran before: the first run adds the
  // last.
  sizes_with(1);
  const Sizes few = sizes_with(1), many = sizes_with(kRows);
  EXPECT_GT(many.blob, few.blob + (kRows - 1) * 9 * sizeof(float) * 9 / 10) << "the buffer's rows";
  EXPECT_NEAR(static_cast<double>(many.document), static_cast<double>(few.document), 100)
      << "no part of them";
}

TEST(Resume, TheDocumentHoldsTheNewestEpochsAlone) {
  const TempFolder folder;
  const Variable weight(ones({}), "weight");
  Trainer trainer({.train = [&](const data::Element& batch) { return mean(batch[0] * weight.tensor()); },
                   .weights =
                       [&] {
                         return NamedVariables{{"weight", weight}};
                       }});
  auto batches = data::from_tensor_slices(ones({1})).batch(1);
  constexpr int kMore = static_cast<int>(History::kMaxEpochs) + 3;
  ModelCheckpoint saving({.filepath = folder / "cp", .every_epochs = kMore});
  trainer.fit(batches, {.epochs = kMore, .callbacks = {&saving}, .progress = nullptr});
  const Checkpoint checkpoint(newest_checkpoint(folder.path())->path);
  const std::vector<EpochRecord> saved = parse_history(checkpoint.blob(kHistoryBlob), "it");
  ASSERT_EQ(saved.size(), History::kMaxEpochs);
  EXPECT_EQ(saved.front().epoch, 4);
  EXPECT_EQ(saved.back().epoch, kMore);
}

TEST(Resume, NamesThatNoFileCanHoldEndTheRunBeforeItsFirstStep) {
  const TempFolder folder;
  const Variable weight(ones({}), "weight"), bias(ones({}), "bias");
  int64_t steps = 0;
  NamedVariables variables = {{"weight", weight}, {"weight", bias}};
  Trainer trainer({.train = [&](const data::Element& batch) { return mean(batch[0] * weight.tensor()); },
                   .weights = [&] { return variables; }});
  auto batches = data::from_tensor_slices(ones({1})).batch(1);
  ModelCheckpoint saving({.filepath = folder / "cp"});
  LambdaCallback count({.on_batch_end = [&](RunState&, const Results&) { ++steps; }});
  FitOptions options{.callbacks = {&saving, &count}, .report_every = 1, .progress = nullptr};
  EXPECT_ERROR(trainer.fit(batches, options), ErrorCode::kInvalidArgument, "two variables are called");
  variables[1].first = "bias";
  options.settings = {{"--data", "\xff.csv"}};
  EXPECT_ERROR(trainer.fit(batches, options), ErrorCode::kInvalidArgument, "must be UTF-8");
  EXPECT_EQ(steps, 0);
  options.settings.clear();
  trainer.fit(batches, options);
  EXPECT_EQ(steps, 1);
}

TEST(Resume, AVariableThatIsNotFiniteIsNeverSaved) {
  // The loss of each step is that before its update, which at the third makes the weight infinite.
  const Variable weight(ones({}), "weight");
  Trainer trainer({.train =
                       [&](const data::Element& batch) {
                         const Tensor value = mean(batch[0]);
                         weight.assign(weight.tensor() * 1e15);
                         return value;
                       },
                   .weights =
                       [&] {
                         return NamedVariables{{"weight", weight}};
                       }});
  auto batches = data::from_tensor_slices(ones({20})).batch(4);
  for (const bool traced : {true, false}) {
    const TempFolder folder;
    weight.assign(ones({}));
    ModelCheckpoint saving({.filepath = folder / "cp-{total_steps}",
                            .every_steps = 1,
                            .on_exception = true,
                            .keep_last = 1,
                            .asynchronous = false});
    const FitOptions options{.callbacks = {&saving}, .trace_not_finite = traced, .progress = nullptr};
    EXPECT_ERROR(trainer.fit(batches, options), ErrorCode::kNotANumber, "after step 3 of epoch 1 'weight'");
    EXPECT_EQ(newest_checkpoint(folder.path())->path.filename().string(), "cp-2.safetensors");
    TerminateOnNaN terminate;
    FitOptions ending = options;
    ending.callbacks.push_back(&terminate);
    weight.assign(ones({}));
    EXPECT_THAT(trainer.fit(batches, ending).stopped, HasSubstr("'weight'"));
    EXPECT_FALSE(fs::exists(folder / "cp-3.safetensors"));
  }
}

TEST(Resume, AnInfiniteValidationLossHindersNoSave) {
  const TempFolder folder;
  const Variable weight(ones({}), "weight");
  const auto loss = [&](const data::Element& batch) { return mean(log(batch[0] * weight.tensor())); };
  Trainer trainer({.train = loss, .evaluate = loss, .weights = [&] {
                     return NamedVariables{{"weight", weight}};
                   }});
  auto batches = data::from_tensor_slices(ones({8})).batch(4);
  auto validation = data::from_tensor_slices(zeros({4})).batch(4);
  ModelCheckpoint saving({.filepath = folder / "cp-{epoch}"});
  trainer.fit(batches,
              {.epochs = 2, .validation_data = validation, .callbacks = {&saving}, .progress = nullptr});
  EXPECT_TRUE(fs::exists(folder / "cp-2.safetensors"));
}

TEST(Resume, ARunOfOneEpochKeepsItsTimes) {
  const TempFolder folder;
  const auto train = [&](int64_t stop) {
    const Variable weight(ones({}), "weight");
    Trainer trainer({.train = [&](const data::Element& batch) { return mean(batch[0] * weight.tensor()); },
                     .weights =
                         [&] {
                           return NamedVariables{{"weight", weight}};
                         }});
    auto batches = data::from_tensor_slices(ones({40})).batch(4);
    observe::Recorder recorder;
    ModelCheckpoint saving(every_step_in(folder));
    StopAfter stopping(stop);
    const FitOptions options{.callbacks = {&saving, &stopping}, .recorder = &recorder, .progress = nullptr};
    if (stop > 0) {
      EXPECT_THROW(trainer.fit(batches, options), Stopped);
    } else {
      trainer.fit(batches, options);
    }
    return recorder.totals().iterations;
  };
  train(4);
  train(8);
  // No checkpoint contains the iteration that was unfinished when the checkpoint was made.
  EXPECT_EQ(train(0), 10 - 2);
}

TEST(Resume, ALossThatIsNoNumberIsNeverSaved) {
  std::vector<double> values(20, 1.0);
  values[13] = std::numeric_limits<double>::quiet_NaN();
  auto batches = data::from_tensor_slices(from_vector({20, 1}, values), ones({20, 1})).batch(4);
  TerminateOnNaN terminate;
  for (const bool terminated : {false, true}) {
    const TempFolder folder;
    nn::Dense model(1);
    optim::Sgd optimizer;
    Trainer trainer(model, nn::mean_squared_error, optimizer);
    ModelCheckpoint saving({.filepath = folder / "cp-{total_steps}",
                            .every_steps = 1,
                            .on_exception = true,
                            .asynchronous = false});
    FitOptions options{.epochs = 2, .callbacks = {&saving}, .progress = nullptr};
    if (terminated) {
      options.callbacks.push_back(&terminate);
      EXPECT_THAT(trainer.fit(batches, options).stopped, HasSubstr("step 4 of epoch 1"));
    } else {
      EXPECT_ERROR(trainer.fit(batches, options), ErrorCode::kNotANumber, "step 4 of epoch 1");
    }
    EXPECT_FALSE(fs::exists(folder / "cp-4.safetensors"));
    EXPECT_TRUE(fs::exists(folder / "cp-3.safetensors"));
  }
}

}  // namespace
}  // namespace isochron::train
