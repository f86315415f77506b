// Which checkpoint of a folder a run resumes from.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/nn/weights/weights.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/checkpoint_folder.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/loop/trainer.h"
#include "support/expect_error.h"
#include "support/notices.h"
#include "support/temp_folder.h"

namespace isochron::train {
namespace {

using testing::IsEmpty;

struct SavedTraining {
  explicit SavedTraining(const TempFolder& folder)
      : saving({.filepath = folder / "cp-{epoch:04d}", .asynchronous = false}) {}

  History fit(FitOptions options) {
    auto batches = data::from_tensor_slices(ones({16, 4}), ones({16, 1})).batch(4);
    options.callbacks = {&saving};
    options.progress = nullptr;
    return Trainer(model, nn::mean_squared_error, optimizer).fit(batches, options);
  }

  nn::Sequential model{nn::Dense(1)};
  optim::Sgd optimizer;
  ModelCheckpoint saving;
};

/// While it lives, the process can open one more file at a time.
class OneFile {
 public:
  OneFile() {
    const int next = open("/dev/null", O_RDONLY);
    close(next);
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit{static_cast<rlim_t>(next) + 1, before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~OneFile() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(NewestCheckpoint, IsOfTheLatestEpochThoughTheFitBeganThere) {
  const TempFolder folder;
  SavedTraining training(folder);
  training.fit({.epochs = 5});
  training.fit({.epochs = 7, .initial_epoch = 5});
  EXPECT_EQ(newest_checkpoint(folder.path())->path.filename(), "cp-0007.safetensors");
}

TEST(NewestCheckpoint, OneThatCantBeReadNowIsAnErrorAndNotPassedOver) {
  const TempFolder folder;
  SavedTraining training(folder);
  training.fit({.epochs = 2});
  const Notices notices;
  {
    const OneFile only_the_folder;
    EXPECT_ERROR(newest_checkpoint(folder.path()), ErrorCode::kIo, "this checkpoint can't be read");
  }
  EXPECT_EQ(newest_checkpoint(folder.path())->path.filename(), "cp-0002.safetensors");
  EXPECT_THAT(notices.texts(), IsEmpty());
}

TEST(NewestCheckpoint, WeightsBesideItAreNoReasonForANotice) {
  const TempFolder folder;
  SavedTraining training(folder);
  training.fit({.epochs = 1});
  nn::save_weights(training.model, folder / "weights.safetensors", {.metadata = {{"format", "pt"}}});
  const Notices notices;
  EXPECT_EQ(newest_checkpoint(folder.path())->path.filename(), "cp-0001.safetensors");
  EXPECT_THAT(notices.texts(), IsEmpty());
}

}  // namespace
}  // namespace isochron::train
