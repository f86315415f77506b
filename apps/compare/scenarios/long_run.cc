// Scenario `long-run`: training past 1,500 iterations, on images (the shipped digits) and on a series (weekly
// CO2). It is slow or growing if the loop needlessly keeps, recreates or rereads something. The cured loops
// use a pipeline for the input, eight micro-batches per update, and mixed precision.
#include <array>
#include <cmath>
#include <map>
#include <memory>

#include "isochron/apps/compare/models/image_or_series.h"
#include "isochron/apps/compare/scenarios/scenario.h"
#include "isochron/apps/compare/tables/long_run.h"
#include "isochron/autograd/autograd.h"
#include "isochron/data/pipeline/dataset.h"
#include "isochron/data/sources/datasets.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/loop/batch_plan.h"

namespace isochron::apps {
namespace {

using observe::Flatness;
using observe::IterationScope;
using observe::Phase;
using observe::PhaseScope;

constexpr int64_t kAccumulate = 8;
constexpr int64_t kIterations = 20'000;          // at least, for cured loops; at most, for a growing cache
constexpr int64_t kRetainingIterations = 4'000;  // the kept history then takes some hundred megabytes
constexpr int64_t kDigitsStepsPerEpoch = 44;     // 1,437 images

/// The results of a loop that its notes report.
struct Outcome {
  double loss = 0;
  size_t optimizer_bytes = 0;
  size_t arena_bytes = 0;
};

/// The cured loop: one captured step for every micro-batch.
void run_captured(LoopContext& context, const ImageOrSeries& problem, optim::Optimizer optimizer,
                  Precision precision, Outcome& outcome,
                  const std::function<void(const data::Element& batch)>& beside = {}) {
  train::BatchPlan step("train_step", true, training(problem, optimizer),
                        {.passes = {.precision = precision}});
  data::Dataset batches = problem.batches();
  step.prepare(batches);
  double loss = 0;
  run_steps(
      context, batches,
      [&](const data::Element& batch) {
        loss = step.call(batch)[0].item<float>();
        if (beside) beside(batch);
      },
      optimizer.accumulate());
  require(std::isfinite(loss), ErrorCode::kNotANumber, "long-run", "the loss is {}", loss);
  outcome = {loss, optimizer.state_bytes(), step.captured().plan_report().arena_bytes};
}

/// Every training batch stays in memory, under a key that never recurs. A cache in front of a random
/// augmentation behaves this way.
void input_cached(LoopContext& context, int64_t& cached_bytes) {
  std::map<int64_t, std::array<Tensor, 2>> cache;
  Outcome outcome;
  run_captured(context, images(), optim::Adam(), Precision::kF32, outcome, [&](const data::Element& batch) {
    cache.emplace(static_cast<int64_t>(cache.size()),
                  std::array<Tensor, 2>{copy(batch["x"]), copy(batch["y"])});
    cached_bytes += static_cast<int64_t>(batch["x"].size_bytes() + batch["y"].size_bytes());
  });
}

/// One tape is used for the whole training; it keeps every intermediate tensor of every step alive.
void losses_kept(LoopContext& context) {
  const ImageOrSeries problem = images();
  data::Dataset batches = problem.batches();
  optim::Adam optimizer;
  GradientTape tape(/*persistent=*/true);
  std::vector<Tensor> losses;
  run_steps(context, batches, [&](const data::Element& batch) {
    losses.push_back(problem.loss_of(batch));
    optimizer.minimize(losses.back(), problem.model->parameters());
  });
}

/// A new optimizer is created in every step. Its moments begin at zero, so Adam's update depends only on the
/// gradient's sign.
void optimizer_made_again(LoopContext& context, int64_t& made) {
  const ImageOrSeries problem = images();
  data::Dataset batches = problem.batches();
  run_steps(context, batches, [&](const data::Element& batch) {
    GradientTape tape;
    optim::Adam optimizer;
    ++made;
    const Tensor loss = problem.loss_of(batch);
    optimizer.minimize(loss, problem.model->parameters());
  });
}

/// The whole file is read, unpacked and parsed for every batch.
void read_again(LoopContext& context, int64_t& read_bytes) {
  const ImageOrSeries problem = images();
  optim::Adam optimizer;
  train::BatchPlan step("train_step", true, training(problem, optimizer));
  data::Dataset batches = problem.batches();
  step.prepare(batches);
  const std::filesystem::path path = data::dataset_path("digits.csv.gz");
  const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
  int64_t row = 0;
  do {
    IterationScope iteration(context.recorder);
    data::Element batch;
    {
      PhaseScope fetch(context.recorder, Phase::kDataWait);
      const data::LabelledImages all = data::load_digits(path).train;
      read_bytes += file_bytes;
      batch = {{"x", narrow(all.images, 0, row, kLongRunBatch) - 0.5},
               {"y", copy(narrow(all.labels, 0, row, kLongRunBatch))}};
      row = (row + kLongRunBatch) % (kDigitsStepsPerEpoch * kLongRunBatch);
    }
    PhaseScope compute(context.recorder, Phase::kCompute);
    step.call(batch);
  } while (context.next());
}

/// Plain gradient descent on the images, with one of three ways to make an update from 256 images.
class ThreeWays {
 public:
  enum Way { kListed, kAccumulated, kLargeBatch };

  explicit ThreeWays(Way way)
      : way_(way),
        optimizer_({.learning_rate = 0.1, .step = {.accumulate = way == kAccumulated ? kAccumulate : 1}}),
        batches_(problem_.batches(way == kLargeBatch ? kAccumulate * kLongRunBatch : kLongRunBatch)) {
    step_.prepare(batches_);
    sum_.prepare(batches_);
  }
  data::Dataset& batches() { return batches_; }
  int64_t batches_an_update() const { return way_ == kLargeBatch ? 1 : kAccumulate; }
  void step(const data::Element& batch) {
    (way_ == kListed && ++steps_ % kAccumulate != 0 ? sum_ : step_).call(batch);
  }
  /// Mean over all images.
  double loss() {
    data::Dataset all = problem_.rows.batch(kDigitsStepsPerEpoch * kLongRunBatch, {.drop_remainder = true});
    return problem_.loss_of(*all.begin()).item<float>();
  }

 private:
  std::vector<Tensor> trace(const data::Element& batch, bool update) {
    const Tensor loss = problem_.loss_of(batch);
    const std::vector<Variable> parameters = problem_.model->parameters();
    if (way_ == kListed) {
      apply_as_listed(loss, parameters, update);
    } else {
      optimizer_.minimize(loss, parameters, static_cast<double>(batch["y"].extent(0)));
    }
    return {loss};
  }
  /// As the document lists it: the sums that should accumulate over eight batches are reset in each batch, so
  /// only the eighth batch's gradient, divided by eight, is applied.
  void apply_as_listed(const Tensor& loss, const std::vector<Variable>& parameters, bool update) {
    const std::vector<Tensor> sources(parameters.begin(), parameters.end());
    std::vector<Tensor> sums;
    for (const Tensor& gradient : gradients(loss, sources)) {
      sums.push_back(zeros_like(gradient) + gradient / static_cast<double>(kAccumulate));
    }
    if (update) optimizer_.apply(parameters, sums);
  }

  Way way_;
  ImageOrSeries problem_ = images();
  optim::Sgd optimizer_;
  data::Dataset batches_;
  int64_t steps_ = 0;
  train::BatchPlan step_{"train_step", true, [this](const data::Element& b) { return trace(b, true); }};
  train::BatchPlan sum_{"sums_alone", true, [this](const data::Element& b) { return trace(b, false); }};
};

void accumulation_listed(LoopContext& context) {
  ThreeWays listed(ThreeWays::kListed);
  run_steps(
      context, listed.batches(), [&](const data::Element& batch) { listed.step(batch); }, kAccumulate);
}

/// Trains each of the ways for the same number of updates and reports the resulting losses.
std::vector<std::string> accumulation_notes() {
  constexpr int64_t kUpdates = 200;
  std::array<double, 3> losses{};
  for (const auto way : {ThreeWays::kListed, ThreeWays::kAccumulated, ThreeWays::kLargeBatch}) {
    ThreeWays training(way);
    auto at = training.batches().begin();
    for (int64_t i = 0; i < kUpdates * training.batches_an_update(); ++i, ++at) training.step(*at);
    losses[way] = training.loss();
  }
  return {
      fmt::format("trains incorrectly: the loss after {} updates is {:.3f}; with sums kept over 8 "
                  "micro-batches it is {:.3f}, and with batches of {} it is {:.3f}",
                  kUpdates, losses[0], losses[1], kAccumulate * kLongRunBatch, losses[2])};
}

/// A loop that counts something while it runs, and reports the count as a gauge.
Loop counting_loop(std::string name, std::string what, Expectation expected, std::string gauge,
                   bool cumulative, void (*run)(LoopContext& context, int64_t& count)) {
  const auto count = std::make_shared<int64_t>(0);
  Loop loop;
  loop.name = std::move(name);
  loop.what = std::move(what);
  loop.iterations_per_epoch = kDigitsStepsPerEpoch;
  loop.expected = std::move(expected);
  loop.gauges = {
      {std::move(gauge), [](void* at) { return *static_cast<int64_t*>(at); }, count.get(), cumulative}};
  loop.run = [count, run](LoopContext& context) {
    *count = 0;
    run(context, *count);
  };
  return loop;
}

Loop cured_loop(std::string name, std::string what, ImageOrSeries (*problem)(),
                optim::Optimizer (*optimizer)(), Precision precision) {
  const auto outcome = std::make_shared<Outcome>();
  Loop loop;
  loop.name = std::move(name);
  loop.what = std::move(what);
  loop.cured = true;
  loop.iterations_per_epoch = kDigitsStepsPerEpoch;
  loop.min_iterations = kIterations;
  loop.expected = {.no_allocations = true};
  loop.run = [=](LoopContext& context) {
    run_captured(context, problem(), optimizer(), precision, *outcome);
  };
  loop.notes = [outcome] {
    return std::vector<std::string>{
        fmt::format("last loss {:.3g}; arena {}, optimizer {}", outcome->loss,
                    observe::bytes_text(static_cast<double>(outcome->arena_bytes)),
                    observe::bytes_text(static_cast<double>(outcome->optimizer_bytes)))};
  };
  return loop;
}

optim::StepOptions in_eights(optim::LossScale scale = {}) {
  return {.accumulate = kAccumulate, .loss_scale = scale};
}

}  // namespace

Scenario long_run_scenario() {
  Scenario scenario;
  scenario.name = "long-run";
  scenario.complaint = "training slows after 1,500 iterations, and memory is high";
  const std::vector<Flatness> flat_or_growing = {Flatness::kFlat, Flatness::kGrowing};
  scenario.loops.push_back(counting_loop("input cached without a bound",
                                         "every batch is cached under a new key, so none is ever found again",
                                         {.time = flat_or_growing,
                                          .memory = {Flatness::kGrowing},
                                          .grows = "bytes_in_use",
                                          .cause = "prefetch or cache without a bound"},
                                         "cached_bytes", false, input_cached));
  scenario.loops.back().max_iterations = kIterations;
  scenario.loops.push_back(
      {.name = "losses kept with their history",
       .what = "one tape for the whole training keeps every tensor of every step; op by op",
       .iterations_per_epoch = kDigitsStepsPerEpoch,
       .max_iterations = kRetainingIterations,
       .expected = {.time = flat_or_growing,
                    .memory = {Flatness::kGrowing},
                    .grows = "bytes_in_use",
                    .cause = "retained losses or history"},
       .run = losses_kept});
  scenario.loops.push_back(counting_loop("optimizer made again", "a new Adam in every step; op by op",
                                         {.slow = true, .cause = "optimizer state made again"},
                                         "optimizer_states", true, optimizer_made_again));
  scenario.loops.push_back(
      counting_loop("data read again from disk", "the file is read, unpacked and parsed for every batch",
                    {.slow = true, .cause = "starvation by the input"}, "disk_read_bytes", true, read_again));
  scenario.loops.push_back(
      {.name = "accumulation as listed",
       .what = "8 micro-batches per update, but each one sets the gradient sums to zero",
       .iterations_per_epoch = kDigitsStepsPerEpoch,
       .fault = KnownFault{"trains incorrectly: each update applies an eighth of one micro-batch's gradient",
                           "sums set to zero in every micro-batch",
                           "keep the sums until the update, as StepOptions::accumulate does"},
       .run = accumulation_listed,
       .notes = accumulation_notes});
  scenario.loops.push_back(cured_loop(
      "images, Adam", "pipeline, 8 micro-batches per update, mixed_f16 with loss scaling", images,
      [] { return optim::Optimizer(optim::Adam({.step = in_eights(optim::LossScale::dynamic())})); },
      Precision::kMixedF16));
  scenario.loops.push_back(cured_loop(
      "images, RMSprop", "pipeline, 8 micro-batches per update, mixed_bf16", images,
      [] { return optim::Optimizer(optim::RmsProp({.step = in_eights()})); }, Precision::kMixedBf16));
  scenario.loops.push_back(cured_loop(
      "series, Adam", "weekly CO2 through a GRU, 8 micro-batches per update, mixed_bf16", series,
      [] { return optim::Optimizer(optim::Adam({.step = in_eights()})); }, Precision::kMixedBf16));
  scenario.loops.push_back(cured_loop(
      "series, RMSprop", "weekly CO2 through a GRU, 8 micro-batches per update, f32", series,
      [] { return optim::Optimizer(optim::RmsProp({.step = in_eights()})); }, Precision::kF32));
  scenario.tables = {optimizers_table, accumulation_table, precisions_table};
  for (Loop& loop : scenario.loops) {
    if (loop.name.starts_with("series")) loop.against = "series, Adam";  // not the image loops' model
  }
  scenario.summary =
      "A long run slows down or fills the memory because of what the loop itself keeps. A cache whose keys "
      "never recur and a tape that is never released take memory in every step. A new optimizer in each "
      "step, or a file read again for each batch, costs the same in every step: the loop is slow from the "
      "first step on. Accumulation that zeroes its sums in every micro-batch is neither slow nor growing, "
      "but it trains incorrectly. Nothing happens at iteration 1,500 that did not happen before.";
  return scenario;
}

}  // namespace isochron::apps
