// What a fit saves, and how it goes on from that.
#include <algorithm>
#include <map>

#include "isochron/backends/common/choices.h"
#include "isochron/core/process/reserve_resident.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/train/loop/fit.h"
#include "isochron/train/loop/fit_phase.h"

namespace isochron::train {
namespace {

/// Of what a callback saves beside its state.
std::string prefix_of(const std::string& callback) { return fmt::format("callback/{}/", callback); }

void notice(const std::filesystem::path& path, const std::string& text) {
  emit({EventKind::kNotice, path.filename().string(),
        fmt::format("resuming from {}: {}", path.string(), text)});
}

}  // namespace

void Trainer::Fit::name_callbacks() {
  std::map<std::string, int> seen;
  for (Callback* callback : options_.callbacks) {
    std::string name(callback->kind());
    const int before = seen[name]++;
    if (before > 0) name += fmt::format("#{}", before);
    const bool first_only = run_.ranks > 1 && callback->first_rank_only();
    require(
        !first_only || !callback->saves(), ErrorCode::kInvalidArgument, "fit",
        "callback '{}' saves, and is for the first rank alone, but what is saved is made by all {} ranks; "
        "have its first_rank_only return false, and its on_save write on rank 0",
        name, run_.ranks);
    if (first_only && run_.rank > 0) {
      others_callbacks_.push_back(std::move(name));
    } else {
      callbacks_.push_back({std::move(name), callback});
    }
  }
}

/// The process before ended after some callbacks had saved: has the others save at the same point.
void Trainer::Fit::finish_saves(const RunDocument& document) {
  const OptionalPhase phase(recorder_, observe::Phase::kCheckpoint);
  const auto others = std::span(document.callbacks).subspan(static_cast<size_t>(document.asked));
  asked_ = std::ssize(callbacks_);
  for (const auto& [name, callback] : callbacks_) {
    if (std::ranges::find(others, name, &RunDocument::CallbackState::kind) == others.end()) continue;
    callback->on_save(run_, epoch_done_ ? SavePoint::kEpoch : SavePoint::kStep);
  }
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
  for (const auto& [name, callback] : callbacks_) append(prefix_of(name), callback->variables());
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
  for (const FitOptions::Setting& setting : options_.settings)
    document.settings[setting.name] = setting.value;
  document.deterministic = ops::deterministic();
  document.choices = ops::recorded_choices();
  for (const auto& [name, callback] : callbacks_) document.callbacks.push_back({name, callback->state()});
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
  // Of several ranks, those of the newest report: one rank alone can't ask the others.
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
  if (!epoch_done_) check_finite();
  if (!not_finite_ && watch_) check_variables(watch_->look());
  return !not_finite_;
}

std::optional<Trainer::Fit::Resumed> Trainer::Fit::find_resumed() const {
  const comm::Doing doing(activity_, "reading a checkpoint");
  for (const NamedCallback& named : callbacks_) {
    const std::filesystem::path path = named.callback->resume_from();
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
  const comm::Doing doing(activity_, "planning");
  if (resumed != nullptr) ops::restore_choices(resumed->document.choices);
  const std::map<std::string, std::string> before = ops::recorded_choices();
  trainer_.train_.prepare(dataset_);
  if (options_.validation_data) trainer_.evaluate_.prepare(options_.validation_data->dataset());
  if (parallel_ != nullptr) {
    parallel_->prepare(trainer_.train_.captured());
    if (options_.validation_data) validation_ = parallel_->part_of(options_.validation_data->dataset());
  }
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

const NamedVariables& Trainer::Fit::tallies() {
  if (tallies_.empty()) tallies_ = trainer_.tallies();
  return tallies_;
}

/// All that must be the same on all ranks, a line each.
std::vector<std::string> Trainer::Fit::settings_of_all() const {
  std::vector<std::string> lines = {
      "version " ISOCHRON_VERSION,
      fmt::format("epochs {}, steps per epoch {}", options_.epochs, options_.steps_per_epoch),
      fmt::format("report_every {}, validation {}", options_.report_every,
                  options_.validation_data ? options_.validation_frequency : 0),
      fmt::format("epoch {}, step {} to begin with", run_.epoch, run_.total_steps),
      fmt::format("precision {}", precision_name(trainer_.functions_.precision))};
  lines.push_back(
      fmt::format("{} exchanges of a train step beside that of gradients", parallel_->step_exchanges()));
  for (const FitOptions::Setting& setting : options_.settings) {
    if (!setting.noted) lines.push_back(fmt::format("{} {}", setting.name, setting.value));
  }
  const std::vector<std::string> optimizer = trainer_.functions_.optimizer->description();
  lines.insert(lines.end(), optimizer.begin(), optimizer.end());
  const Tensor random = random::default_generator().state();
  lines.push_back(fmt::format("seed {} of random numbers, draw {}", random.data<int64_t>()[0],
                              random.data<int64_t>()[1]));
  return lines;
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
  NamedVariables saved = variables();
  std::vector<Variable> begun_anew;
  if (parallel_ != nullptr) begun_anew = parallel_->take_out_sums(resumed.checkpoint, saved);
  const std::vector<Tensor> contents = resumed.checkpoint.read(saved, [&](std::string_view name) {
    return (parallel_ != nullptr && DataParallel::is_sum(name)) ||
           std::ranges::any_of(others_callbacks_,
                               [&](const std::string& other) { return name.starts_with(prefix_of(other)); });
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
  for (const EpochRecord& record : history) add_to_history(record);
  restore_callbacks(resumed);
  {
    const OptionalPhase phase(recorder_, observe::Phase::kDataWait);
    at_.emplace(dataset_.resume(data));
  }
  for (size_t i = 0; i < contents.size(); ++i) saved[i].second.assign(contents[i]);
  for (const Variable& sum : begun_anew) sum.assign(zeros(sum.shape(), sum.dtype()));
  if (run_.rank > 0) trainer_.reset_tallies();  // those of all ranks, which the first one goes on with
  random::default_generator().set_state(from_span<int64_t>({2}, document.random));
  progress_.note(fmt::format("resumed from {} (epoch {}, step {})", resumed.checkpoint.path().string(),
                             document.epoch, document.step));
}

void Trainer::Fit::restore_callbacks(const Resumed& resumed) {
  for (const auto& [name, callback] : callbacks_) {
    const auto& states = resumed.document.callbacks;
    const auto found = std::ranges::find(states, name, &RunDocument::CallbackState::kind);
    if (found == states.end()) {
      notice(resumed.checkpoint.path(),
             fmt::format("it has no state of callback '{}', which starts from the beginning", name));
    } else {
      callback->restore(run_, found->state);
    }
  }
}

}  // namespace isochron::train
