// Which files ModelCheckpoint writes and keeps, by its options.
#include "isochron/train/callbacks/model_checkpoint.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <stdexcept>

#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/weights/weights.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/run_document.h"
#include "isochron/train/callbacks/state_text.h"
#include "isochron/train/loop/trainer.h"
#include "support/expect_error.h"
#include "support/notices.h"
#include "support/temp_folder.h"

namespace isochron::train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

/// A training of two steps an epoch whose losses after each epoch are given.
struct Scripted {
  explicit Scripted(std::vector<double> numbers) : losses(std::move(numbers)) {}

  History fit(std::vector<Callback*> callbacks, int epochs = 0) {
    LambdaCallback next({.on_epoch_begin = [this](RunState& run) {
      level.assign(full({}, losses[static_cast<size_t>(run.epoch - 1)]));
    }});
    callbacks.insert(callbacks.begin(), &next);
    return trainer.fit(batches, {.epochs = epochs > 0 ? epochs : static_cast<int>(losses.size()),
                                 .callbacks = callbacks,
                                 .report_every = 1,
                                 .progress = nullptr});
  }

  std::vector<double> losses;
  Variable weight{ones({3}), "weight"}, level{zeros({}), "level", false};
  data::TupleDataset<1> batches = data::from_tensor_slices(ones({4})).batch(2);
  Trainer trainer{
      BatchFunctions{.train = [this](const data::Element& batch) { return mean(batch[0]) * level.tensor(); },
                     .weights =
                         [this] {
                           return NamedVariables{{"weight", weight}};
                         }}};
};

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> kept(ModelCheckpointOptions options, const std::vector<double>& losses) {
  const TempFolder folder;
  options.filepath = folder / "cp-{epoch}-{step}";
  options.monitor = "loss";
  options.asynchronous = false;
  ModelCheckpoint saving(options);
  Scripted(losses).fit({&saving});
  return names_in(folder.path());
}

TEST(ModelCheckpoint, SavesByEpochsAndSteps) {
  EXPECT_THAT(kept({}, {1, 1, 1}), ElementsAre("cp-1-2", "cp-2-2", "cp-3-2"));
  EXPECT_THAT(kept({.every_epochs = 2}, {1, 1, 1, 1}), ElementsAre("cp-2-2", "cp-4-2"));
  EXPECT_THAT(kept({.every_epochs = 0, .every_steps = 3}, {1, 1, 1}), ElementsAre("cp-2-1", "cp-3-2"));
  EXPECT_THAT(kept({.every_epochs = 0}, {1, 1}), IsEmpty());
  EXPECT_THAT(kept({.every_epochs = 0, .every_minutes = 1e-12}, {1}), ElementsAre("cp-1-1", "cp-1-2"));
}

TEST(ModelCheckpoint, KeepsTheLastTheBestOrTheBestFew) {
  EXPECT_THAT(kept({.keep_last = 2}, {1, 1, 1, 1}), ElementsAre("cp-3-2", "cp-4-2"));
  EXPECT_THAT(kept({.save_best_only = true}, {5, 6, 4, 4, 3}), ElementsAre("cp-1-2", "cp-3-2", "cp-5-2"));
  EXPECT_THAT(kept({.keep_last = 1, .save_best_only = true}, {5, 6, 4, 4}), ElementsAre("cp-3-2"));
  EXPECT_THAT(kept({.mode = Mode::kMax, .save_best_only = true}, {5, 6, 4}), ElementsAre("cp-1-2", "cp-2-2"));
  EXPECT_THAT(kept({.save_best_only = true, .initial_value_threshold = 4.5}, {5, 6, 4, 3}),
              ElementsAre("cp-3-2", "cp-4-2"));
  EXPECT_THAT(kept({.save_top_k = 2}, {5, 3, 6, 4, 2, 7}), ElementsAre("cp-2-2", "cp-5-2"));
  EXPECT_THAT(kept({.mode = Mode::kMax, .save_top_k = 2}, {5, 3, 6, 4, 2, 7}),
              ElementsAre("cp-3-2", "cp-6-2"));
}

TEST(ModelCheckpoint, TheBestIsThatOfAllFitsWithTheCallback) {
  const TempFolder folder;
  ModelCheckpoint saving({.filepath = folder / "cp-{loss}",
                          .monitor = "loss",
                          .save_best_only = true,
                          .initial_value_threshold = 6,
                          .asynchronous = false});
  Scripted({7, 5, 4}).fit({&saving});
  Scripted({6, 5, 3}).fit({&saving});
  EXPECT_THAT(names_in(folder.path()), ElementsAre("cp-3", "cp-4", "cp-5"));
}

TEST(ModelCheckpoint, WithinAnEpochResultsOfTheValidationAreNan) {
  const TempFolder folder;
  nn::Dense model(1);
  optim::Sgd optimizer;
  auto batches = data::from_tensor_slices(ones({4, 2}), ones({4, 1})).batch(2), validation = batches;
  Trainer trainer{model, nn::mean_squared_error, optimizer};
  ModelCheckpoint saving({.filepath = folder / "cp-{total_steps}-{val_loss:.3f}",
                          .every_epochs = 0,
                          .every_steps = 1,
                          .asynchronous = false});
  trainer.fit(batches, {.validation_data = validation, .callbacks = {&saving}, .progress = nullptr});
  EXPECT_THAT(names_in(folder.path()), ElementsAre("cp-1-nan", "cp-2-nan"));
}

TEST(ModelCheckpoint, TheBestEpochStaysWhereItsNameIsFixed) {
  for (const int top : {0, 1}) {
    const TempFolder folder;
    ModelCheckpoint saving({.filepath = folder / "best",
                            .every_steps = 1,
                            .monitor = "loss",
                            .save_best_only = top == 0,
                            .save_top_k = top,
                            .asynchronous = false});
    Scripted({5, 3, 6, 4}).fit({&saving});
    const RunDocument document =
        RunDocument::parse(Checkpoint(folder / "best.safetensors").document(), "best");
    EXPECT_EQ(document.epoch, 2) << top;
    EXPECT_TRUE(document.epoch_done);
  }
}

TEST(ModelCheckpoint, ResumesInTheFolderThatItIsStartedIn) {
  const TempFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  const auto options = [](bool resume) {
    return ModelCheckpointOptions{
        .filepath = "best", .monitor = "loss", .save_top_k = 1, .asynchronous = false, .resume = resume};
  };
  ModelCheckpoint first(options(false)), second(options(true));
  Scripted({5}).fit({&first});
  Scripted({5, 3}).fit({&second});
  EXPECT_THAT(names_in("."), ElementsAre("best"));
  if (fs::exists("best.safetensors")) {
    EXPECT_EQ(RunDocument::parse(Checkpoint("best.safetensors").document(), "best").epoch, 2);
  }
  fs::current_path(before);
}

TEST(ModelCheckpoint, WritesEveryNamedFileHoweverShortTheEpochs) {
  constexpr int kShortEpochs = 40;
  const auto names_of = [](int first, int last) {
    std::vector<std::string> names;
    for (int epoch = first; epoch <= last; ++epoch) names.push_back(fmt::format("cp-{:04d}", epoch));
    return names;
  };
  const std::vector<double> losses(kShortEpochs, 1.0);
  const TempFolder all, few;
  ModelCheckpoint every({.filepath = all / "cp-{epoch:04d}"});
  Scripted(losses).fit({&every});
  EXPECT_EQ(names_in(all.path()), names_of(1, kShortEpochs));
  EXPECT_EQ(every.stats().saved, kShortEpochs);
  ModelCheckpoint newest({.filepath = few / "cp-{epoch:04d}", .keep_last = 3});
  Scripted(losses).fit({&newest});
  EXPECT_EQ(names_in(few.path()), names_of(kShortEpochs - 2, kShortEpochs));
}

TEST(ModelCheckpoint, WhatIsKeptGoesOnAfterAResume) {
  const TempFolder folder;
  const std::vector<double> losses = {5, 3, 6, 4, 2, 7};
  const ModelCheckpointOptions options = {
      .filepath = folder / "cp-{epoch}", .monitor = "loss", .save_top_k = 2, .resume = true};
  {
    ModelCheckpoint saving(options);
    Scripted(losses).fit({&saving}, 4);
  }
  EXPECT_THAT(names_in(folder.path()), ElementsAre("cp-2", "cp-4"));
  ModelCheckpoint saving(options);
  EXPECT_EQ(Scripted(losses).fit({&saving}).epochs().size(), 6u);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("cp-2", "cp-5"));
}

TEST(ModelCheckpoint, AFileToBeRemovedThatIsSavedAnewStays) {
  const TempFolder folder;
  ModelCheckpoint saving({.filepath = folder / "cp-{epoch}", .keep_last = 1, .asynchronous = false});
  std::ofstream(folder / "cp-1.safetensors") << "of a run that ended before it removed it";
  LambdaCallback resumed({.on_train_begin = [&saving](RunState& run) {
    const std::string numbers = StateText().add(std::optional<double>()).add(0).add(0).add(1).str();
    saving.restore(run, numbers + "\ncp-1.safetensors");
  }});
  Scripted({1}).fit({&saving, &resumed});
  EXPECT_THAT(names_in(folder.path()), ElementsAre("cp-1"));
}

TEST(ModelCheckpoint, WeightsAloneAreReadByLoadWeightsAndNeverResumedFrom) {
  const TempFolder folder;
  nn::Dense model(1), other(1);
  optim::Adam optimizer;
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  auto batches = data::from_tensor_slices(ones({4, 2}), ones({4, 1})).batch(2);
  ModelCheckpoint saving({.filepath = folder / "weights-{loss:.1f}", .save_weights_only = true});
  trainer.fit(batches, {.callbacks = {&saving}, .progress = nullptr});
  ASSERT_EQ(saving.files().size(), 1u);
  other.build({DType::kF32, {2, 2}});
  EXPECT_EQ(nn::load_weights(other, saving.files()[0]).loaded, 2u);
  EXPECT_EQ(other.kernel().tensor().to_vector(), model.kernel().tensor().to_vector());
  ModelCheckpoint resuming({.filepath = folder / "cp", .resume = true});
  EXPECT_EQ(resuming.resume_from(), fs::path());
}

TEST(ModelCheckpoint, SavesWhenTheTrainingFails) {
  const TempFolder folder;
  ModelCheckpoint saving({.filepath = folder / "cp-{total_steps}", .every_epochs = 0, .on_exception = true});
  LambdaCallback fails({.on_batch_end = [](RunState& run, const Results&) {
    if (run.total_steps == 3) throw std::runtime_error("the disk is gone");
  }});
  EXPECT_THROW(Scripted({1, 1}).fit({&saving, &fails}), std::runtime_error);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("cp-3"));
}

TEST(ModelCheckpoint, RefusesWhatContradictsItself) {
  const auto refused = [](const ModelCheckpointOptions& options, const char* text) {
    EXPECT_ERROR(ModelCheckpoint(options), ErrorCode::kInvalidArgument, text);
  };
  refused({.filepath = "folder/"}, "filepath must name files");
  refused({.filepath = "run-{epoch}/cp"}, "must not be a template");
  refused({.every_epochs = -1}, ">= 0");
  refused({.save_best_only = true, .save_top_k = 1}, "exclude each other");
  refused({.save_weights_only = true, .resume = true}, "weights alone");
  const TempFolder folder;
  ModelCheckpoint unknown({.filepath = folder / "cp-{accuracy}"});
  EXPECT_ERROR(Scripted({1}).fit({&unknown}), ErrorCode::kInvalidArgument, "it may contain epoch, step");
  ModelCheckpoint unmeasured({.filepath = folder / "cp", .save_best_only = true});
  EXPECT_ERROR(Scripted({1}).fit({&unmeasured}), ErrorCode::kInvalidArgument,
               "there is no result 'val_loss'");
  Trainer bare({.train = [](const data::Element& batch) { return mean(batch[0]); }});
  auto batches = data::from_tensor_slices(ones({4})).batch(2);
  ModelCheckpoint nothing({.filepath = folder / "cp"});
  EXPECT_ERROR(bare.fit(batches, {.callbacks = {&nothing}, .progress = nullptr}), ErrorCode::kUnsupported,
               "set BatchFunctions::weights");
}

TEST(BackupAndRestore, GoesOnAndRemovesTheBackupWhenDone) {
  const TempFolder folder;
  LambdaCallback fails({.on_epoch_end = [](RunState& run, const Results&) {
    if (run.epoch == 3) throw std::runtime_error("killed");
  }});
  {
    BackupAndRestore backup(folder.path());
    EXPECT_THROW(Scripted({4, 3, 2, 1}).fit({&backup, &fails}), std::runtime_error);
  }
  EXPECT_THAT(names_in(folder.path()), ElementsAre("backup"));
  BackupAndRestore backup(folder.path());
  int first = 0;
  LambdaCallback watch({.on_epoch_begin = [&](RunState& run) {
    if (first == 0) first = run.epoch;
  }});
  const History history = Scripted({4, 3, 2, 1}).fit({&backup, &watch});
  EXPECT_EQ(first, 3);
  EXPECT_THAT(history.values("loss"), ElementsAre(4, 3, 2, 1));
  EXPECT_TRUE(fs::is_empty(folder.path()) || names_in(folder.path()).empty());
}

TEST(ModelCheckpoint, NamesWhatTheStepChangesAndNoCheckpointHolds) {
  nn::Dense dense(1);
  Variable center(zeros({1}), "center", false), queue(zeros({1}), "queue", false);
  optim::Adam adam;
  const auto notices_with = [&](const NamedVariables& more) {
    const TempFolder folder;
    ModelCheckpoint checkpoint({.filepath = folder / "cp-{epoch}"});
    auto batches = data::from_tensor_slices(ones({4, 1})).batch(2);
    Trainer trainer(BatchFunctions{.train =
                                       [&](const data::Element& batch) {
                                         const Tensor y = dense(batch[0]);
                                         center.assign(center * 0.9 + mean(y, {0}) * 0.1);
                                         queue.assign(queue + 1.0);
                                         const Tensor loss = mean(square(y - stop_gradient(center)));
                                         adam.minimize(loss, dense.parameters());
                                         return loss;
                                       },
                                   .weights = [&] { return weights_of(dense); },
                                   .slots =
                                       [&] {
                                         NamedVariables slots = slots_of(adam);
                                         slots.insert(slots.end(), more.begin(), more.end());
                                         return slots;
                                       }});
    const Notices notices;
    trainer.fit(batches, {.epochs = 1, .callbacks = {&checkpoint}, .progress = nullptr});
    return notices.texts();
  };
  EXPECT_THAT(
      notices_with({}),
      ElementsAre(testing::HasSubstr("checkpoints don't hold 'center', 'queue', which the step changes")));
  EXPECT_THAT(notices_with({{"center", center}}), ElementsAre(testing::HasSubstr("hold 'queue', which")));
  EXPECT_THAT(notices_with({{"center", center}, {"queue", queue}}), IsEmpty());
}

TEST(ModelCheckpointFolder, OfAnEarlierRunIsRefused) {
  const TempFolder folder;
  const ModelCheckpointOptions options{.filepath = folder / "cp-{epoch:04d}"};
  ModelCheckpoint first(options);
  Scripted(std::vector<double>{1, 2, 3}).fit({&first});
  Scripted other({4, 5});
  other.fit({&first}, 1);  // the same callback goes on
  const std::vector<std::string> before = names_in(folder.path());
  ModelCheckpoint fresh(options);
  EXPECT_ERROR(other.fit({&fresh}), ErrorCode::kInvalidArgument,
               "contains checkpoints of an earlier run (the newest is cp-0003");
  EXPECT_EQ(names_in(folder.path()), before);
  ModelCheckpointOptions continuing = options;
  continuing.resume = true;
  ModelCheckpoint resumed(continuing);
  EXPECT_EQ(Scripted(std::vector<double>{1, 2, 3, 4}).fit({&resumed}).epochs().size(), 4U);
}

}  // namespace
}  // namespace isochron::train
