#include <deque>
#include <map>

#include "causes/models.h"
#include "causes/planted.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/train/callbacks/callbacks.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::causes {
namespace {

using observe::Phase;
using observe::PhaseScope;
using observe::Recorder;
using observe::RunReport;

constexpr std::string_view kHistory = "retained losses or history";
constexpr std::string_view kLists = "metrics kept in lists";
constexpr std::string_view kHooks = "hooks that pile up";
constexpr std::string_view kOptimizer = "optimizer state made again";

/// A pipeline's batches, without end.
class Fetching {
 public:
  explicit Fetching(const Regression& problem)
      : batches_(problem.rows().shuffle(256).batch(kBatch, {.drop_remainder = true}).repeat().prefetch()),
        at_(batches_.begin()) {}
  template <typename Step>
  void operator()(Recorder& recorder, Step&& step) {
    {
      const PhaseScope compute(recorder, Phase::kCompute);
      const auto& [x, y] = *at_;
      step(x, y);
    }
    const PhaseScope fetch(recorder, Phase::kDataWait);
    ++at_;
  }

 private:
  data::TupleDataset<2> batches_;
  data::TupleDataset<2>::Iterator at_;
};

/// One tape for the whole training run: its records keep every tensor of every step alive.
RunReport one_tape_for_all() {
  Regression problem;
  Fetching fetching(problem);
  GradientTape tape(/*persistent=*/true);
  std::vector<Tensor> losses;
  return run_loop(
      [&](Recorder& recorder, int64_t) {
        fetching(recorder, [&](const Tensor& x, const Tensor& y) {
          losses.push_back(problem.train(copy(x), copy(y)));
        });
      },
      {.warmup = 20, .most = 3000});
}

/// The losses as tensors, "for the plot afterwards".
RunReport losses_kept() {
  Regression problem;
  Fetching fetching(problem);
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train(x, y); });
  std::vector<Tensor> losses;
  return run_loop(
      [&](Recorder& recorder, int64_t) {
        fetching(recorder, [&](const Tensor& x, const Tensor& y) { losses.push_back(copy(step(x, y))); });
      },
      {.least = 2000, .most = 400'000});
}

/// Outputs of some steps kept for later, by name.
RunReport outputs_kept_by_name() {
  Regression problem;
  Fetching fetching(problem);
  std::map<std::string, Tensor> kept;
  return run_loop(
      [&](Recorder& recorder, int64_t i) {
        fetching(recorder, [&](const Tensor& x, const Tensor& y) {
          problem.train_eager(x, y);
          if (i % 3 == 0) kept.emplace(fmt::format("prediction {}", i), problem.model(x));
        });
      },
      {.most = 30'000});
}

struct StepRecord {
  int64_t step;
  double loss, rate, seconds;
};

RunReport records_in_a_vector() {
  Regression problem;
  Fetching fetching(problem);
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train(x, y); });
  std::vector<StepRecord> records;
  return run_loop(
      [&](Recorder& recorder, int64_t i) {
        fetching(recorder, [&](const Tensor& x, const Tensor& y) {
          records.push_back({i, step(x, y).item<float>(), 1e-3, 0});
        });
      },
      {.least = 100'000, .most = 400'000});
}

/// A callback that keeps every batch's results by name and takes the mean over all of them each time.
class KeepsAll : public train::Callback {
 public:
  void on_batch_end(train::RunState& run, const train::Results& results) override {
    for (const auto& [name, value] : results) {
      std::deque<StepRecord>& list = lists_[name];
      list.push_back({run.total_steps, value, 1e-3, 0});
      double sum = 0;
      for (const StepRecord& record : list) sum += record.loss;
      mean_ = sum / static_cast<double>(list.size());
    }
  }

 private:
  std::map<std::string, std::deque<StepRecord>> lists_;
  double mean_ = 0;
};

/// A fit over `epochs` with `callbacks` and its own recorder.
RunReport fit(std::vector<train::Callback*> callbacks, int epochs) {
  Regression problem;
  auto batches = problem.rows().shuffle(256).batch(kBatch).prefetch();
  train::Trainer trainer(problem.model, nn::mean_squared_error, problem.optimizer);
  Recorder recorder(recorder_options());
  trainer.fit(batches, {.epochs = epochs,
                        .callbacks = std::move(callbacks),
                        .recorder = &recorder,
                        .report_every = 1,
                        .progress = nullptr});
  recorder.sample();
  return make_report(recorder, "fit", report_options());
}

RunReport means_over_all_batches() {
  KeepsAll keeps;
  return fit({&keeps}, 400);
}

/// Each step registers an event receiver and never removes it.
RunReport receivers_registered() {
  Regression problem;
  std::vector<int> receivers;
  int64_t seen = 0;
  RunReport report = run_loop(
      [&](Recorder& recorder, int64_t) {
        const PhaseScope compute(recorder, Phase::kCompute);
        problem.train_eager(problem.x, problem.y);
        receivers.push_back(add_event_sink([&seen](const Event&) { ++seen; }));
      },
      {.most = 20'000});
  for (const int receiver : receivers) remove_event_sink(receiver);
  return report;
}

/// Every tenth step adds a callback to the list, and every step calls the whole list.
RunReport callbacks_added() {
  Regression problem;
  Fetching fetching(problem);
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train(x, y); });
  std::vector<std::unique_ptr<train::Callback>> callbacks;
  train::RunState run;
  const train::Results results;
  double sum = 0;
  return run_loop(
      [&](Recorder& recorder, int64_t i) {
        fetching(recorder, [&](const Tensor& x, const Tensor& y) { step(x, y); });
        const PhaseScope calling(recorder, Phase::kCallbacks);
        if (i % 10 == 0) {
          callbacks.push_back(std::make_unique<train::LambdaCallback>(train::LambdaCallback::Functions{
              .on_batch_end = [&sum](train::RunState&, const train::Results&) { sum += 1; }}));
        }
        for (const auto& callback : callbacks) callback->on_batch_end(run, results);
      },
      {.least = 2000, .most = 20'000});
}

RunReport adam_made_each_step() {
  Regression problem;
  Fetching fetching(problem);
  return run_loop([&](Recorder& recorder, int64_t) {
    fetching(recorder, [&](const Tensor& x, const Tensor& y) {
      problem.optimizer = optim::Adam();
      problem.train_eager(x, y);
    });
  });
}

/// The old ones stay.
RunReport optimizers_kept() {
  Regression problem;
  Fetching fetching(problem);
  std::deque<optim::Optimizer> optimizers;
  return run_loop(
      [&](Recorder& recorder, int64_t i) {
        fetching(recorder, [&](const Tensor& x, const Tensor& y) {
          if (i % 5 == 0) optimizers.push_back(optim::RmsProp());
          GradientTape tape;
          const Tensor loss = problem.loss(x, y);
          optimizers.back().minimize(loss, problem.model.parameters());
        });
      },
      {.most = 20'000});
}

}  // namespace

std::vector<Planted> planted_history() {
  return {{kHistory, "one tape for all steps", one_tape_for_all},
          {kHistory, "losses kept as tensors", losses_kept},
          {kHistory, "outputs of some steps kept by name", outputs_kept_by_name},
          {kLists, "a record of each step in a vector", records_in_a_vector},
          {kLists, "a callback that keeps and averages all results", means_over_all_batches},
          {kHooks, "a receiver of events registered in each step", receivers_registered},
          {kHooks, "a callback added every ten steps", callbacks_added},
          {kOptimizer, "a new Adam in each step", adam_made_each_step},
          {kOptimizer, "a new RMSprop every five steps, the old ones kept", optimizers_kept}};
}

}  // namespace isochron::causes
