// The state that an evaluation preserves, and padding that must not be counted.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>

#include "isochron/data/pipeline/dataset.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/callbacks.h"
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
               "predictions would count those rows");
  EXPECT_ERROR(trainer.evaluate(padded), ErrorCode::kUnsupported, "predictions would count those rows");
  Trainer weighed(supervised(model, nn::mean_squared_error, optimizer, {}, {.from_batch = true}));
  EXPECT_ERROR(weighed.fit(padded, {.progress = nullptr}), ErrorCode::kUnsupported,
               "a smaller last batch has a plan of its own");
}

TEST(SampleWeights, ClassAndSampleWeightsScaleTheLossOfEachSample) {
  const Tensor x = from_vector({4, 1}, {1, 2, 3, 4}), labels = from_vector({4}, {0, 1, 1, 0}, DType::kI64);
  const Tensor weights = from_vector({4}, {1, 0, 2, 1});
  struct Same : nn::Module {
    Tensor forward(const Tensor& input) override { return input * scale.tensor(); }
    void members(nn::Members& list) override { list("scale", scale); }
    Variable scale{ones({1}), "scale"};
  };
  const auto loss = [](const Tensor& prediction, const Tensor&, const Tensor& sample_weights) {
    const Tensor losses = reshape(prediction, {4});
    return mean(sample_weights.defined() ? losses * sample_weights : losses);
  };
  const auto found = [&](bool training, SampleWeighting weighting) {
    Same model;
    optim::Sgd optimizer;
    Trainer trainer(model, loss, optimizer, {}, std::move(weighting));
    auto batches = data::from_tensor_slices(x, labels, weights).batch(4);
    return training ? trainer.fit(batches, {.progress = nullptr}).last()["loss"]
                    : trainer.evaluate(batches)["loss"];
  };
  for (const bool training : {false, true}) {
    EXPECT_EQ(found(training, {}), 10.0 / 4);
    EXPECT_EQ(found(training, {.from_batch = true}), (1 + 0 + 6 + 4) / 4.0);
  }
  EXPECT_EQ(found(true, {.class_weights = {1, 3}}), (1 + 6 + 9 + 4) / 4.0);
  EXPECT_EQ(found(true, {.from_batch = true, .class_weights = {1, 3}}), (1 + 0 + 18 + 4) / 4.0);
  EXPECT_EQ(found(false, {.class_weights = {1, 3}}), 10.0 / 4) << "in training alone";
  EXPECT_ERROR(found(true, {.class_weights = {1}}), ErrorCode::kOutOfRange, "1");
  EXPECT_ERROR(found(true, {.class_weights = {1, -3}}), ErrorCode::kInvalidArgument, "a class weight is -3");
  Same model;
  optim::Sgd optimizer;
  Trainer deaf(model, [](const Tensor& prediction, const Tensor&) { return mean(prediction); }, optimizer, {},
               {.from_batch = true});
  auto batches = data::from_tensor_slices(x, labels, weights).batch(4);
  EXPECT_ERROR(deaf.evaluate(batches), ErrorCode::kUnsupported, "takes no sample weights");
  auto pairs = data::from_tensor_slices(x, labels).batch(4);
  Trainer lacking(model, loss, optimizer, {}, {.from_batch = true});
  EXPECT_ERROR(lacking.evaluate(pairs), ErrorCode::kInvalidArgument, "sample weights");
}

TEST(SampleWeights, AreAsManyAsThereAreClasses) {
  nn::Sequential model(nn::Dense(3));
  optim::Sgd optimizer;
  auto batches = data::from_tensor_slices(ones({4, 2}), zeros({4}, DType::kI64)).batch(4);
  Trainer trainer(model, nn::sparse_softmax_cross_entropy, optimizer, {}, {.class_weights = {1, 2, 3, 4}});
  EXPECT_ERROR(trainer.fit(batches, {.progress = nullptr}), ErrorCode::kShapeMismatch,
               "4 class weights, but the model predicts 3 classes");
}

TEST(Threads, ATrainerRunsOneCallAtATime) {
  nn::Sequential model(nn::Dense(2));
  optim::Sgd optimizer;
  Trainer trainer(supervised(model, nn::mean_squared_error, optimizer));
  auto train_data = data::from_tensor_slices(ones({6, 2}), ones({6, 2})).batch(2);
  auto other_data = data::from_tensor_slices(ones({4, 2}), ones({4, 2})).batch(2);
  std::string refused;
  LambdaCallback during({.on_epoch_end = [&](RunState&, const Results&) {
    EXPECT_EQ(trainer.predict(other_data).extent(0), 4) << "within the call";
    std::jthread([&] {
      try {
        trainer.predict(other_data);
      } catch (const Error& error) {
        refused = error.what();
      }
    }).join();
  }});
  trainer.fit(train_data, {.callbacks = {&during}, .progress = nullptr});
  EXPECT_NE(refused.find("[predict] called while another thread's call runs"), std::string::npos) << refused;
  EXPECT_EQ(trainer.predict(other_data).extent(0), 4) << "and behind it";
}

}  // namespace
}  // namespace isochron::train
