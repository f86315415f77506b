// States of callbacks, saved and given back by the callbacks' kinds.
#include <gmock/gmock.h>

#include <string>

#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/loop/trainer.h"
#include "support/temp_folder.h"

namespace isochron::train {
namespace {

TEST(CallbackStates, LambdasOfAKindOfTheirOwnFindTheirs) {
  const TempFolder folder;
  const auto fit = [&](int epochs, std::vector<Callback*> callbacks) {
    nn::Dense model(1);
    optim::Sgd optimizer;
    auto batches = data::from_tensor_slices(ones({4, 2}), ones({4, 1})).batch(2);
    Trainer trainer{model, nn::mean_squared_error, optimizer};
    ModelCheckpoint checkpoints({.filepath = folder / "cp-{epoch}", .asynchronous = false, .resume = true});
    callbacks.push_back(&checkpoints);
    trainer.fit(batches, {.epochs = epochs, .callbacks = callbacks, .progress = nullptr});
  };
  std::string one = "1", two = "2";
  const auto named = [](const char* kind, std::string& state) {
    return LambdaCallback({.state = [&state] { return state; },
                           .restore = [&state](const std::string& saved) { state = saved; },
                           .kind = kind});
  };
  LambdaCallback first = named("first", one), second = named("second", two);
  fit(1, {&first, &second});
  one = two = "";
  fit(2, {&second, &first});
  EXPECT_EQ(one, "1");
  EXPECT_EQ(two, "2");
}

}  // namespace
}  // namespace isochron::train
