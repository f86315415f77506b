#include "isochron/train/loop/trainer.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "isochron/memory/allocators/buffer.h"
#include "isochron/ops/random/random.h"
#include "isochron/train/checkpoints/finite_snapshot.h"
#include "isochron/train/loop/fit.h"

namespace isochron::train {
namespace {

void require_finite_pass(const data::Dataset& dataset, std::string_view where) {
  require(dataset.size() != data::kInfinite, ErrorCode::kInvalidArgument, where,
          "the dataset has no end; limit a pass with take()");
}

/// Training and validation data pass through one model by position. With exchanged names, the model would be
/// trained on one tensor and evaluated on another.
void require_same_names(const std::vector<std::string>& train, const std::vector<std::string>& validation) {
  const auto common = static_cast<std::ptrdiff_t>(std::min(train.size(), validation.size()));
  require(std::equal(train.begin(), train.begin() + common, validation.begin()), ErrorCode::kInvalidArgument,
          "fit", "elements of data are ({}), those of validation_data ({}); rename them with map",
          fmt::join(train, ", "), fmt::join(validation, ", "));
}

/// A fit of several ranks reads datasets of its own. After the fit, the caller's dataset continues with the
/// epoch that follows theirs.
struct EpochsRead {
  const data::Dataset& own;
  data::Dataset& callers;
  ~EpochsRead() { callers.set_epoch(own.next_epoch()); }
};

}  // namespace

Trainer::Trainer(BatchFunctions functions)
    : functions_(std::move(functions)),
      train_("train step", true, counted(functions_.train), capture_options()),
      evaluate_("evaluation", false, counted(functions_.evaluate), capture_options()),
      predict_(
          "prediction", false,
          [this](const data::Element& batch) {
            require(functions_.predict != nullptr, ErrorCode::kUnsupported, "predict",
                    "the trainer was made without a predict function");
            const Tensor prediction = functions_.predict(batch);
            require(prediction.rank() >= 1 && prediction.extent(0) == batch_rows(batch),
                    ErrorCode::kShapeMismatch, "predict", "{} rows give predictions {}; expected one per row",
                    batch_rows(batch), prediction.spec().str());
            return std::vector<Tensor>{prediction};
          },
          capture_options(), BatchPlan::Names::kAny) {
  for (const NamedMetric& entry : functions_.metrics) {
    const bool own = entry.name == "loss" || entry.name == "loss_scale" || entry.name == "skipped_steps" ||
                     entry.name.starts_with("val_");
    const auto same = [&](const NamedMetric& other) { return other.name == entry.name; };
    require(!entry.name.empty() && !own && entry.metric != nullptr, ErrorCode::kInvalidArgument, "trainer",
            "a metric needs an object and a name other than 'loss', 'loss_scale', 'skipped_steps' and "
            "'val_...', got '{}'",
            entry.name);
    require(std::count_if(functions_.metrics.begin(), functions_.metrics.end(), same) == 1,
            ErrorCode::kInvalidArgument, "trainer", "two metrics are called '{}'", entry.name);
  }
  for (const auto& [name, sum] : tallies()) sum.move_to(functions_.device);
  random::default_generator().move_to(functions_.device);
}

Trainer::Trainer(nn::Module& model, Loss loss, optim::Optimizer& optimizer, std::vector<NamedMetric> metrics,
                 SampleWeighting weighting)
    : Trainer(supervised(model, std::move(loss), optimizer, std::move(metrics), std::move(weighting))) {}

CaptureOptions Trainer::capture_options() const {
  return {.passes = {.precision = functions_.precision}, .plan = {.device = functions_.device}};
}

BatchPlan::Function Trainer::counted(BatchFunction function) {
  return [this, function = std::move(function)](const data::Element& batch) {
    require(function != nullptr, ErrorCode::kUnsupported, "trainer",
            "the trainer was made without a function for {}", nn::training() ? "training" : "evaluation");
    loss_.update(function(batch), batch_rows(batch));
    return std::vector<Tensor>{};
  };
}

optim::Optimizer* Trainer::accumulating() const {
  optim::Optimizer* optimizer = functions_.optimizer;
  return optimizer != nullptr && optimizer->accumulate() > 1 ? optimizer : nullptr;
}

bool Trainer::flush_last(int64_t step, int64_t steps_per_epoch) {
  const bool last = step == steps_per_epoch;
  if (last && accumulating() != nullptr) accumulating()->flush_next();
  return last;
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

/// Allows one call at a time, and the calls that its own callbacks make.
class Trainer::CallScope {
 public:
  CallScope(Trainer& trainer, std::string_view where) : trainer_(trainer) {
    std::thread::id none;
    const std::thread::id self = std::this_thread::get_id();
    outermost_ = trainer.caller_.compare_exchange_strong(none, self);
    require(
        outermost_ || none == self, ErrorCode::kInvalidArgument, where,
        "called while another thread's call runs; a Trainer runs one call at a time: give each thread its "
        "own, or order the calls");
    if (!trainer.functions_.device.is_cpu())  // this thread's generator; it starts on the CPU
      random::default_generator().move_to(trainer.functions_.device);
  }
  ~CallScope() {
    if (outermost_) trainer_.caller_ = std::thread::id();
  }
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;

 private:
  Trainer& trainer_;
  bool outermost_ = false;
};

History Trainer::fit(Batches data, const FitOptions& options) {
  const CallScope scope(*this, "fit");
  require(options.epochs >= 1, ErrorCode::kInvalidArgument, "fit", "epochs must be >= 1, got {}",
          options.epochs);
  require(options.initial_epoch >= 0, ErrorCode::kInvalidArgument, "fit",
          "initial_epoch must be >= 0, got {}", options.initial_epoch);
  require(options.steps_per_call >= 1, ErrorCode::kInvalidArgument, "fit",
          "steps_per_call must be >= 1, got {}", options.steps_per_call);
  require(options.steps_per_epoch >= 0, ErrorCode::kInvalidArgument, "fit",
          "steps_per_epoch must be >= 0, got {}", options.steps_per_epoch);
  require(options.steps_per_epoch > 0 || data.dataset().size() != data::kInfinite,
          ErrorCode::kInvalidArgument, "fit", "the dataset has no end; set steps_per_epoch");
  require(options.steps_per_epoch > 0 || data.dataset().size() != data::kUnknown ||
              functions_.optimizer == nullptr || functions_.optimizer->accumulate() == 1,
          ErrorCode::kUnsupported, "fit",
          "the number of batches isn't known, so the last group of micro-batches isn't either; set "
          "steps_per_epoch or, where all elements have one shape, cache() the dataset, which counts them");
  require(options.validation_frequency >= 1 && options.report_every >= 1, ErrorCode::kInvalidArgument, "fit",
          "validation_frequency and report_every must be >= 1, got {} and {}", options.validation_frequency,
          options.report_every);
  require(options.traced.recorder == nullptr ||
              (options.traced.first >= 1 && options.traced.last >= options.traced.first),
          ErrorCode::kInvalidArgument, "fit", "traced steps must be a range from 1 on, got {} to {}",
          options.traced.first, options.traced.last);
  require(std::find(options.callbacks.begin(), options.callbacks.end(), nullptr) == options.callbacks.end(),
          ErrorCode::kInvalidArgument, "fit", "a callback is null");
  if (options.validation_data) {
    require_finite_pass(options.validation_data->dataset(), "fit");
    require(&options.validation_data->dataset() != &data.dataset(), ErrorCode::kInvalidArgument, "fit",
            "data and validation_data are the same object; pass a copy of the dataset");
    require_same_names(data.dataset().names(), options.validation_data->dataset().names());
  }
  if (!DataParallel::needed(functions_.optimizer)) return Fit(*this, data.dataset(), options, nullptr).run();
  for (const NamedMetric& entry : functions_.metrics) {
    require(functions_.optimizer->group().size() == 1 || entry.metric->adds_up(), ErrorCode::kUnsupported,
            "fit", "metric '{}' can't be merged over {} ranks; leave it out, and evaluate on one process",
            entry.name, functions_.optimizer->group().size());
  }
  DataParallel parallel(*functions_.optimizer, data.dataset(), options.steps_per_epoch);
  const EpochsRead read{parallel.dataset(), data.dataset()};
  return Fit(*this, parallel.dataset(), options, &parallel).run();
}

Results Trainer::train_on_batch(const data::Element& batch) {
  const CallScope scope(*this, "train_on_batch");
  train_.prepare(batch);
  reset_tallies();
  train_.call(batch);
  Results results;
  read_tallies(results, "");
  return results;
}

NamedVariables Trainer::tallies() const {
  NamedVariables result;
  for (const auto& [name, variable] : loss_.state()) result.emplace_back(kOfLoss + name, variable);
  for (const NamedMetric& entry : functions_.metrics) {
    for (const Variable& sum : entry.metric->state()) {
      result.emplace_back(fmt::format("trainer/metric/{}/{}", entry.name, sum.name()), sum);
    }
  }
  return result;
}

void Trainer::run_evaluation(data::Dataset& dataset) {
  reset_tallies();
  bool any = false;
  for (const data::Element& batch : dataset) {
    evaluate_.call(batch);
    any = true;
  }
  require(any, ErrorCode::kInvalidArgument, "evaluate", "the data contain no batch");
}

Results Trainer::evaluate(Batches data) {
  const CallScope scope(*this, "evaluate");
  require_finite_pass(data.dataset(), "evaluate");
  evaluate_.prepare(data.dataset());
  KeptVariables before(tallies());  // of an epoch, if one of its callbacks evaluates
  before.keep();
  run_evaluation(data.dataset());
  Results results;
  read_tallies(results, "");
  before.restore();
  return results;
}

Tensor Trainer::predict(Batches data) {
  const CallScope scope(*this, "predict");
  require_finite_pass(data.dataset(), "predict");
  predict_.prepare(data.dataset());
  std::vector<std::byte> bytes;
  std::optional<TensorSpec> spec;
  int64_t rows = 0;
  for (const data::Element& batch : data.dataset()) {
    const Tensor& prediction = predict_.call(batch)[0];
    if (!spec) spec = prediction.spec();
    TensorSpec of_as_many = prediction.spec();
    of_as_many.shape[0] = spec->shape[0];
    require(of_as_many == *spec, ErrorCode::kShapeMismatch, "predict",
            "predictions {} follow predictions {}, and these do not fit into one tensor; predict data of "
            "equal extents, such as those of one bucket",
            prediction.spec().str(), spec->str());
    bytes.resize(bytes.size() + prediction.size_bytes());
    prediction.read(bytes.data() + bytes.size() - prediction.size_bytes());
    rows += prediction.extent(0);
  }
  require(spec.has_value(), ErrorCode::kInvalidArgument, "predict", "the data contain no batch");
  spec->shape[0] = rows;
  const Tensor result = empty(*spec, "predictions");
  std::copy(bytes.begin(), bytes.end(), result.raw());
  return result;
}

}  // namespace isochron::train
