// What a program set differently from the run that it resumes is told of.
#include <gmock/gmock.h>

#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/loop/trainer.h"
#include "support/notices.h"
#include "support/temp_folder.h"

namespace isochron::train {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

/// The notices of a fit that ends after `epochs` and continues the run in `folder`, if there is one.
std::vector<std::string> notices_of_fit(const TempFolder& folder, int epochs, optim::Optimizer& optimizer,
                                        Precision precision = Precision::kF32) {
  random::set_seed(1);
  nn::Sequential model(nn::Dense(1));
  auto batches = data::from_tensor_slices(ones({16, 4}), ones({16, 1})).batch(8);
  BatchFunctions functions = supervised(model, nn::mean_squared_error, optimizer);
  functions.precision = precision;
  Trainer trainer(functions);
  ModelCheckpoint checkpoints(
      {.filepath = folder.path() / "cp-{epoch}", .asynchronous = false, .resume = true});
  const Notices notices;
  trainer.fit(batches, {.epochs = epochs, .callbacks = {&checkpoints}, .progress = nullptr});
  return notices.texts();
}

TEST(ResumedSettings, WhatTheProgramChangedIsToldOf) {
  const TempFolder folder;
  optim::Adam first({.learning_rate = 0.01});
  EXPECT_THAT(notices_of_fit(folder, 1, first), IsEmpty());
  optim::Adam same({.learning_rate = 0.01});
  EXPECT_THAT(notices_of_fit(folder, 2, same), IsEmpty());
  optim::Adam faster({.learning_rate = 0.5, .beta_1 = 0.8});
  const std::vector<std::string> told = notices_of_fit(folder, 3, faster);
  EXPECT_THAT(told, Contains(HasSubstr("optimizer/initial learning rate: 0.01 in the checkpoint, 0.5 here")));
  EXPECT_THAT(told, Contains(HasSubstr("beta_1")));
  EXPECT_EQ(faster.learning_rate(), 0.01);
  optim::Adam clipped({.learning_rate = 0.5, .beta_1 = 0.8, .step = {.clip = {.global_norm = 1}}});
  EXPECT_THAT(
      notices_of_fit(folder, 4, clipped, Precision::kMixedBf16),
      testing::UnorderedElementsAre(HasSubstr("gradient clipping"), HasSubstr("train step/precision")));
}

TEST(ResumedSettings, AnotherNumberOfMicroBatchesIsToldOf) {
  const TempFolder folder;
  optim::Adam first({.step = {.accumulate = 2}});
  EXPECT_THAT(notices_of_fit(folder, 1, first), IsEmpty());
  optim::Adam other({.step = {.accumulate = 4, .noise = {.eta = 0.1}}});
  EXPECT_THAT(
      notices_of_fit(folder, 2, other),
      testing::UnorderedElementsAre(HasSubstr("micro-batches per update: 2 in the checkpoint, 4 here"),
                                    HasSubstr("gradient noise: eta 0, gamma 0.55 in the checkpoint")));
}

}  // namespace
}  // namespace isochron::train
