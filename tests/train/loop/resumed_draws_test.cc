// A resumed run draws the numbers of an uninterrupted one, whatever else has drawn between the steps.
#include <gmock/gmock.h>

#include "isochron/core/base/rng.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/loop/trainer.h"
#include "support/temp_folder.h"

namespace isochron::train {
namespace {

struct Drawing {
  explicit Drawing(const optim::StepOptions& step) : optimizer({.learning_rate = 0.01, .step = step}) {}

  /// The weights after `epochs`; the run in `folder` is continued if there is one.
  std::vector<double> fit(const TempFolder& folder, int epochs, uint64_t seed) {
    random::set_seed(seed);
    auto batches = data::from_tensor_slices(ones({14, 4}), ones({14, 1})).batch(2);
    ModelCheckpoint saving({.filepath = folder / "cp-{epoch}", .asynchronous = false, .resume = true});
    LambdaCallback drawing({.on_epoch_end = [](RunState&, const Results&) { random_normal({3}); }});
    Trainer trainer(model, nn::mean_squared_error, optimizer);
    trainer.fit(batches, {.epochs = epochs, .callbacks = {&drawing, &saving}, .progress = nullptr});
    return model.parameters()[0].tensor().to_vector();
  }

  nn::Sequential model{nn::Dense(16), nn::Dropout(0.5), nn::Dense(1)};
  optim::Adam optimizer;
};

TEST(ResumedDraws, AreThoseOfTheWholeRun) {
  for (const bool exact_sums : {false, true}) {
    SCOPED_TRACE(exact_sums);
    const optim::StepOptions step{.accumulate = 2, .exact_sums = exact_sums};
    const TempFolder whole, halves;
    const std::vector<double> expected = Drawing(step).fit(whole, 4, 3);
    Drawing(step).fit(halves, 2, 3);
    EXPECT_EQ(Drawing(step).fit(halves, 4, 8), expected);
  }
}

}  // namespace
}  // namespace isochron::train
