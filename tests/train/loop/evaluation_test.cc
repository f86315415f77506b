// The state that an evaluation preserves, and padding that must not be counted.
#include <gtest/gtest.h>

#include <limits>

#include "isochron/data/pipeline/dataset.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/loop/trainer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace isochron::train {
namespace {

TEST(Evaluation, InACallbackLeavesTheEpochsResultsAlone) {
  data::TupleDataset<1> batches = data::from_tensor_slices(ones({6})).batch(2);
  const BatchFunction function = [](const data::Element& batch) { return mean(batch[0]); };
  const Variable weight(ones({1}), "weight");
  Trainer trainer(BatchFunctions{.train = function,
                                 .evaluate = function,
                                 .weights =
                                     [&] {
                                       return NamedVariables{{"weight", weight}};
                                     },
                                 .slots = [] { return NamedVariables{}; }});
  for (const double other : {9.0, std::numeric_limits<double>::infinity()}) {
    data::TupleDataset<1> test = data::from_tensor_slices(full({4}, other)).batch(2);
    struct Evaluates final : Callback {
      void on_batch_end(RunState&, const Results&) override { found = trainer->evaluate(*test)["loss"]; }
      void on_epoch_end(RunState&, const Results&) override { found = trainer->evaluate(*test)["loss"]; }
      Trainer* trainer = nullptr;
      data::TupleDataset<1>* test = nullptr;
      double found = 0;
    } evaluates;
    evaluates.trainer = &trainer;
    evaluates.test = &test;
    const TempFolder folder;
    ModelCheckpoint saving({.filepath = folder / "run"});
    const History history =
        trainer.fit(batches, {.epochs = 2, .callbacks = {&evaluates, &saving}, .progress = nullptr});
    EXPECT_EQ(evaluates.found, other);
    EXPECT_EQ(history.last()["loss"], 1);
  }
}

TEST(Evaluation, PaddingIsNotTakenForRows) {
  nn::Sequential model(nn::Dense(1));
  optim::Sgd optimizer;
  Trainer trainer(supervised(model, nn::mean_squared_error, optimizer));
  data::Dataset padded =
      data::from_tensor_slices({{"x", ones({5, 2})}, {"y", ones({5, 1})}}).batch(4, {.pad_remainder = true});
  EXPECT_ERROR(trainer.fit(padded, {.progress = nullptr}), ErrorCode::kUnsupported,
               "the loss would count those rows");
  EXPECT_ERROR(trainer.evaluate(padded), ErrorCode::kUnsupported, "the loss would count those rows");
  Trainer weighed(supervised(model, nn::mean_squared_error, optimizer, {}, {.from_batch = true}));
  EXPECT_EQ(weighed.fit(padded, {.progress = nullptr}).epochs().size(), 1u);
}

}  // namespace
}  // namespace isochron::train
