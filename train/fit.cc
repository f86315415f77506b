#include "isochron/train/fit.h"

#include <algorithm>
#include <map>

#include "isochron/backends/choices.h"
#include "isochron/core/clock.h"
#include "isochron/core/event.h"
#include "isochron/core/reserve_resident.h"
#include "isochron/core/stop_signals.h"
#include "isochron/core/trace.h"
#include "isochron/ops/creation.h"
#include "isochron/ops/random.h"

namespace isochron::train {
namespace {

using observe::Phase;

/// After a failure a dataset no longer stands where the training does.
constexpr std::string_view kReading = "reading data";

constinit TraceLabel kStep(TraceCategory::kStep, "step");
constinit TraceLabel kPhases[] = {
    {TraceCategory::kPhase, "data_wait"}, {TraceCategory::kPhase, "host_to_device"},
    {TraceCategory::kPhase, "compute"},   {TraceCategory::kPhase, "update"},
    {TraceCategory::kPhase, "callbacks"}, {TraceCategory::kPhase, "checkpoint"},
    {TraceCategory::kPhase, "log"},       {TraceCategory::kPhase, "unexplained"}};
static_assert(std::size(kPhases) == observe::kPhaseCount);

/// A phase of the recorder, if there is one, and of the trace. Callbacks, checkpoints and logs are no part of
/// a sealed iteration.
class OptionalPhase {
 public:
  OptionalPhase(observe::Recorder* recorder, Phase phase, const char* label = nullptr)
      : span_(kPhases[static_cast<size_t>(phase)]) {
    if (recorder != nullptr) scope_.emplace(*recorder, phase, label);
    if (phase == Phase::kCallbacks || phase == Phase::kCheckpoint || phase == Phase::kLog) beside_.emplace();
  }

 private:
  TraceSpan span_;
  std::optional<observe::PhaseScope> scope_;
  std::optional<UnsealedScope> beside_;
};

/// What callbacks are called in a checkpoint: their kinds, numbered where one comes twice.
std::vector<std::string> names_of(const std::vector<Callback*>& callbacks) {
  std::vector<std::string> names;
  std::map<std::string, int> seen;
  for (const Callback* callback : callbacks) {
    std::string name(callback->kind());
    const int before = seen[name]++;
    if (before > 0) name += fmt::format("#{}", before);
    names.push_back(std::move(name));
  }
  return names;
}

void notice(const std::filesystem::path& path, const std::string& text) {
  emit({EventKind::kNotice, path.filename().string(),
        fmt::format("resuming from {}: {}", path.string(), text)});
}

}  // namespace

Trainer::Fit::Fit(Trainer& trainer, data::Dataset& dataset, const FitOptions& options)
    : trainer_(trainer),
      dataset_(dataset),
      options_(options),
      recorder_(options.recorder),
      fresh_recorder_(recorder_ != nullptr &&
                      recorder_->totals().iterations + recorder_->totals().warmup_iterations == 0),
      full_(dataset.signatures().front()),
      progress_(options.progress, options.epoch_lines, full_[0].shape.rank() > 0 ? full_[0].shape[0] : 1) {
  run_.epoch = options.initial_epoch;
  run_.epochs = options.epochs;
  run_.steps_per_epoch =
      options.steps_per_epoch > 0 ? options.steps_per_epoch : std::max<int64_t>(dataset.size(), 0);
  run_.savable = this;
  run_.captured = &trainer.train_.captured();
  run_.step_ns = &durations_;
  read_results(results_);
  for (const auto& [name, value] : results_) run_.names.push_back(name);
  for (size_t i = 0; options.validation_data && i < trainer.functions_.metrics.size() + 1; ++i) {
    run_.names.push_back("val_" + run_.names[i]);
  }
}

History Trainer::Fit::run() {
  std::optional<StopSignals> signals;
  if (options_.finish_on_signals) signals.emplace();
  const std::optional<Resumed> resumed = find_resumed();
  prepare(resumed ? &*resumed : nullptr);
  notify(&Callback::on_train_begin);
  check_what_is_saved();
  if (resumed) resume(*resumed);
  first_epoch_ = run_.epoch + (epoch_done_ ? 1 : 0);
  // Planning is warm-up, and so is the first epoch if another follows.
  if (fresh_recorder_) seal();
  warm_ = first_epoch_ >= options_.epochs;
  watch_numbers();
  if (options_.enforce_sealed) seal_.emplace();
  try {
    if (resumed) ask_the_others(resumed->document);
    epochs();
  } catch (...) {
    if (options_.traced.recorder != nullptr) options_.traced.recorder->stop();
    save_after_failure();
    throw;
  }
  if (options_.traced.recorder != nullptr) options_.traced.recorder->stop();
  notify(&Callback::on_train_end);
  history_.stopped = run_.stop_reason;
  if (run_.interrupted) history_.interrupted_by = StopSignals::pending();
  if (!run_.stop_reason.empty()) progress_.note("stopped: " + run_.stop_reason);
  return std::move(history_);
}

void Trainer::Fit::watch_numbers() {
  if (!trainer_.functions_.weights || (!options_.trace_not_finite && options_.callbacks.empty())) return;
  if (epoch_done_) trainer_.reset_tallies();  // of an earlier fit
  watch_.emplace(variables());
  if (!options_.trace_not_finite) return;
  good_.emplace(variables(), *watch_);
  look_at_state();
}

void Trainer::Fit::seal() {
  if (baseline_.empty()) return recorder_->seal();
  try {
    recorder_->seal_and_continue(baseline_);
  } catch (const Error& error) {
    emit(
        {EventKind::kNotice, "fit",
         fmt::format("the times before the restart are left out of the flatness verdict: {}", error.what())});
    baseline_.clear();
    recorder_->seal();
  }
}

void Trainer::Fit::epochs() {
  // An epoch that was stopped within still ends, also where it was resumed after that.
  while (!epoch_done_ || (run_.stop_reason.empty() && run_.epoch < options_.epochs)) {
    if (epoch_done_) {
      begin_epoch();
      if (!run_.stop_reason.empty()) return;
    }
    epoch_began_ns_ = now();
    if (accumulating() != nullptr) summed_ = accumulating()->phase();
    steps();
    if (run_.interrupted) return;
    end_epoch();
    if (run_.stop_reason.empty() && StopSignals::pending() != 0) interrupt();
  }
}

void Trainer::Fit::begin_epoch() {
  half_done_ = "the start of an epoch";
  ++run_.epoch;
  run_.step = 0;
  epoch_done_ = false;
  seconds_before_ = 0;
  notify(&Callback::on_epoch_begin);
  if (options_.traced.warm_up && options_.traced.recorder != nullptr && run_.epoch > first_epoch_) {
    options_.traced.recorder->stop();
    traced_ = true;
  }
  if (recorder_ != nullptr && run_.epoch == first_epoch_ + 1 && recorder_->totals().warmup_iterations == 0) {
    seal();
    warm_ = true;
  }
  trainer_.reset_tallies();
  results_ = {};  // that of the validation isn't this epoch's
  read_results(results_);
  durations_.clear();
  half_done_ = {};
}

void Trainer::Fit::steps() {
  const bool counted = options_.steps_per_epoch > 0;
  if (fetch_due_) fetch();
  // An epoch that goes on from a checkpoint may be at the end of its pass already.
  if (!at_ || (*at_ == std::default_sentinel && (counted || run_.step == 0))) begin_data();
  while (*at_ != std::default_sentinel && run_.stop_reason.empty() && !counted_out()) {
    begin_trace();
    call();
    end_trace();
    if (run_.interrupted) return;
    if (counted && !counted_out() && *at_ == std::default_sentinel) begin_data();
  }
}

void Trainer::Fit::call() {
  const TraceSpan span(kStep, run_.total_steps + 1);
  if (recorder_ != nullptr) recorder_->begin_iteration();
  {
    const SealedSection section(enforced_seal());
    iterate();
  }
  if (recorder_ != nullptr) recorder_->end_iteration();
  // The dataset stands one batch beyond the training now, unless the epoch is over.
  if (!fetch_due_) half_done_ = "the change to the next batch";
  if (options_.after_iteration) options_.after_iteration();
  if (seal_) seal_->check("fit", run_.total_steps);
  half_done_ = {};
}

Seal* Trainer::Fit::enforced_seal() {
  if (!seal_) return nullptr;
  const bool warm =
      run_.epoch > first_epoch_ || (options_.epochs <= first_epoch_ && run_.step >= options_.report_every);
  return warm ? &*seal_ : nullptr;
}

/// One iteration: the steps of one call, then the fetching of the next batch. What is saved in between stands
/// after the batch last trained on, as the dataset does then.
void Trainer::Fit::iterate() {
  // A recorder that lets this one pass untimed has its reasons.
  const bool timed = recorder_ == nullptr || recorder_->timed();
  const int64_t began_ns = timed ? now_ns() : 0, first_step = run_.step;
  int64_t steps = 0, updates = 0;
  bool odd = false;
  for (;;) {
    odd = odd || !(*at_)->has(full_);
    updates += train_step() ? 1 : 0;
    if (++steps == options_.steps_per_call || counted_out()) break;
    fetch();
    if (*at_ == std::default_sentinel) break;
  }
  const int64_t trained_ns = timed ? now_ns() : 0;
  if (recorder_ != nullptr) recorder_->set_class(step_class(steps, updates, odd));
  if (run_.step / options_.report_every != first_step / options_.report_every) report();
  save(SavePoint::kStep);
  // Before the fetch, while the dataset stands where the training does.
  if (run_.stop_reason.empty() && StopSignals::pending() != 0) interrupt();
  const int64_t saved_ns = timed ? now_ns() : 0;
  if (fetch_due_ && !counted_out() && !run_.interrupted) fetch();
  if (timed) {
    const int64_t ended_ns = now_ns();
    durations_.add((ended_ns - began_ns) / steps);
    progress_.add_step({.duration_ns = (trained_ns - began_ns + ended_ns - saved_ns) / steps,
                        .wait_ns = (ended_ns - saved_ns) / steps});
  }
}

/// Before a call of steps: are those that a trace is asked for among them?
void Trainer::Fit::begin_trace() {
  const FitOptions::TracedSteps& traced = options_.traced;
  if (traced.recorder == nullptr || traced.recorder->recording()) return;
  const int64_t last = steps_here_ + options_.steps_per_call;
  if (!traced_ && last >= traced.first && steps_here_ < traced.last) traced.recorder->start();
}

void Trainer::Fit::end_trace() {
  const FitOptions::TracedSteps& traced = options_.traced;
  if (traced.recorder == nullptr || !traced.recorder->recording()) return;
  traced.recorder->sample_memory();
  const bool only_epoch = first_epoch_ >= options_.epochs;
  if (steps_here_ < traced.last) return;
  traced.recorder->stop();
  traced_ = true;
  if (traced.warm_up && only_epoch && fresh_recorder_) seal();
}

/// 0: the usual call; 1: one with an odd batch, or cut short; 2: one that updates more often than others,
/// where micro-batches are accumulated.
int Trainer::Fit::step_class(int64_t steps, int64_t updates, bool odd) const {
  if (odd || steps < options_.steps_per_call) return 1;
  const optim::Optimizer* optimizer = trainer_.functions_.optimizer;
  return updates > 0 && updates > steps / optimizer->accumulate() ? 2 : 0;
}

/// What updates, where micro-batches are accumulated; else null.
optim::Optimizer* Trainer::Fit::accumulating() const {
  optim::Optimizer* optimizer = trainer_.functions_.optimizer;
  return optimizer != nullptr && optimizer->accumulate() > 1 ? optimizer : nullptr;
}

/// Whether it updated, where micro-batches are accumulated.
bool Trainer::Fit::train_step() {
  const bool flushed = flush_last(run_.step + 1);
  const OptionalPhase phase(recorder_, Phase::kCompute);
  half_done_ = "a step";
  trainer_.train_.call(**at_);
  ++run_.step;
  ++run_.total_steps;
  ++steps_here_;
  fetch_due_ = true;
  half_done_ = {};
  const optim::Optimizer* optimizer = accumulating();
  if (optimizer == nullptr) return false;
  summed_ = flushed || summed_ + 1 == optimizer->accumulate() ? 0 : summed_ + 1;
  return summed_ == 0;
}

/// Where micro-batches are accumulated, the last step of an epoch updates in any case: is step `step` that
/// one?
bool Trainer::Fit::flush_last(int64_t step) {
  optim::Optimizer* optimizer = accumulating();
  const bool last = step == run_.steps_per_epoch;
  if (last && optimizer != nullptr) optimizer->flush_next();
  return last;
}

void Trainer::Fit::begin_data() {
  const OptionalPhase phase(recorder_, Phase::kDataWait);
  half_done_ = kReading;
  at_.emplace(dataset_.begin());
  require(*at_ != std::default_sentinel, ErrorCode::kInvalidArgument, "fit", "the data contain no batch");
  half_done_ = {};
}

void Trainer::Fit::fetch() {
  const OptionalPhase phase(recorder_, Phase::kDataWait);
  fetch_due_ = false;
  half_done_ = kReading;
  ++*at_;
  half_done_ = {};
}

void Trainer::Fit::read_results(Results& results) const {
  trainer_.read_tallies(results, "");
  const optim::Optimizer* optimizer = trainer_.functions_.optimizer;
  if (optimizer == nullptr || !optimizer->scales_loss()) return;
  results.set("loss_scale", optimizer->loss_scale());
  results.set("skipped_steps", static_cast<double>(optimizer->skipped_steps()));
}

/// The declared point of a read within an epoch.
void Trainer::Fit::report() {
  check_finite();
  if (good_ && good_->due()) {
    const OptionalPhase phase(recorder_, Phase::kCallbacks, "numerics");
    look_at_state();
  }
  if (!options_.callbacks.empty()) {
    read_results(results_);
    notify(&Callback::on_batch_end, results_);
  }
  if (!progress_.due()) return;
  const OptionalPhase phase(recorder_, Phase::kLog, "progress");
  read_results(results_);
  progress_.update(run_, results_);
}

void Trainer::Fit::check_finite() {
  const int64_t step = trainer_.loss_.first_not_finite();
  if (step == 0 || not_finite_) return;
  const OptionalPhase phase(recorder_, Phase::kCallbacks);
  not_a_number(step, fmt::format("the loss of step {} of epoch {} is NaN or infinite", step, run_.epoch));
}

void Trainer::Fit::validate(Results& results) {
  KeptVariables tallies(trainer_.tallies());
  tallies.keep();
  notify(&Callback::on_evaluation_begin);
  try {
    trainer_.run_evaluation(options_.validation_data->dataset());
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    try {
      notify(&Callback::on_evaluation_end);
      tallies.restore();
      half_done_ = {};  // it can be begun again
    } catch (const std::exception& error) {
      emit({EventKind::kNotice, "fit",
            fmt::format("after the validation failed, so did on_evaluation_end: {}", error.what())});
    }
    std::rethrow_exception(failure);
  }
  notify(&Callback::on_evaluation_end);
  trainer_.read_tallies(results, "val_");
  trainer_.reset_tallies();  // a validation loss may well be infinite: not to be taken for the training's
}

void Trainer::Fit::end_epoch() {
  EpochRecord record;
  record.seconds = seconds_before_ + static_cast<double>(now() - epoch_began_ns_) * 1e-9;
  record.epoch = run_.epoch;
  record.steps = run_.step;
  record.step_p50_ns = durations_.quantile(0.5);
  check_finite();
  if (good_ && (good_->due() || run_.epoch >= options_.epochs)) look_at_state();
  read_results(record.results);
  half_done_ = "the end of an epoch";
  if (options_.validation_data && run_.epoch % options_.validation_frequency == 0) validate(record.results);
  notify(&Callback::on_epoch_end, record.results);
  {
    const OptionalPhase phase(recorder_, Phase::kLog, "progress");
    progress_.finish(run_, record);
  }
  results_ = record.results;
  add_to_history(record);
  epoch_done_ = true;
  half_done_ = {};
  save(SavePoint::kEpoch);
}

void Trainer::Fit::add_to_history(const EpochRecord& record) {
  append_history(history_text_, record);
  if (history_.epochs().empty()) {  // as long as they will be
    const size_t epochs = std::min(static_cast<size_t>(options_.epochs), History::kMaxEpochs);
    history_.reserve(epochs);
    reserve_resident(history_text_, epochs * (history_text_.size() * 5 / 4));
  }
  if (history_.epochs().size() == History::kMaxEpochs) {
    std::string oldest;
    append_history(oldest, history_.epochs().front());
    history_text_.erase(0, oldest.size());
  }
  history_.add(record);
}

void Trainer::Fit::save(SavePoint point) {
  const bool passes = point == SavePoint::kStep || point == SavePoint::kEpoch;
  asked_ = passes ? 0 : std::ssize(options_.callbacks);
  const std::vector<Callback*>& callbacks = options_.callbacks;
  for (size_t i = 0; i < callbacks.size();) {
    const bool saving = callbacks[i]->saves();
    const OptionalPhase phase(recorder_, saving ? Phase::kCheckpoint : Phase::kCallbacks);
    for (; i < callbacks.size() && callbacks[i]->saves() == saving; ++i) {
      if (passes) ++asked_;
      callbacks[i]->on_save(run_, point);
    }
  }
}

/// Has those callbacks save that the process before didn't come to ask, after another had saved.
void Trainer::Fit::ask_the_others(const RunDocument& document) {
  const OptionalPhase phase(recorder_, Phase::kCheckpoint);
  const std::vector<std::string> names = names_of(options_.callbacks);
  const auto others = std::span(document.callbacks).subspan(static_cast<size_t>(document.asked));
  asked_ = std::ssize(options_.callbacks);
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::ranges::find(others, names[i], &RunDocument::CallbackState::kind) == others.end()) continue;
    options_.callbacks[i]->on_save(run_, epoch_done_ ? SavePoint::kEpoch : SavePoint::kStep);
  }
}

void Trainer::Fit::interrupt() {
  const UnsealedScope ending;
  run_.interrupted = true;
  save(SavePoint::kSignal);
  run_.stop(fmt::format("interrupted by {}", StopSignals::name(StopSignals::pending())));
}

void Trainer::Fit::save_after_failure() noexcept {
  if (not_finite_) return;
  try {
    save(SavePoint::kException);
  } catch (const std::exception& error) {
    // The first failure is the one to be told of.
    emit({EventKind::kNotice, "checkpoint",
          fmt::format("nothing was saved after a failure: {}", error.what())});
  }
}

void Trainer::Fit::notify(void (Callback::*hook)(RunState&, const Results&), const Results& results) {
  const OptionalPhase phase(recorder_, Phase::kCallbacks);
  for (Callback* callback : options_.callbacks) (callback->*hook)(run_, results);
}

void Trainer::Fit::notify(void (Callback::*hook)(RunState&)) {
  const OptionalPhase phase(recorder_, Phase::kCallbacks);
  for (Callback* callback : options_.callbacks) (callback->*hook)(run_);
}

const NamedVariables& Trainer::Fit::weights() {
  const BatchFunctions& functions = trainer_.functions_;
  require(functions.weights != nullptr, ErrorCode::kUnsupported, "fit",
          "the trainer doesn't know what to save; set BatchFunctions::weights, and slots for the state of "
          "the optimizer");
  if (weights_.empty()) weights_ = functions.weights();
  return weights_;
}

const NamedVariables& Trainer::Fit::variables() {
  if (!variables_.empty()) return variables_;
  NamedVariables all = weights();
  const auto append = [&all](const std::string& prefix, const NamedVariables& more) {
    for (const auto& [name, variable] : more) all.emplace_back(prefix + name, variable);
  };
  if (trainer_.functions_.slots) append("", trainer_.functions_.slots());
  append("", trainer_.tallies());
  const std::vector<std::string> names = names_of(options_.callbacks);
  for (size_t i = 0; i < names.size(); ++i) {
    append(fmt::format("callback/{}/", names[i]), options_.callbacks[i]->variables());
  }
  return variables_ = std::move(all);
}

std::string Trainer::Fit::document(bool weights_only) {
  RunDocument document;
  document.weights_only = weights_only;
  document.epoch = run_.epoch;
  document.step = run_.step;
  document.total_steps = run_.total_steps;
  document.epoch_done = epoch_done_;
  document.results = results();
  if (weights_only) return document.str();
  document.epoch_seconds =
      epoch_done_ ? 0 : seconds_before_ + static_cast<double>(now() - epoch_began_ns_) * 1e-9;
  document.stop_reason = run_.stop_reason;
  const Tensor random = random::default_generator().state();
  std::copy_n(random.data<int64_t>(), document.random.size(), document.random.begin());
  for (const FitOptions::Setting& setting : options_.settings)
    document.settings[setting.name] = setting.value;
  document.deterministic = ops::deterministic();
  document.choices = ops::recorded_choices();
  const std::vector<std::string> names = names_of(options_.callbacks);
  for (size_t i = 0; i < names.size(); ++i) {
    document.callbacks.push_back({names[i], options_.callbacks[i]->state()});
  }
  document.asked = asked_;
  return document.str();
}

void Trainer::Fit::blobs(NamedBlobs& blobs) {
  blobs[kDataBlob] = dataset_.state();
  std::string& baseline = blobs[kBaselineBlob];
  baseline = warm_ && recorder_ != nullptr ? recorder_->baseline(std::move(baseline)) : baseline_;
  std::string& history = blobs[kHistoryBlob];
  reserve_resident(history, history_text_.capacity());  // of one size, whatever the epoch
  history = history_text_;
}

const Results& Trainer::Fit::results() {
  if (!epoch_done_) read_results(results_);
  return results_;
}

bool Trainer::Fit::worth_saving() {
  if (!half_done_.empty()) {
    emit({EventKind::kNotice, "checkpoint",
          fmt::format("nothing was saved after a failure in the middle of {}: a run could not be resumed "
                      "correctly from there",
                      half_done_)});
    return false;
  }
  if (!epoch_done_) check_finite();
  if (!not_finite_ && watch_) check_variables(watch_->look());
  return !not_finite_;
}

std::optional<Trainer::Fit::Resumed> Trainer::Fit::find_resumed() const {
  for (Callback* callback : options_.callbacks) {
    const std::filesystem::path path = callback->resume_from();
    if (path.empty()) continue;
    Checkpoint checkpoint(path);
    RunDocument document = RunDocument::parse(checkpoint.document(), path.string());
    require(!document.weights_only, ErrorCode::kInvalidArgument, path.string(),
            "contains weights only, from which a run can't be resumed; read it with load_weights");
    compare_settings(document, path);
    return Resumed{std::move(checkpoint), std::move(document)};
  }
  return std::nullopt;
}

void Trainer::Fit::compare_settings(const RunDocument& document, const std::filesystem::path& path) const {
  std::string differences;
  for (const FitOptions::Setting& setting : options_.settings) {
    const auto found = document.settings.find(setting.name);
    if (found == document.settings.end() || found->second == setting.value) continue;
    const std::string text =
        fmt::format("{}: {} in the checkpoint, {} here", setting.name, found->second, setting.value);
    if (setting.noted) {
      notice(path, text + "; the run may not equal an uninterrupted one bit for bit");
    } else {
      differences += (differences.empty() ? "" : "; ") + text;
    }
  }
  require(differences.empty(), ErrorCode::kInvalidArgument, path.string(),
          "is from a run with other settings ({}); resume with the same settings, or start in another folder",
          differences);
}

void Trainer::Fit::prepare(const Resumed* resumed) {
  if (resumed != nullptr) ops::restore_choices(resumed->document.choices);
  const std::map<std::string, std::string> before = ops::recorded_choices();
  trainer_.train_.prepare(dataset_);
  if (options_.validation_data) trainer_.evaluate_.prepare(options_.validation_data->dataset());
  if (resumed == nullptr) return;
  const std::filesystem::path& path = resumed->checkpoint.path();
  if (resumed->document.deterministic != ops::deterministic()) {
    notice(path, fmt::format("its kernels were chosen by {}, this run's by {}; the run will not equal an "
                             "uninterrupted one bit for bit",
                             resumed->document.deterministic ? "rule" : "timing",
                             ops::deterministic() ? "rule" : "timing"));
  }
  int64_t other = 0;
  std::string first;
  for (const auto& [call, name] : ops::recorded_choices()) {
    const auto found = before.find(call);
    if (found != before.end() && found->second == name) continue;
    if (other++ == 0) first = call;
  }
  if (other == 0) return;
  notice(path,
         fmt::format("{} choices of kernels are not in it (such as the one for {}) and were made again; the "
                     "run may not equal an uninterrupted one bit for bit",
                     other, first));
}

/// What no checkpoint could hold is told of before the first step, if a callback has asked for what it saves.
void Trainer::Fit::check_what_is_saved() {
  if (weights_.empty()) return;
  check_names(variables());
  static_cast<void>(document(false));
}

/// Whatever may fail comes before anything of the program's is changed.
void Trainer::Fit::resume(const Resumed& resumed) {
  const RunDocument& document = resumed.document;
  const std::vector<Tensor> contents = resumed.checkpoint.read(variables());
  const std::string data = resumed.checkpoint.blob(kDataBlob);
  const std::vector<EpochRecord> history =
      parse_history(resumed.checkpoint.blob(kHistoryBlob), resumed.checkpoint.path().string());
  if (fresh_recorder_) baseline_ = resumed.checkpoint.blob(kBaselineBlob);
  run_.epoch = document.epoch;
  run_.step = document.step;
  run_.total_steps = document.total_steps;
  run_.stop_reason = document.stop_reason;
  epoch_done_ = document.epoch_done;
  seconds_before_ = document.epoch_seconds;
  results_ = document.results;
  for (const EpochRecord& record : history) add_to_history(record);
  restore_callbacks(resumed);
  {
    const OptionalPhase phase(recorder_, Phase::kDataWait);
    at_.emplace(dataset_.resume(data));
  }
  for (size_t i = 0; i < contents.size(); ++i) variables()[i].second.assign(contents[i]);
  random::default_generator().set_state(from_span<int64_t>({2}, document.random));
  progress_.note(fmt::format("resumed from {} (epoch {}, step {})", resumed.checkpoint.path().string(),
                             document.epoch, document.step));
}

void Trainer::Fit::restore_callbacks(const Resumed& resumed) {
  const std::vector<std::string> names = names_of(options_.callbacks);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& states = resumed.document.callbacks;
    const auto found =
        std::find_if(states.begin(), states.end(), [&](const auto& saved) { return saved.kind == names[i]; });
    if (found == states.end()) {
      notice(resumed.checkpoint.path(),
             fmt::format("it has no state of callback '{}', which starts from the beginning", names[i]));
    } else {
      options_.callbacks[i]->restore(run_, found->state);
    }
  }
}

}  // namespace isochron::train
