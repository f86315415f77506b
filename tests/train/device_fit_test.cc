// Trainer::fit on a simulated device: the CPU's results, checkpoints from which either side can continue, and
// a host that waits only when it reads.
#include <gmock/gmock.h>

#include <limits>
#include <numeric>

#include "isochron/apps/allocation_counter.h"
#include "isochron/core/base/rng.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/normalization.h"
#include "isochron/nn/losses/class_metrics.h"
#include "isochron/nn/module/residual.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/nn/weights/weights.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/checkpoint_folder.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/callbacks/tensor_board.h"
#include "isochron/train/loop/trainer.h"
#include "support/expect_error.h"
#include "support/simulated/training_gpu.h"
#include "support/stop_after.h"
#include "support/temp_folder.h"
#include "train/support/event_records.h"

namespace isochron::train {
namespace {

constexpr Device kDevice = SimulatedGpu::kDevice;
constexpr int kEpochs = 3;

/// Dropout, batch normalization, Adam under a schedule, averaged weights, metrics, early stopping that keeps
/// the best weights.
struct Training {
  explicit Training(Device where, int accumulate = 1)
      : device(where), optimizer({.step = {.accumulate = accumulate, .ema_decay = 0.9}}) {
    Rng rng(7);
    std::vector<double> x, y;
    for (int row = 0; row < 42; ++row) {
      for (int i = 0; i < 5; ++i) x.push_back(rng.uniform() - 0.5);
      y.push_back(x.back() * 2 - x[x.size() - 2]);
    }
    inputs = from_vector({42, 5}, x);
    targets = from_vector({42, 1}, y);
  }
  ~Training() { random::default_generator().move_to({}); }

  Trainer trainer() {
    BatchFunctions functions =
        supervised(model, nn::mean_squared_error, optimizer,
                   {metric("mae", nn::MeanAbsoluteError()), metric("r2", nn::R2Score())});
    functions.device = device;
    return Trainer(std::move(functions));
  }
  History fit(std::vector<Callback*> more) {
    random::set_seed(3);
    nn::set_initializer_seed(3);
    auto batches = data::from_tensor_slices(inputs, targets).shuffle(42, {.seed = 9}).batch(8).prefetch();
    auto validation = data::from_tensor_slices(inputs, targets).take(16).batch(8);
    optimizer.set_schedule(optim::warmup(3, optim::cosine(0.02, 27)));
    Trainer trained = trainer();
    EarlyStopping stopping({.monitor = "mae", .patience = 100, .restore_best = &model});
    std::vector<Callback*> callbacks = {&stopping};
    callbacks.insert(callbacks.end(), more.begin(), more.end());
    return trained.fit(batches, {.epochs = kEpochs,
                                 .validation_data = validation,
                                 .callbacks = callbacks,
                                 .report_every = 2,
                                 .progress = nullptr});
  }
  std::vector<std::vector<double>> content() {
    std::vector<std::vector<double>> all;
    for (const auto& [name, variable] : weights_of(model)) all.push_back(variable.tensor().to_vector());
    for (const auto& [name, variable] : slots_of(optimizer)) all.push_back(variable.tensor().to_vector());
    all.push_back(random::default_generator().state().to_vector());
    return all;
  }

  const Device device;
  Tensor inputs, targets;
  nn::Sequential model{nn::Dense(16, nn::Activation::kRelu), nn::BatchNorm(), nn::Dropout(0.3), nn::Dense(1)};
  optim::Adam optimizer;
};

TEST(DeviceFit, LearnsWhatTheCpuLearns) {
  const SimulatedGpu simulated;
  Training here({}), there(kDevice);
  const History want = here.fit({}), got = there.fit({});
  for (const char* name : {"loss", "mae", "r2", "val_loss", "val_mae", "val_r2"})
    expect_near(got.values(name), want.values(name), 1e-4);
  for (const auto& [name, variable] : weights_of(there.model)) EXPECT_EQ(variable.device(), kDevice) << name;
  for (const auto& [name, variable] : slots_of(there.optimizer))
    EXPECT_EQ(variable.device(), kDevice) << name;
  const auto want_content = here.content(), got_content = there.content();
  ASSERT_EQ(got_content.size(), want_content.size());
  for (size_t i = 0; i < got_content.size(); ++i) expect_near(got_content[i], want_content[i], 1e-4);
}

/// The weights after some epochs of batches of 128 KiB, and what was page-locked for them.
std::pair<std::vector<double>, int64_t> weights_and_pinned(Device device, bool grants = true) {
  const SimulatedGpu simulated;
  std::vector<double> numbers(16 * 8192);
  Rng rng(5);
  for (double& number : numbers) number = rng.uniform() - 0.5;
  auto batches = data::from_tensor_slices(from_vector({16, 8192}, numbers), ones({16, 1}))
                     .shuffle(16, {.seed = 1})
                     .batch(4)
                     .prefetch(1);
  nn::Dense model(1, nn::Activation::kNone, {.kernel_initializer = nn::init::zeros()});
  optim::Sgd optimizer({.learning_rate = 1e-3});
  BatchFunctions functions = supervised(model, nn::mean_squared_error, optimizer);
  functions.device = device;
  Trainer trainer(std::move(functions));
  int64_t pinned = 0;
  LambdaCallback look(
      {.on_epoch_end = [&](RunState&, const Results&) { pinned = simulated.gpu->pinned_bytes(); }});
  if (!grants) simulated.controls->fail("allocate_pinned", 3, ErrorCode::kOutOfMemory);
  trainer.fit(batches, {.epochs = 12, .callbacks = {&look}, .progress = nullptr});
  random::default_generator().move_to({});
  return {model.parameters()[0].tensor().to_vector(), pinned};
}

TEST(DeviceFit, CopiesBatchesFromWhereThePipelineMakesThem) {
  const auto [want, none] = weights_and_pinned({});
  EXPECT_EQ(none, 0);
  const auto [got, pinned] = weights_and_pinned(kDevice);
  expect_near(got, want, 1e-5);
  constexpr int64_t kBatchBytes = 4 * 8193 * sizeof(float), kSlots = 3;
  EXPECT_GE(pinned, kSlots * kBatchBytes);
  // One buffer that the system refuses lies elsewhere, and nothing else changes.
  const auto [without, fewer] = weights_and_pinned(kDevice, false);
  EXPECT_EQ(without, got);
  EXPECT_LT(fewer, pinned);
}

TEST(DeviceFit, EvaluatesAndPredicts) {
  const SimulatedGpu simulated;
  Training here({}), there(kDevice);
  here.fit({});
  there.fit({});
  auto batches = data::from_tensor_slices(here.inputs, here.targets).batch(16);  // the last of ten rows
  Trainer on_cpu = here.trainer(), on_device = there.trainer();
  const Results want = on_cpu.evaluate(batches), got = on_device.evaluate(batches);
  for (const auto& [name, value] : want) EXPECT_NEAR(got[name], value, 1e-4) << name;
  expect_near(on_device.predict(batches).to_vector(), on_cpu.predict(batches).to_vector(), 1e-4);
  {
    const optim::AveragedWeights averaged(there.optimizer);
    EXPECT_NE(on_device.predict(batches).to_vector(), on_cpu.predict(batches).to_vector());
  }
  expect_near(on_device.predict(batches).to_vector(), on_cpu.predict(batches).to_vector(), 1e-4);
}

TEST(DeviceFit, AResumedRunEqualsOneThatNeverEnded) {
  const SimulatedGpu simulated;
  std::vector<std::vector<double>> whole;
  {
    Training training(kDevice);
    training.fit({});
    whole = training.content();
  }
  for (const int64_t at : {1, 8}) {
    const TempFolder folder;
    {
      Training training(kDevice);
      ModelCheckpoint saving({.filepath = folder / "cp-{total_steps}", .every_epochs = 0, .every_steps = 1});
      StopAfter stop(at);
      EXPECT_THROW(training.fit({&saving, &stop}), Stopped);
    }
    Training training(kDevice);
    ModelCheckpoint resuming({.filepath = folder / "cp-{total_steps}", .resume = true});
    training.fit({&resuming});
    EXPECT_EQ(training.content(), whole) << "stopped after step " << at;
  }
}

TEST(DeviceFit, GoesOnFromWhatTheCpuSaved) {
  const SimulatedGpu simulated;
  const TempFolder folder;
  Training here({});
  {
    Training first({});
    ModelCheckpoint saving({.filepath = folder / "cp-{total_steps}", .every_epochs = 0, .every_steps = 1});
    StopAfter stop(8);
    EXPECT_THROW(first.fit({&saving, &stop}), Stopped);
  }
  here.fit({});
  Training there(kDevice);
  ModelCheckpoint resuming({.filepath = folder / "cp-{total_steps}", .resume = true});
  there.fit({&resuming});
  const auto want = here.content(), got = there.content();
  for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], want[i], 1e-4);
}

TEST(DeviceFit, WeightsAreSavedAndLoaded) {
  const SimulatedGpu simulated;
  const TempFolder folder;
  Training there(kDevice);
  there.fit({});
  const auto saved = there.content();
  for (const auto convention : {nn::Convention::kIsochron, nn::Convention::kPyTorch}) {
    const int compilations = simulated.compiler.compilations;
    nn::save_weights(there.model, folder / "weights.safetensors", {.naming = {.convention = convention}});
    EXPECT_EQ(simulated.compiler.compilations, compilations) << "they are laid out anew on the host";
    for (const auto& [name, variable] : weights_of(there.model)) variable.assign(zeros(variable.shape()));
    nn::load_weights(there.model, folder / "weights.safetensors", {.naming = {.convention = convention}});
    EXPECT_EQ(there.content(), saved);
  }
}

TEST(DeviceFit, TheHostWaitsOnlyWhereItReads) {
  const SimulatedGpu simulated;
  const auto calls_of = [&](int64_t steps, int accumulate) {
    Training training(kDevice, accumulate);
    auto batches = data::from_tensor_slices(training.inputs, training.targets).batch(42).repeat();
    Trainer trainer = training.trainer();
    trainer.fit(batches, {.steps_per_epoch = 1, .trace_not_finite = false, .progress = nullptr});
    simulated.controls->forget_calls();
    trainer.fit(
        batches,
        {.steps_per_epoch = steps, .report_every = 1000, .trace_not_finite = false, .progress = nullptr});
    EXPECT_EQ(simulated.controls->calls("launch graph"), steps);
    return std::pair(simulated.controls->calls("synchronize"), simulated.controls->calls("allocate"));
  };
  EXPECT_EQ(calls_of(5, 1), calls_of(50, 1));
  EXPECT_EQ(calls_of(5, 4), calls_of(50, 4));
}

TEST(DeviceFit, NothingIsMadeOnceItIsWarm) {
  const SimulatedGpu simulated;
  const TempFolder folder;
  Training training(kDevice);
  auto batches =
      data::from_tensor_slices(training.inputs, training.targets).batch(8);  // the last of two rows
  auto validation = data::from_tensor_slices(training.inputs, training.targets).take(16).batch(8);
  Trainer trainer = training.trainer();
  CsvLogger report(folder / "epochs.csv");
  const History history = trainer.fit(batches, {.epochs = 3,
                                                .validation_data = validation,
                                                .callbacks = {&report},
                                                .enforce_sealed = true,
                                                .report_every = 2,
                                                .trace_not_finite = false,
                                                .progress = nullptr});
  EXPECT_EQ(history.epochs().size(), 3u);
}

TEST(DeviceFit, ATrainingOnTheCpuMayFollow) {
  const SimulatedGpu simulated;
  Training there(kDevice), here({});
  there.fit({});
  EXPECT_EQ(here.fit({}).epochs().size(), static_cast<size_t>(kEpochs));
}

TEST(DeviceFit, ALossThatIsntFiniteEndsIt) {
  const SimulatedGpu simulated;
  Training training(kDevice);
  training.inputs.span<float>()[17] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_ERROR(training.fit({}), ErrorCode::kNotANumber, "f32(8, 5): 1 of 40 elements are NaN or infinite");
}

TEST(DeviceFit, FindsTheOpThatMadeANumberInfinite) {
  const TrainingGpu simulated;
  nn::Sequential model{nn::Dense(1)};
  optim::Sgd optimizer({.learning_rate = 0.01});
  const auto loss = [](const Tensor& prediction, const Tensor& target) {
    return mean(prediction * log(target));
  };
  BatchFunctions functions = supervised(model, loss, optimizer);
  functions.device = kDevice;
  Trainer trainer(std::move(functions));
  std::vector<double> values(20, 1.0);
  values[13] = 0;
  auto batches = data::from_tensor_slices(ones({20, 1}), from_vector({20, 1}, values)).batch(4);
  EXPECT_ERROR(trainer.fit(batches, {.report_every = 2, .progress = nullptr}), ErrorCode::kNotANumber,
               "the loss of step 4 of epoch 1 is NaN or infinite: first in [log] node 'log");
}

TEST(DeviceFit, TensorBoardHasItsWeightsAndTransfers) {
  const SimulatedGpu simulated;
  const TempFolder folder;
  Training training(kDevice);
  TensorBoard board(folder / "logs", {.optimizer = &training.optimizer, .histogram_freq = 1});
  training.fit({&board});
  const std::vector<std::string> records = records_in(folder / "logs" / "train");
  for (const char* tag : {"weights/", "transfer/bytes_per_batch", "transfer/copy_us_per_batch",
                          "transfer/exposed_us_per_batch", "transfer/waited_us_per_batch"})
    EXPECT_GT(holding(records, tag), 0) << tag;
}

TEST(DeviceFit, WhatWasBuiltElsewhereMustBeMoved) {
  const SimulatedGpu simulated;
  Training left(kDevice), moved(kDevice);
  left.model(left.inputs);  // eager: built on the CPU
  EXPECT_ERROR(left.fit({}), ErrorCode::kDevice, "move it there before it is captured");
  moved.model(moved.inputs);
  for (const auto& [name, variable] : weights_of(moved.model)) variable.move_to(kDevice);
  EXPECT_EQ(moved.fit({}).epochs().size(), static_cast<size_t>(kEpochs));
}

TEST(DeviceFit, AStepMakesNoTextOfItsArguments) {
  if (!allocations_counted()) GTEST_SKIP() << "a sanitizer has its own allocator";
  const SimulatedGpu simulated;
  CaptureOptions options;
  options.plan.device = kDevice;
  auto total = capture([](const Tensor& x) { return sum(x); }, options);
  // The simulated device allocates, but as often for either shape: the least of some calls.
  const auto allocations_for = [&](const Shape& shape) {
    const Tensor x = ones(shape);
    int64_t fewest = std::numeric_limits<int64_t>::max();
    for (int i = 0; i < 30; ++i) {
      const int64_t before = heap_allocations();
      total(x);
      fewest = std::min(fewest, heap_allocations() - before);
    }
    return fewest;
  };
  EXPECT_EQ(allocations_for({2, 3, 1, 1, 1, 1}), allocations_for({6}));
}

TEST(DeviceFit, AStepOfAnotherBatchMakesNoTextForALibrary) {
  if (!allocations_counted()) GTEST_SKIP() << "a sanitizer has its own allocator";
  const SimulatedGpu simulated;
  CaptureOptions options;
  options.plan.device = kDevice;
  auto product = capture([](const Tensor& x) { return matmul(x, x); }, options);
  const Tensor batch = to_device(ones({9, 9}), kDevice), other = to_device(ones({9, 9}), kDevice);
  const auto allocations_for = [&](std::span<const Tensor> batches) {
    int64_t fewest = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i < 30; ++i) {
      const int64_t before = heap_allocations();
      product(batches[i % batches.size()]);
      fewest = std::min(fewest, heap_allocations() - before);
    }
    return fewest;
  };
  EXPECT_EQ(allocations_for(std::vector{batch, other}), allocations_for(std::vector{batch}));
}

}  // namespace
}  // namespace isochron::train
