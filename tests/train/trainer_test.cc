// The fit loop on problems small enough to check: what it learns, when it reads, what it doesn't change.
#include "isochron/train/loop/trainer.h"

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <thread>

#include "isochron/apps/allocation_counter.h"
#include "isochron/comm/transport/thread_communicator.h"
#include "isochron/data/element/element_buffer.h"
#include "isochron/data/stages/buckets.h"
#include "isochron/data/stages/combine.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/reduction/softmax.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/progress.h"
#include "isochron/train/loop/batch_plan.h"
#include "isochron/train/loop/rank_record.h"
#include "support/expect_error.h"

namespace isochron::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr int64_t kRows = 50;  // 3 batches of 16 and one of 2
constexpr int64_t kBatch = 16;

/// y = 2 a - b + 0.5 for x = (a, b).
struct Line {
  Line() {
    Rng rng(7);
    std::vector<double> x, y;
    for (int64_t row = 0; row < kRows; ++row) {
      const double a = rng.uniform() - 0.5, b = rng.uniform() - 0.5;
      x.insert(x.end(), {a, b});
      y.push_back(2 * a - b + 0.5);
    }
    inputs = from_vector({kRows, 2}, x);
    targets = from_vector({kRows, 1}, y);
  }
  data::TupleDataset<2> rows() const { return data::from_tensor_slices(inputs, targets); }
  data::TupleDataset<2> batches() const { return rows().shuffle(kRows).batch(kBatch); }

  Tensor inputs, targets;
};

/// A linear model with everything needed to train it.
struct Fixture {
  explicit Fixture(double learning_rate = 0.1) : optimizer({.learning_rate = learning_rate}) {}

  std::vector<double> parameters() {
    std::vector<double> all;
    for (const Variable& variable : model.parameters()) {
      const std::vector<double> values = variable.tensor().to_vector();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  int set_seed = (random::set_seed(3), nn::set_initializer_seed(3), 0);
  Line line;
  nn::Sequential model{nn::Dense(1)};
  optim::Adam optimizer;
  Trainer trainer{model, nn::mean_squared_error, optimizer, {metric("mae", nn::MeanAbsoluteError())}};
};

FitOptions quiet(int epochs) { return {.epochs = epochs, .progress = nullptr}; }

TEST(RankRecord, TellsHowLongMessagesTakeOverEachLink) {
  static constexpr size_t kRanks = 3;
  static constexpr std::chrono::milliseconds kSlow(30), kFast(1);
  auto members = comm::make_thread_group(
      kRanks, [](int from, int to, size_t) { return from == 1 || to == 1 ? kSlow : kFast; });
  std::vector<std::jthread> threads;
  for (auto& member : members) {
    threads.emplace_back([own = std::move(member)]() mutable {
      comm::Group group([&] { return std::move(own); });
      observe::Recorder recorder;
      RankRecord ranks(recorder, group);
      std::array<std::byte, kRanks> bytes{};
      for (int i = 0; i < 4; ++i) group.gather(std::span(bytes).first(1), bytes);
      ranks.describe();
      const auto& described = recorder.rank_descriptions();
      ASSERT_THAT(described, SizeIs(kRanks));
      for (size_t rank = 0; rank < kRanks; ++rank) {
        const auto least = std::chrono::nanoseconds(rank == 1 ? kSlow : kFast).count();
        EXPECT_GE(described[rank].sent_in_ns, least);
        EXPECT_GE(described[rank].received_in_ns, least);
        if (rank != 1) {
          EXPECT_LT(described[rank].sent_in_ns, described[1].sent_in_ns);
        }
      }
    });
  }
}

TEST(Trainer, RefusesWhatRanksCantMerge) {
  auto members = comm::make_thread_group(2);
  const auto group = std::make_shared<comm::Group>([&] { return std::move(members[0]); });
  Fixture f;
  optim::Adam optimizer({.step = {.group = group}});
  Trainer trainer(f.model, nn::mean_squared_error, optimizer, {metric("r2", nn::R2Score())});
  auto batches = f.line.batches();
  EXPECT_ERROR(trainer.fit(batches, quiet(1)), ErrorCode::kUnsupported,
               "metric 'r2' can't be merged over 2 ranks");
}

TEST(Trainer, RanksWithoutAnyBatchAreRefused) {
  auto members = comm::make_thread_group(2);
  const auto group = std::make_shared<comm::Group>([&] { return std::move(members[0]); });
  Fixture f;
  optim::Adam optimizer({.step = {.group = group}});
  Trainer trainer(f.model, nn::mean_squared_error, optimizer);
  auto none = f.line.rows().take(3).batch(1).shard(4, 3);
  EXPECT_ERROR(trainer.fit(none, quiet(1)), ErrorCode::kInvalidArgument, "the data contain no batch");
}

TEST(Trainer, ExactSumsOfOneProcessNeedNoListOfWeights) {
  Fixture f;
  optim::Adam optimizer({.learning_rate = 0.1, .step = {.accumulate = 2, .exact_sums = true}});
  BatchFunctions functions = supervised(f.model, nn::mean_squared_error, optimizer);
  functions.weights = {};
  Trainer trainer(functions);
  auto batches = f.line.batches();
  EXPECT_LT(*trainer.fit(batches, quiet(60)).epochs().back().results.find("loss"), 0.01);
}

TEST(Trainer, LearnsALine) {
  Fixture f;
  auto batches = f.line.batches();
  const History history = f.trainer.fit(batches, quiet(100));
  EXPECT_LT(history.last()["loss"], 1e-6);
  EXPECT_LT(history.last()["mae"], 1e-3);
  EXPECT_EQ(history.epochs().size(), 100u);
  EXPECT_EQ(history.epochs().front().steps, 4);
  EXPECT_EQ(history.epochs().front().epoch, 1);
  EXPECT_EQ(history.stopped, "");
  EXPECT_THAT(f.parameters(), testing::Pointwise(testing::DoubleNear(1e-3), {2.0, -1.0, 0.5}));
  EXPECT_EQ(f.optimizer.step_count(), 400);
}

TEST(Trainer, LearnsALineInMixedPrecision) {
  Fixture f;
  BatchFunctions functions = supervised(f.model, nn::mean_squared_error, f.optimizer);
  functions.precision = Precision::kMixedBf16;
  Trainer trainer(std::move(functions));
  auto batches = f.line.batches();
  EXPECT_LT(trainer.fit(batches, quiet(100)).last()["loss"], 1e-4);
  EXPECT_THAT(graph::to_text(trainer.step().graph()), HasSubstr("bf16(2, 1)")) << "the kernel, cast";
  for (const Variable& variable : f.model.parameters()) EXPECT_EQ(variable.dtype(), DType::kF32);
}

TEST(Trainer, PlansThePartialBatchAheadAndTracesNoMore) {
  Fixture f;
  auto batches = f.line.batches();
  f.trainer.fit(batches, quiet(3));
  EXPECT_EQ(f.trainer.step().plan_count(), 2u);
  EXPECT_THAT(f.trainer.step().traces(), SizeIs(2));
  f.trainer.fit(batches, quiet(3));
  EXPECT_THAT(f.trainer.step().traces(), SizeIs(2));
}

TEST(Trainer, TheEpochsLossIsTheMeanOverItsRows) {
  Fixture f(0.0);  // parameters stay, so every epoch sees one function
  auto batches = f.line.batches();
  auto whole = f.line.rows().batch(kRows);
  const double loss = f.trainer.fit(batches, quiet(1)).last()["loss"];
  const Results all = f.trainer.evaluate(whole);
  EXPECT_NEAR(loss, all["loss"], 1e-6 * all["loss"]) << "the partial batch of 2 weighs 2 rows";
}

TEST(LossTally, WeighsRowsThatTheLosssDtypeCantCount) {
  LossTally tally;
  tally.update(cast(scalar(1), DType::kBF16), 257);  // 256 or 258 in bf16
  tally.update(cast(scalar(0), DType::kBF16), 1);
  EXPECT_DOUBLE_EQ(tally.mean(), 257.0 / 258);
}

TEST(Trainer, AStepAllocatesNothing) {
  if (!allocations_counted()) GTEST_SKIP() << "a sanitizer has its own allocator";
  Fixture f;
  auto batches = f.line.batches();
  observe::Recorder recorder({.heap_allocations = heap_allocations});
  FitOptions options = quiet(200);
  options.recorder = &recorder;
  options.report_every = 3;
  LambdaCallback nothing({});
  options.callbacks = {&nothing};
  const int64_t before = heap_allocations();
  f.trainer.fit(batches, options);
  EXPECT_GT(heap_allocations(), before) << "planning allocates, so the counter counts";
  EXPECT_EQ(recorder.totals().iterations, 199 * 4);
  EXPECT_EQ(recorder.totals().warmup_iterations, 4);
  EXPECT_EQ(recorder.totals().heap_allocations, 0);
}

TEST(Trainer, RecordsPhasesAndThePartialBatchAsAClass) {
  Fixture f;
  auto batches = f.line.batches();
  observe::Recorder recorder;
  FitOptions options = quiet(50);
  options.recorder = &recorder;
  f.trainer.fit(batches, options);
  EXPECT_THAT(recorder.classes(), ElementsAre(0, 1));
  const auto total = [&](observe::Phase phase) {
    return recorder.totals().phase_ns[static_cast<size_t>(phase)];
  };
  EXPECT_GT(total(observe::Phase::kCompute), 0);
  EXPECT_GT(total(observe::Phase::kDataWait), 0);
}

TEST(Trainer, OnlyCallbacksThatSaveTakeTimeForCheckpoints) {
  struct Saver final : Callback {
    bool saving;
    int asked = 0;
    explicit Saver(bool saves) : saving(saves) {}
    void on_save(RunState&, SavePoint) override { ++asked; }
    bool saves() const override { return saving; }
  };
  const auto checkpoint_ns = [](bool saves) {
    Fixture f;
    auto batches = f.line.batches();
    observe::Recorder recorder;
    FitOptions options = quiet(50);
    options.recorder = &recorder;
    Saver other(false), saver(saves), last(false);
    options.callbacks = {&other, &saver, &last};
    f.trainer.fit(batches, options);
    EXPECT_GT(saver.asked, 50 * 4);
    EXPECT_EQ(other.asked, saver.asked);
    EXPECT_EQ(last.asked, saver.asked);
    return recorder.totals().phase_ns[static_cast<size_t>(observe::Phase::kCheckpoint)];
  };
  EXPECT_EQ(checkpoint_ns(false), 0);
  EXPECT_GT(checkpoint_ns(true), 0);
}

TEST(Trainer, SameSeedSameLosses) {
  const auto losses = [] {
    Fixture f;
    auto batches = f.line.rows().shuffle(kRows, {.seed = 5}).batch(kBatch).prefetch();
    return f.trainer.fit(batches, quiet(5)).values("loss");
  };
  const std::vector<double> first = losses();
  EXPECT_THAT(first, SizeIs(5));
  EXPECT_EQ(first, losses());
}

TEST(Trainer, ValidationChangesNoParameter) {
  const auto train = [](bool validate) {
    Fixture f;
    auto batches = f.line.batches();
    auto validation = f.line.rows().take(10).batch(4);
    FitOptions options = quiet(6);
    if (validate) options.validation_data = validation;
    options.validation_frequency = 2;
    const History history = f.trainer.fit(batches, options);
    if (validate) {
      EXPECT_THAT(history.values("val_loss"), SizeIs(3)) << "every second epoch";
      EXPECT_THAT(history.values("val_mae"), SizeIs(3));
      EXPECT_EQ(f.optimizer.step_count(), 6 * 4);
    } else {
      EXPECT_ERROR(history.values("val_loss"), ErrorCode::kInvalidArgument, "results are loss, mae");
    }
    return std::pair(f.parameters(), history.values("loss"));
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(Trainer, PredictsBatchesOfOneShape) {
  nn::Sequential model{nn::Dropout(0)};
  optim::Sgd optimizer({.learning_rate = 0});
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  const auto of = [](std::vector<int64_t> lengths) {
    const auto begin = [=](uint64_t) {
      return [lengths, n = size_t{0}](data::ElementBuffer& buffer) mutable {
        if (n == lengths.size()) return false;
        std::fill_n(reinterpret_cast<float*>(buffer.room(0, {lengths[n]})), lengths[n], 1.0f);
        *reinterpret_cast<float*>(buffer.room(1, {1})) = 0;
        return ++n > 0;
      };
    };
    auto rows = data::from_generator(
        {"x", "y"}, {data::spec_of(DType::kF32, {data::kAnyExtent}), data::spec_of(DType::kF32, {1})}, begin);
    return data::bucket_by_sequence_length(rows, [](const data::Element& e) { return e[0].extent(0); },
                                           {.longest = {8, 32}, .batch_elems = {1}});
  };
  data::Dataset even = of({8, 7, 3}), longer = of({8, 9}), shorter = of({9, 8});
  EXPECT_EQ(trainer.predict(even).shape(), Shape({3, 8}));
  EXPECT_ERROR(trainer.predict(longer), ErrorCode::kShapeMismatch, "(1, 32) follow predictions f32(1, 8)");
  EXPECT_ERROR(trainer.predict(shorter), ErrorCode::kShapeMismatch, "(1, 8) follow predictions f32(1, 32)");
}

TEST(Trainer, EvaluatesAndPredictsWithoutDropout) {
  Line line;
  nn::Sequential model(nn::Dropout(0.9), nn::Dense(1));
  optim::Sgd optimizer({.learning_rate = 0});
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  auto batches = line.rows().batch(kBatch);
  const double first = trainer.evaluate(batches)["loss"];
  EXPECT_EQ(first, trainer.evaluate(batches)["loss"]);
  const Tensor predictions = trainer.predict(batches);
  EXPECT_EQ(predictions.spec(), (TensorSpec{DType::kF32, {kRows, 1}}));
  const std::vector<double> p = predictions.to_vector(), y = line.targets.to_vector();
  double squares = 0;
  for (size_t i = 0; i < p.size(); ++i) squares += (p[i] - y[i]) * (p[i] - y[i]);
  EXPECT_NEAR(squares / kRows, first, 1e-5 * first) << "rows in order, the partial batch included";
  EXPECT_NE(trainer.fit(batches, quiet(1)).last()["loss"], first) << "training drops";
  auto none = line.rows()
                  .filter([](const Tensor&, const Tensor&) { return false; })
                  .batch(kBatch, {.drop_remainder = true});
  EXPECT_ERROR(trainer.evaluate(none), ErrorCode::kInvalidArgument, "[evaluate] the data contain no batch");
  EXPECT_ERROR(trainer.predict(none), ErrorCode::kInvalidArgument, "[predict] the data contain no batch");
}

TEST(Trainer, PredictsElementsOfAnyNames) {
  Line line;
  nn::Sequential model(nn::Dense(1));
  optim::Sgd optimizer({.learning_rate = 0});
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  auto labeled = line.rows().batch(kBatch);
  auto alone = data::from_tensor_slices(line.inputs).batch(kBatch);
  data::Dataset renamed(data::Element{{"x", line.inputs}, {"y", line.targets}});
  renamed = renamed.batch(kBatch);
  const std::vector<double> expected = trainer.predict(labeled).to_vector();
  EXPECT_EQ(trainer.predict(alone).to_vector(), expected);
  EXPECT_EQ(trainer.predict(renamed).to_vector(), expected);
  EXPECT_EQ(trainer.predict(labeled).to_vector(), expected);
  data::Dataset swapped(data::Element{{"y", line.targets}, {"x", line.inputs}});
  swapped = swapped.batch(kBatch);
  EXPECT_ERROR(trainer.predict(swapped), ErrorCode::kInvalidArgument,
               "was planned for elements (x, y), this dataset's are (y, x); rename them with map");
  trainer.fit(labeled, quiet(1));
  trainer.evaluate(labeled);
  const std::string refused =
      "was planned for elements (0, 1), this dataset's are (x, y); rename them with map";
  EXPECT_ERROR(trainer.fit(renamed, quiet(1)), ErrorCode::kInvalidArgument, refused);
  EXPECT_ERROR(trainer.evaluate(renamed), ErrorCode::kInvalidArgument, refused);
}

TEST(Trainer, StepsPerEpochGoesOnWhereTheEpochEnded) {
  std::vector<double> seen;
  const Tensor numbers = arange(6, DType::kF32);
  const Variable last(zeros({1}), "last", false);
  Trainer trainer({.train = [&](const data::Element& batch) {
    last.assign(batch["number"]);
    return mean(batch["number"]);
  }});
  data::Dataset rows = data::from_tensor_slices({{"number", numbers}});
  data::Dataset batches = rows.batch(1);
  LambdaCallback watch(
      {.on_batch_end = [&](RunState&, const Results&) { seen.push_back(last.tensor().item<double>()); }});
  FitOptions options = quiet(2);
  options.steps_per_epoch = 4;
  options.report_every = 1;
  options.callbacks = {&watch};
  trainer.fit(batches, options);
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5, 0, 1));
  seen.clear();
  data::Dataset endless = rows.repeat().batch(1);
  EXPECT_ERROR(trainer.fit(endless, quiet(1)), ErrorCode::kInvalidArgument, "set steps_per_epoch");
  EXPECT_ERROR(trainer.evaluate(endless), ErrorCode::kInvalidArgument, "no end");
  data::Dataset nothing =
      rows.filter([](const data::Element&) { return false; }).batch(1, {.drop_remainder = true});
  EXPECT_ERROR(trainer.fit(nothing, options), ErrorCode::kInvalidArgument, "[fit] the data contain no batch");
  trainer.fit(endless, options);
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5, 0, 1));
}

TEST(Trainer, NamesEpochAndStepOfALossThatIsNoNumber) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {nan, std::numeric_limits<double>::infinity()}) {
    Trainer trainer({.train = [](const data::Element& batch) { return mean(batch[0]); }});
    std::vector<double> values(20, 1.0);
    values[12] = bad;
    auto batches = data::from_tensor_slices(from_vector({20}, values)).batch(4);
    EXPECT_ERROR(trainer.fit(batches, quiet(2)), ErrorCode::kNotANumber, "loss of step 4 of epoch 1");
    TerminateOnNaN terminate;
    FitOptions options = quiet(2);
    options.report_every = 1;
    options.callbacks = {&terminate};
    const History history = trainer.fit(batches, options);
    EXPECT_THAT(history.stopped, HasSubstr("step 4 of epoch 1"));
    EXPECT_EQ(history.epochs().back().steps, 4);
  }
}

/// A model of one parameter w; its loss is the mean of log(w x), which is not finite for x = 0.
struct LogLoss : nn::Module {
  Tensor forward(const Tensor& x) override { return x * weight.tensor(); }
  void members(nn::Members& list) override { list("weight", weight); }
  Variable weight{ones({1}), "weight"};
};

TEST(Trainer, FindsTheOpThatMadeANumberInfinite) {
  for (const int64_t report_every : {1, 2, 100}) {
    LogLoss model;
    optim::Sgd optimizer({.learning_rate = 0.01});
    const auto loss = [](const Tensor& prediction, const Tensor&) { return mean(log(prediction)); };
    Trainer trainer(model, loss, optimizer);
    std::vector<double> values(20, 1.0);
    values[13] = 0;
    auto batches = data::from_tensor_slices(from_vector({20, 1}, values), ones({20, 1})).batch(4).prefetch();
    FitOptions options = quiet(2);
    options.report_every = report_every;
    EXPECT_ERROR(trainer.fit(batches, options), ErrorCode::kNotANumber,
                 "the loss of step 4 of epoch 1 is NaN or infinite: first in [log] node 'log");
    optimizer.set_learning_rate(0.01);
    model.weight.assign(ones({1}));
    EXPECT_ERROR(
        trainer.fit(batches, options), ErrorCode::kNotANumber,
        "result 0, f32(4, 1): 1 of 4 elements are NaN or infinite, the first at (1, 0) (in step 4);");
    options.trace_not_finite = false;
    model.weight.assign(ones({1}));
    EXPECT_ERROR(trainer.fit(batches, options), ErrorCode::kNotANumber, "is NaN or infinite; lower");
  }
}

TEST(Trainer, FindsAnInfiniteGradientBehindAFiniteLoss) {
  // The gradient of sqrt is infinite at 0, where its value is 0.
  LogLoss model;
  optim::Sgd optimizer({.learning_rate = 0.01});
  const auto loss = [](const Tensor& prediction, const Tensor& target) {
    return mean(sqrt(prediction - prediction * target));
  };
  Trainer trainer(model, loss, optimizer);
  auto batches = data::from_tensor_slices(ones({4, 1}), ones({4, 1})).batch(4);
  EXPECT_ERROR(trainer.fit(batches, quiet(1)), ErrorCode::kNotANumber,
               "after step 1 of epoch 1 'weight' f32(1): 1 of 1 elements are NaN or infinite, the first at "
               "(0): first in");
}

TEST(Trainer, NamesTheTensorOfABatchThatIsNotFinite) {
  Fixture f;
  std::vector<double> values(8, 1.0);
  values[5] = std::numeric_limits<double>::infinity();
  auto batches = data::from_tensor_slices(from_vector({4, 2}, values), ones({4, 1})).batch(4);
  TerminateOnNaN terminate;
  FitOptions options = quiet(1);
  options.callbacks = {&terminate};
  EXPECT_THAT(
      f.trainer.fit(batches, options).stopped,
      HasSubstr("the batch's '0' f32(4, 2): 1 of 8 elements are NaN or infinite, the first at (2, 1)"));
}

TEST(Trainer, TrainsOnOneBatch) {
  Fixture f;
  data::Element batch;
  batch.add("0", f.line.inputs);
  batch.add("1", f.line.targets);
  const double first = f.trainer.train_on_batch(batch)["loss"];
  for (int i = 0; i < 200; ++i) f.trainer.train_on_batch(batch);
  EXPECT_LT(f.trainer.train_on_batch(batch)["loss"], 1e-3 * first);
  EXPECT_EQ(f.optimizer.step_count(), 202);
  EXPECT_EQ(f.trainer.step().plan_count(), 1u);
}

TEST(Trainer, InitialEpochCountsAsDone) {
  Fixture f;
  auto batches = f.line.batches();
  FitOptions options = quiet(5);
  options.initial_epoch = 3;
  const History history = f.trainer.fit(batches, options);
  EXPECT_THAT(history.epochs(), SizeIs(2));
  EXPECT_EQ(history.epochs().front().epoch, 4);
}

TEST(Progress, TellsThePaceOfTheNewestSteps) {
  RecentSteps steps;
  EXPECT_EQ(steps.quantile_ns(0.5), 0);
  for (int i = 0; i < 1000; ++i) steps.add({.duration_ns = 1'000'000, .wait_ns = 0});
  for (int i = 0; i < 461; ++i) steps.add({.duration_ns = 2'000'000, .wait_ns = 200'000});
  for (int i = 0; i < 51; ++i) steps.add({.duration_ns = 4'000'000, .wait_ns = 400'000});
  EXPECT_EQ(steps.size(), RecentSteps::kMaxSteps);
  EXPECT_EQ(steps.quantile_ns(0.5), 2e6);
  EXPECT_EQ(steps.quantile_ns(0.95), 4e6);
  EXPECT_NEAR(steps.wait_share(), 0.1, 1e-12);
  RunState run{.epoch = 2, .epochs = 3, .step = 40, .steps_per_epoch = 100};
  EXPECT_EQ(pace_text(run, steps, 32),
            "step p50 2.00 ms p95 4.00 ms  1.46e+04 samples/s  data wait 10 %  ETA 00:00:01");
}

TEST(Trainer, AStepThatFailsHalfwayUpdatesNothing) {
  const auto parameters_after = [](int64_t steps, bool fails) {
    nn::set_initializer_seed(1);
    nn::Dense model(3);
    optim::Adam optimizer;
    const auto loss = [](const Tensor& logits, const Tensor& labels) {
      return mean(sparse_softmax_cross_entropy(logits, labels));
    };
    Trainer trainer(model, loss, optimizer);
    const Tensor labels = from_vector({6}, {0, 1, 2, 0, 1, 3}, DType::kI64);  // there is no class 3
    auto batches = data::from_tensor_slices(ones({6, 2}), labels).batch(2).take(steps);
    if (fails) {
      EXPECT_ERROR(trainer.fit(batches, quiet(1)), ErrorCode::kOutOfRange, "(step 3 of epoch 1)");
    } else {
      trainer.fit(batches, quiet(1));
    }
    EXPECT_EQ(optimizer.step_count(), 2);
    return model.kernel().tensor().to_vector();
  };
  EXPECT_EQ(parameters_after(3, true), parameters_after(2, false));
}

TEST(Trainer, ADatasetThatFailsEndsTheTrainingNotTheTrainer) {
  Fixture f;
  auto batches = f.line.batches();
  f.trainer.fit(batches, quiet(2));
  const std::vector<double> before = f.parameters();
  auto throwing = f.line.rows().batch(kBatch).map([left = 6](const Tensor& x, const Tensor& y) mutable {
    if (--left == 0) throw std::runtime_error("disk gone");
    return std::array{x, y};
  });
  EXPECT_ERROR(f.trainer.fit(throwing, quiet(3)), ErrorCode::kInvalidArgument, "disk gone");
  EXPECT_NE(f.parameters(), before) << "steps were made";
  EXPECT_EQ(f.optimizer.step_count(), 8 + 3) << "and all of them whole";
  EXPECT_LT(f.trainer.fit(batches, quiet(100)).last()["loss"], 1e-6) << "the trainer goes on";
}

TEST(Trainer, RefusesWhatCannotTrain) {
  Fixture f;
  auto batches = f.line.batches();
  EXPECT_ERROR(f.trainer.fit(batches, quiet(0)), ErrorCode::kInvalidArgument, "epochs must be >= 1");
  FitOptions options = quiet(1);
  options.validation_data = batches;
  EXPECT_ERROR(f.trainer.fit(batches, options), ErrorCode::kInvalidArgument, "the same object");
  options = quiet(1);
  options.callbacks = {nullptr};
  EXPECT_ERROR(f.trainer.fit(batches, options), ErrorCode::kInvalidArgument, "null");
  options = quiet(1);
  options.report_every = 0;
  EXPECT_ERROR(f.trainer.fit(batches, options), ErrorCode::kInvalidArgument, "report_every");
  auto lonely = data::from_tensor_slices(f.line.inputs).batch(4);
  EXPECT_ERROR(f.trainer.fit(lonely, quiet(1)), ErrorCode::kInvalidArgument, "inputs and targets");
  f.trainer.fit(batches, quiet(1));
  data::Dataset named = data::from_tensor_slices({{"x", f.line.inputs}, {"y", f.line.targets}}).batch(kBatch);
  EXPECT_ERROR(f.trainer.fit(named, quiet(1)), ErrorCode::kInvalidArgument, "elements (0, 1)");
  Trainer vector_loss({.train = [](const data::Element& batch) { return batch[0] * 1.0; }});
  EXPECT_ERROR(vector_loss.fit(lonely, quiet(1)), ErrorCode::kShapeMismatch, "must be one number");
  EXPECT_ERROR(vector_loss.evaluate(lonely), ErrorCode::kUnsupported, "without a function for evaluation");
  EXPECT_ERROR(vector_loss.predict(lonely), ErrorCode::kUnsupported, "without a predict function");
  EXPECT_ERROR(Trainer({.train = {}, .metrics = {{"loss", nullptr}}}), ErrorCode::kInvalidArgument,
               "a metric needs");
  const auto named_twice = [](const char* a, const char* b) {
    return Trainer(
        {.train = {}, .metrics = {metric(a, nn::MeanAbsoluteError()), metric(b, nn::MeanAbsoluteError())}});
  };
  EXPECT_ERROR(named_twice("mae", "mae"), ErrorCode::kInvalidArgument, "two metrics are called 'mae'");
  EXPECT_ERROR(named_twice("mae", "val_loss"), ErrorCode::kInvalidArgument, "got 'val_loss'");
  data::Dataset exchanged =
      data::from_tensor_slices({{"y", f.line.targets}, {"x", f.line.inputs}}).batch(kBatch);
  options = quiet(1);
  options.validation_data = exchanged;
  Fixture other;
  EXPECT_ERROR(other.trainer.fit(named, options), ErrorCode::kInvalidArgument,
               "elements of data are (x, y), those of validation_data (y, x)");
  EXPECT_EQ(other.optimizer.step_count(), 0);
}

TEST(Trainer, PrintsALineAnEpoch) {
  const auto printed = [](bool epoch_lines) {
    Fixture f;
    auto batches = f.line.batches();
    std::FILE* file = std::tmpfile();
    FitOptions options = quiet(2);
    options.progress = file;
    options.epoch_lines = epoch_lines;
    LambdaCallback stop({.on_epoch_end = [](RunState& run, const Results&) {
      if (run.epoch == 2) run.stop("enough");
    }});
    options.callbacks = {&stop};
    f.trainer.fit(batches, options);
    std::rewind(file);
    std::string text(1000, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file));
    std::fclose(file);
    return text;
  };
  EXPECT_EQ(printed(false), "stopped: enough\n");
  EXPECT_THAT(printed(true),
              testing::MatchesRegex("Epoch 1/2  loss [0-9.e-]+  mae [0-9.e-]+  [0-9.]+ [mun]?s  "
                                    "step p50 [0-9.]+ [mun]?s\nEpoch 2/2  .*\nstopped: enough\n"));
}

}  // namespace
}  // namespace isochron::train
