// Weights that the last update makes infinite are found, though no loss tells of them.
#include <gmock/gmock.h>

#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/callbacks.h"
#include "isochron/train/loop/trainer.h"
#include "support/expect_error.h"

namespace isochron::train {
namespace {

/// A fit of one step with such a learning rate.
History fit(bool traced, std::vector<Callback*> callbacks, int epochs = 1) {
  nn::Sequential model(nn::Dense(1));
  optim::Sgd optimizer({.learning_rate = 3e38});
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  auto batches = data::from_tensor_slices(full({4, 2}, 9.0), full({4, 1}, -5.0)).batch(4);
  return trainer.fit(batches, {.epochs = epochs,
                               .callbacks = std::move(callbacks),
                               .report_every = 1,
                               .trace_not_finite = traced,
                               .progress = nullptr});
}

TEST(NotFiniteWeights, OfTheLastUpdateAreFound) {
  for (const bool traced : {true, false}) {
    SCOPED_TRACE(traced);
    EXPECT_ERROR(fit(traced, {}), ErrorCode::kNotANumber, "after step 1 of epoch 1");
    TerminateOnNaN ending;
    EXPECT_NE(fit(traced, {&ending}).stopped, "");
    for (const bool at_epoch : {true, false}) {  // the fit ends early
      const auto stop = [](RunState& run, const Results&) { run.stop("enough"); };
      LambdaCallback early(at_epoch ? LambdaCallback::Functions{.on_epoch_end = stop}
                                    : LambdaCallback::Functions{.on_batch_end = stop});
      EXPECT_ERROR(fit(traced, {&early}, 9), ErrorCode::kNotANumber, "after step 1 of epoch 1");
    }
  }
}

}  // namespace
}  // namespace isochron::train
