// What a fit saves, and how it resumes.
#include <algorithm>
#include <set>

#include "isochron/backends/common/choices.h"
#include "isochron/core/process/reserve_resident.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/train/loop/fit.h"
#include "isochron/train/loop/fit_phase.h"

namespace isochron::train {
const NamedVariables& Trainer::Fit::weights() {
  const BatchFunctions& functions = trainer_.functions_;
  require(functions.weights != nullptr, ErrorCode::kUnsupported, "fit",
          "the trainer doesn't know what to save; set BatchFunctions::weights, and slots for the state of "
          "the optimizer");
  if (weights_.empty()) weights_ = functions.weights();
  return weights_;
}

NamedVariables Trainer::Fit::weights_and_slots() {
  NamedVariables all = weights();
  if (!trainer_.functions_.slots) return all;
  const NamedVariables slots = trainer_.functions_.slots();
  all.insert(all.end(), slots.begin(), slots.end());
  return all;
}

const NamedVariables& Trainer::Fit::variables() {
  if (!variables_.empty()) return variables_;
  NamedVariables all = weights_and_slots();
  const NamedVariables more = trainer_.tallies();
  all.insert(all.end(), more.begin(), more.end());
  callbacks_.append_variables(all);
  return variables_ = std::move(all);
}

std::string Trainer::Fit::document(bool weights_only) {
  RunDocument document;
  document.weights_only = weights_only;
  document.epoch = run_.epoch;
  document.step = run_.step;
  document.total_steps = run_.total_steps;
  if (parallel_ != nullptr) parallel_->batches_of(document.step, document.total_steps);
  document.epoch_done = epoch_done_;
  document.results = results();
  if (weights_only) return document.str();
  document.epoch_seconds =
      epoch_done_ ? 0 : seconds_before_ + static_cast<double>(now() - epoch_began_ns_) * 1e-9;
  document.stop_reason = run_.stop_reason;
  const Tensor random = random::default_generator().state();
  std::copy_n(random.data<int64_t>(), document.random.size(), document.random.begin());
  for (const FitOptions::Setting& setting : settings()) document.settings[setting.name] = setting.value;
  document.deterministic = ops::deterministic();
  document.choices = ops::recorded_choices();
  document.callbacks = callbacks_.states();
  document.asked = callbacks_.asked();
  return document.str();
}

/// The caller's settings, and the precision and the optimizer's arguments; a difference in the latter two
/// only causes a notice.
const std::vector<FitOptions::Setting>& Trainer::Fit::settings() {
  if (!settings_.empty()) return settings_;
  settings_ = options_.settings;
  const BatchFunctions& functions = trainer_.functions_;
  settings_.push_back({"train step/precision", std::string(precision_name(functions.precision)), true});
  if (functions.optimizer == nullptr) return settings_;
  for (auto& [name, value] : functions.optimizer->choices())
    settings_.push_back({"optimizer/" + name, std::move(value), true});
  return settings_;
}

std::string Trainer::Fit::data_state() const {
  return resumed_data_.empty() ? dataset_.state() : resumed_data_;
}

void Trainer::Fit::blobs(NamedBlobs& blobs) {
  blobs[kDataBlob] = data_state();
  std::string& baseline = blobs[kBaselineBlob];
  baseline = warm_ && recorder_ != nullptr ? recorder_->baseline(std::move(baseline)) : baseline_;
  std::string& history = blobs[kHistoryBlob];
  reserve_resident(history, history_.text().capacity());  // of equal size in every epoch
  history = history_.text();
}

const Results& Trainer::Fit::results() {
  // With several ranks, these are the results of the latest report: one rank alone can't ask the others.
  if (!epoch_done_ && run_.ranks == 1) read_results(results_);
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
  if (!epoch_done_) numerics_.look_at_loss();
  numerics_.look_at_variables();
  return !numerics_.found();
}

std::optional<ResumedRun> Trainer::Fit::find_resumed() {
  const comm::Doing doing(activity_, "reading a checkpoint");
  const std::filesystem::path path = callbacks_.resume_from();
  if (path.empty()) return std::nullopt;
  return ResumedRun::read(path, settings());
}

void Trainer::Fit::prepare(const ResumedRun* resumed) {
  const comm::Doing doing(activity_, "planning");
  if (resumed != nullptr) ops::restore_choices(resumed->document.choices);
  const std::map<std::string, std::string> before = ops::recorded_choices();
  trainer_.train_.prepare(dataset_);
  if (options_.validation_data) trainer_.evaluate_.prepare(options_.validation_data->dataset());
  if (parallel_ != nullptr) {
    parallel_->prepare(trainer_.train_.captured());
    if (options_.validation_data) validation_ = parallel_->part_of(options_.validation_data->dataset());
  }
  if (resumed != nullptr) resumed->tell_other_choices(before);
}

const NamedVariables& Trainer::Fit::tallies() {
  if (tallies_.empty()) tallies_ = trainer_.tallies();
  return tallies_;
}

/// Everything that must be the same on all ranks, one line per item.
std::vector<std::string> Trainer::Fit::settings_of_all() const {
  std::vector<std::string> lines = {
      "version " ISOCHRON_VERSION,
      fmt::format("epochs {}, steps per epoch {}", options_.epochs, options_.steps_per_epoch),
      fmt::format("report_every {}, steps_per_call {}, validation {}", options_.report_every,
                  options_.steps_per_call, options_.validation_data ? options_.validation_frequency : 0),
      fmt::format("epoch {}, step {} to begin with", run_.epoch, run_.total_steps),
      fmt::format("precision {}", precision_name(trainer_.functions_.precision))};
  lines.push_back(
      fmt::format("{} exchanges of a train step beside that of gradients", parallel_->step_exchanges()));
  for (const FitOptions::Setting& setting : options_.settings) {
    if (!setting.noted) lines.push_back(fmt::format("{} {}", setting.name, setting.value));
  }
  const Tensor random = random::default_generator().state();
  lines.push_back(fmt::format("seed {} of random numbers, draw {}", random.data<int64_t>()[0],
                              random.data<int64_t>()[1]));
  const std::vector<std::string> optimizer = trainer_.functions_.optimizer->description();
  lines.insert(lines.end(), optimizer.begin(), optimizer.end());
  for (const auto& [name, tally] : trainer_.tallies())
    lines.push_back(fmt::format("sums of results '{}' {}", name, tally.spec().str()));
  // These lines come late, because different options may be the reason why the data differ.
  for (const std::string& line :
       parallel_->data_of_all(options_.validation_data ? &options_.validation_data->dataset() : nullptr))
    lines.push_back(line);
  lines.push_back(recorder_ != nullptr ? "a recorder" : "no recorder");
  lines.push_back("callbacks of all ranks: " + callbacks_.names_of_all());
  const std::vector<std::string> callbacks = callbacks_.settings_of_all();
  lines.insert(lines.end(), callbacks.begin(), callbacks.end());
  return lines;
}

/// Reports, before the first step, what a checkpoint can't hold, if a callback saves checkpoints.
void Trainer::Fit::check_what_is_saved() {
  if (weights_.empty()) return;
  check_names(variables());
  static_cast<void>(document(false));
  tell_unsaved();
}

/// Names variables that the step changes but no checkpoint holds.
void Trainer::Fit::tell_unsaved() {
  std::set<const Storage*> saved;
  for (const auto& [name, variable] : variables()) saved.insert(variable.tensor().storage().get());
  std::set<std::string> unsaved;
  for (const graph::Update& update : trainer_.train_.captured().graph().updates()) {
    const Tensor& content = update.target->bound;
    if (saved.contains(content.storage().get())) continue;
    if (const auto variable = variable_behind(content)) unsaved.insert(variable->name);
  }
  if (unsaved.empty()) return;
  emit({EventKind::kNotice, "checkpoint",
        fmt::format(
            "checkpoints don't hold '{}', which the step changes, so a resumed run will differ; add {} "
            "to BatchFunctions::slots",
            fmt::join(unsaved, "', '"), unsaved.size() == 1 ? "it" : "them")});
}

/// Everything that may fail comes before any state of the program is changed.
void Trainer::Fit::resume(const ResumedRun& resumed) {
  const RunDocument& document = resumed.document;
  NamedVariables saved = variables();
  std::vector<Variable> begun_anew;
  if (parallel_ != nullptr) begun_anew = parallel_->take_out_sums(resumed.checkpoint, saved);
  const std::vector<Tensor> contents = resumed.checkpoint.read(saved, [&](std::string_view name) {
    return (parallel_ != nullptr && DataParallel::is_sum(name)) || callbacks_.belongs_to_another_rank(name);
  });
  const std::string data = resumed.checkpoint.blob(kDataBlob);
  const std::vector<EpochRecord> history =
      parse_history(resumed.checkpoint.blob(kHistoryBlob), resumed.checkpoint.path().string());
  if (fresh_recorder_) baseline_ = resumed.checkpoint.blob(kBaselineBlob);
  run_.epoch = document.epoch;
  run_.step = document.step;
  run_.total_steps = document.total_steps;
  if (parallel_ != nullptr) parallel_->steps_of(run_.step, run_.total_steps);
  run_.stop_reason = document.stop_reason;
  epoch_done_ = document.epoch_done;
  seconds_before_ = document.epoch_seconds;
  results_ = document.results;
  for (const EpochRecord& record : history) history_.add(record);
  callbacks_.restore(resumed);
  {
    const OptionalPhase phase(recorder_, observe::Phase::kDataWait);
    try {
      at_.emplace(dataset_.resume(data));
    } catch (const Error& error) {
      fail(
          error.code(), resumed.checkpoint.path().string(),
          "its place in the data isn't one of this dataset: {}. Resume with the data and the calls (shuffle, "
          "batch, map) of the run that saved it, or begin anew in another folder",
          error.what());
    }
    resumed_data_ = data;
  }
  for (size_t i = 0; i < contents.size(); ++i) saved[i].second.assign(contents[i]);
  for (const Variable& sum : begun_anew) sum.assign(zeros(sum.shape(), sum.dtype()));
  if (run_.rank > 0) trainer_.reset_tallies();  // the saved ones are of all ranks; the first rank has them
  if (!epoch_done_) trainer_.loss_.set_batches(run_.step);  // counted on this rank alone
  random::default_generator().set_state(from_span<int64_t>({2}, document.random));
  progress_.note(fmt::format("resumed from {} (epoch {}, step {})", resumed.checkpoint.path().string(),
                             document.epoch, document.step));
}

}  // namespace isochron::train
