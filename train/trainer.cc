#include "isochron/train/trainer.h"

#include <algorithm>
#include <cstring>

#include "isochron/core/clock.h"
#include "isochron/memory/buffer.h"
#include "isochron/observe/histogram.h"
#include "isochron/train/progress.h"

namespace isochron::train {
namespace {

using observe::Phase;

/// A phase of the recorder, if there is one.
class OptionalPhase {
 public:
  OptionalPhase(observe::Recorder* recorder, Phase phase, const char* label = nullptr) {
    if (recorder != nullptr) scope_.emplace(*recorder, phase, label);
  }

 private:
  std::optional<observe::PhaseScope> scope_;
};

int64_t rows_of(const data::Element& batch) { return batch[0].rank() > 0 ? batch[0].extent(0) : 1; }

void require_finite_pass(const data::Dataset& dataset, std::string_view where) {
  require(dataset.size() != data::kInfinite, ErrorCode::kInvalidArgument, where,
          "the dataset has no end; take() as many batches as one pass shall have");
}

}  // namespace

/// One run of `fit`.
class Trainer::Fit {
 public:
  Fit(Trainer& trainer, data::Dataset& dataset, const FitOptions& options)
      : trainer_(trainer),
        dataset_(dataset),
        options_(options),
        recorder_(options.recorder),
        full_(dataset.signatures().front()),
        progress_(options.progress) {
    run_.epochs = options.epochs;
    run_.steps_per_epoch = options.steps_per_epoch > 0 ? options.steps_per_epoch : dataset.size();
    trainer.read_tallies(results_, "");
    for (const auto& [name, value] : results_) run_.names.push_back(name);
    for (size_t i = 0; options.validation_data && i < trainer.functions_.metrics.size() + 1; ++i) {
      run_.names.push_back("val_" + run_.names[i]);
    }
  }

  History run() {
    trainer_.train_.prepare(dataset_);
    if (options_.validation_data) trainer_.evaluate_.prepare(options_.validation_data->dataset());
    // Planning is warm-up, and so is the first epoch if another follows.
    if (recorder_ != nullptr && recorder_->totals().iterations + recorder_->totals().warmup_iterations == 0) {
      recorder_->seal();
    }
    notify(&Callback::on_train_begin);
    for (run_.epoch = 1; run_.epoch <= options_.epochs && run_.stop_reason.empty(); ++run_.epoch) epoch();
    --run_.epoch;
    notify(&Callback::on_train_end);
    history_.stopped = run_.stop_reason;
    if (!run_.stop_reason.empty()) progress_.note("stopped: " + run_.stop_reason);
    return std::move(history_);
  }

 private:
  void epoch() {
    run_.step = 0;
    notify(&Callback::on_epoch_begin);
    if (!run_.stop_reason.empty()) return;
    if (run_.epoch == 2 && recorder_ != nullptr && recorder_->totals().warmup_iterations == 0) {
      recorder_->seal();
    }
    trainer_.reset_tallies();
    durations_.clear();
    const int64_t began_ns = now_ns();
    steps();
    EpochRecord record;
    record.seconds = static_cast<double>(now_ns() - began_ns) * 1e-9;
    record.epoch = run_.epoch;
    record.steps = run_.step;
    record.step_p50_ns = durations_.quantile(0.5);
    end_epoch(std::move(record));
  }

  void steps() {
    const bool counted = options_.steps_per_epoch > 0;
    if (!at_ || *at_ == std::default_sentinel) begin_data();
    while (*at_ != std::default_sentinel && run_.stop_reason.empty()) {
      step();
      if (counted && run_.step == options_.steps_per_epoch) break;
      if (counted && *at_ == std::default_sentinel) begin_data();
    }
  }

  /// One iteration: the step on the batch at hand, then the fetching of the next.
  void step() {
    data::Dataset::Iterator& at = *at_;
    const bool updates = prepare_update();
    if (recorder_ != nullptr) recorder_->begin_iteration(at->has(full_) ? (updates ? 2 : 0) : 1);
    const int64_t began_ns = now_ns();
    {
      const OptionalPhase phase(recorder_, Phase::kCompute);
      trainer_.train_.call(*at);
    }
    ++run_.step;
    if (run_.step % options_.report_every == 0) report();
    {
      const OptionalPhase phase(recorder_, Phase::kDataWait);
      ++at;
    }
    durations_.add(now_ns() - began_ns);
    if (recorder_ != nullptr) recorder_->end_iteration();
  }

  /// Where micro-batches are accumulated: does this step update? The last one of an epoch does in any case.
  bool prepare_update() {
    optim::Optimizer* optimizer = trainer_.functions_.optimizer;
    if (optimizer == nullptr || optimizer->accumulate() == 1) return false;
    const bool last = run_.step + 1 == run_.steps_per_epoch;
    if (last) optimizer->flush_next();
    return last || optimizer->phase() + 1 == optimizer->accumulate();
  }

  void begin_data() {
    const OptionalPhase phase(recorder_, Phase::kDataWait);
    at_.emplace(dataset_.begin());
  }

  /// The declared point of a read within an epoch.
  void report() {
    check_finite();
    if (!options_.callbacks.empty()) {
      trainer_.read_tallies(results_, "");
      notify(&Callback::on_batch_end, results_);
    }
    if (!progress_.due()) return;
    const OptionalPhase phase(recorder_, Phase::kLog, "progress");
    trainer_.read_tallies(results_, "");
    progress_.update(run_, results_);
  }

  void check_finite() {
    const int64_t step = trainer_.loss_.first_not_finite();
    if (step == 0 || !run_.stop_reason.empty()) return;
    const OptionalPhase phase(recorder_, Phase::kCallbacks);
    for (Callback* callback : options_.callbacks) {
      if (callback->on_not_a_number(run_, step)) return;
    }
    fail(
        ErrorCode::kNotANumber, "fit",
        "the loss of step {} of epoch {} is NaN or infinite; lower the learning rate, clip the gradients, or "
        "look for such numbers in the data",
        step, run_.epoch);
  }

  void end_epoch(EpochRecord record) {
    check_finite();
    trainer_.read_tallies(record.results, "");
    if (options_.validation_data && run_.epoch % options_.validation_frequency == 0) {
      trainer_.run_evaluation(options_.validation_data->dataset());
      trainer_.read_tallies(record.results, "val_");
    }
    notify(&Callback::on_epoch_end, record.results);
    const OptionalPhase phase(recorder_, Phase::kLog, "progress");
    progress_.finish(run_, record);
    history_.add(std::move(record));
  }

  void notify(void (Callback::*hook)(RunState&, const Results&), const Results& results) {
    const OptionalPhase phase(recorder_, Phase::kCallbacks);
    for (Callback* callback : options_.callbacks) (callback->*hook)(run_, results);
  }
  void notify(void (Callback::*hook)(RunState&)) {
    const OptionalPhase phase(recorder_, Phase::kCallbacks);
    for (Callback* callback : options_.callbacks) (callback->*hook)(run_);
  }

  Trainer& trainer_;
  data::Dataset& dataset_;
  const FitOptions& options_;
  observe::Recorder* recorder_;
  data::Signature full_;
  Progress progress_;
  RunState run_;
  History history_;
  Results results_;  // those of the epoch so far
  observe::LogHistogram<uint32_t> durations_;
  std::optional<data::Dataset::Iterator> at_;
};

Trainer::Trainer(BatchFunctions functions)
    : functions_(std::move(functions)),
      train_("train step", true, counted(functions_.train), functions_.precision),
      evaluate_("evaluation", false, counted(functions_.evaluate), functions_.precision),
      predict_(
          "prediction", false,
          [this](const data::Element& batch) {
            require(functions_.predict != nullptr, ErrorCode::kUnsupported, "predict",
                    "the trainer was made without a predict function");
            const Tensor prediction = functions_.predict(batch);
            require(prediction.rank() >= 1 && prediction.extent(0) == rows_of(batch),
                    ErrorCode::kShapeMismatch, "predict", "{} rows give predictions {}; expected one a row",
                    rows_of(batch), prediction.spec().str());
            return std::vector<Tensor>{prediction};
          },
          functions_.precision) {
  for (const NamedMetric& entry : functions_.metrics) {
    require(!entry.name.empty() && entry.name != "loss" && entry.metric != nullptr,
            ErrorCode::kInvalidArgument, "trainer", "a metric needs a name other than 'loss' and an object");
  }
}

Trainer::Trainer(nn::Module& model, Loss loss, optim::Optimizer& optimizer, std::vector<NamedMetric> metrics)
    : Trainer(supervised(model, std::move(loss), optimizer, std::move(metrics))) {}

BatchPlan::Function Trainer::counted(BatchFunction function) {
  return [this, function = std::move(function)](const data::Element& batch) {
    require(function != nullptr, ErrorCode::kUnsupported, "trainer",
            "the trainer was made without a function for {}", nn::training() ? "training" : "evaluation");
    loss_.update(function(batch), rows_of(batch));
    return std::vector<Tensor>{};
  };
}

void Trainer::reset_tallies() {
  loss_.reset();
  for (const NamedMetric& entry : functions_.metrics) entry.metric->reset();
}

void Trainer::read_tallies(Results& results, const std::string& prefix) const {
  results.set(prefix + "loss", loss_.mean());
  for (const NamedMetric& entry : functions_.metrics) {
    results.set(prefix + entry.name, entry.metric->result());
  }
}

History Trainer::fit(Batches data, const FitOptions& options) {
  require(options.epochs >= 1, ErrorCode::kInvalidArgument, "fit", "epochs must be >= 1, got {}",
          options.epochs);
  require(options.steps_per_epoch >= 0, ErrorCode::kInvalidArgument, "fit",
          "steps_per_epoch must be >= 0, got {}", options.steps_per_epoch);
  require(options.steps_per_epoch > 0 || data.dataset().size() != data::kInfinite,
          ErrorCode::kInvalidArgument, "fit", "the dataset has no end; set steps_per_epoch");
  require(options.validation_frequency >= 1 && options.report_every >= 1, ErrorCode::kInvalidArgument, "fit",
          "validation_frequency and report_every must be >= 1, got {} and {}", options.validation_frequency,
          options.report_every);
  require(std::find(options.callbacks.begin(), options.callbacks.end(), nullptr) == options.callbacks.end(),
          ErrorCode::kInvalidArgument, "fit", "a callback is null");
  if (options.validation_data) {
    require_finite_pass(options.validation_data->dataset(), "fit");
    require(&options.validation_data->dataset() != &data.dataset(), ErrorCode::kInvalidArgument, "fit",
            "data and validation_data are the same object; pass a copy of the dataset");
  }
  return Fit(*this, data.dataset(), options).run();
}

void Trainer::run_evaluation(data::Dataset& dataset) {
  reset_tallies();
  for (const data::Element& batch : dataset) evaluate_.call(batch);
}

Results Trainer::evaluate(Batches data) {
  require_finite_pass(data.dataset(), "evaluate");
  evaluate_.prepare(data.dataset());
  run_evaluation(data.dataset());
  Results results;
  read_tallies(results, "");
  return results;
}

Tensor Trainer::predict(Batches data) {
  require_finite_pass(data.dataset(), "predict");
  predict_.prepare(data.dataset());
  std::vector<std::byte> bytes;
  std::optional<TensorSpec> spec;
  int64_t rows = 0;
  for (const data::Element& batch : data.dataset()) {
    const Tensor& prediction = predict_.call(batch)[0];
    bytes.insert(bytes.end(), prediction.raw(), prediction.raw() + prediction.size_bytes());
    rows += prediction.extent(0);
    if (!spec) spec = prediction.spec();
  }
  spec->shape[0] = rows;
  const Tensor result = empty(*spec, "predictions");
  std::copy(bytes.begin(), bytes.end(), result.raw());
  return result;
}

}  // namespace isochron::train
