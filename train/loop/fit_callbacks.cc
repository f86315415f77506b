#include "isochron/train/loop/fit_callbacks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>

#include "isochron/train/loop/fit_phase.h"
#include "isochron/train/loop/resumed_run.h"

namespace isochron::train {
namespace {

using observe::Phase;

constexpr const char* kRunning = "running callbacks";

/// The prefix of the names of a callback's saved variables.
std::string prefix_of(const std::string& callback) { return fmt::format("callback/{}/", callback); }

}  // namespace

FitCallbacks::FitCallbacks(const std::vector<Callback*>& callbacks, RunState& run,
                           observe::Recorder* recorder, comm::Activity* activity)
    : run_(run), recorder_(recorder), activity_(activity) {
  std::map<std::string, int> seen;
  for (Callback* callback : callbacks) {
    std::string name(callback->kind());
    const int before = seen[name]++;
    if (before > 0) name += fmt::format("#{}", before);
    const bool first_only = run.ranks > 1 && callback->first_rank_only();
    require(!first_only || !callback->saves(), ErrorCode::kInvalidArgument, "fit",
            "callback '{}' saves, but only the first rank calls it, and all {} ranks must take part in "
            "saving; let its first_rank_only return false, and its on_save write on rank 0 only",
            name, run.ranks);
    if (first_only && run.rank > 0) {
      others_.push_back(std::move(name));
    } else {
      own_.push_back({std::move(name), callback});
    }
  }
}

template <typename Call>
void FitCallbacks::call(const Named& named, const Call& call) {
  const bool goes_on = run_.stop_reason.empty();
  call(*named.callback);
  require(!goes_on || run_.stop_reason.empty() || run_.ranks == 1 || !named.callback->first_rank_only(),
          ErrorCode::kUnsupported, "fit",
          "callback '{}' ends the training of {} ranks ({}), but only the first rank calls it; let its "
          "first_rank_only return false, so that all ranks end together",
          named.name, run_.ranks, run_.stop_reason);
}

void FitCallbacks::notify(void (Callback::*hook)(RunState&)) {
  const OptionalPhase phase(recorder_, Phase::kCallbacks);
  const comm::Doing doing(activity_, kRunning);
  for (const Named& named : own_) {
    call(named, [&](Callback& callback) { (callback.*hook)(run_); });
  }
}

void FitCallbacks::notify(void (Callback::*hook)(RunState&, const Results&), const Results& results) {
  const OptionalPhase phase(recorder_, Phase::kCallbacks);
  const comm::Doing doing(activity_, kRunning);
  for (const Named& named : own_) {
    call(named, [&](Callback& callback) { (callback.*hook)(run_, results); });
  }
}

void FitCallbacks::begin_evaluation() {
  const OptionalPhase phase(recorder_, Phase::kCallbacks);
  const comm::Doing doing(activity_, kRunning);
  for (evaluating_ = 0; evaluating_ < own_.size(); ++evaluating_)
    call(own_[evaluating_], [&](Callback& callback) { callback.on_evaluation_begin(run_); });
}

void FitCallbacks::end_evaluation() {
  const OptionalPhase phase(recorder_, Phase::kCallbacks);
  const comm::Doing doing(activity_, kRunning);
  while (evaluating_ > 0)
    call(own_[--evaluating_], [&](Callback& callback) { callback.on_evaluation_end(run_); });
}

std::string FitCallbacks::names_of_all() const {
  std::vector<std::string_view> names;
  for (const Named& named : own_) {
    if (!named.callback->first_rank_only()) names.push_back(named.name);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

std::vector<std::string> FitCallbacks::settings_of_all() const {
  std::vector<std::string> lines;
  for (const Named& named : own_) {
    if (named.callback->first_rank_only()) continue;
    if (const std::string settings = named.callback->settings(); !settings.empty())
      lines.push_back(fmt::format("callback {}: {}", named.name, settings));
  }
  return lines;
}

bool FitCallbacks::deal_with_not_a_number(int64_t step) {
  bool dealt_with = false;
  for (size_t i = 0; i < own_.size() && !dealt_with; ++i)
    call(own_[i], [&](Callback& callback) { dealt_with = callback.on_not_a_number(run_, step); });
  return dealt_with;
}

bool FitCallbacks::due_at_step() const {
  return std::ranges::any_of(own_, [&](const Named& named) {
    return !named.callback->first_rank_only() && named.callback->due_at_step(run_);
  });
}

void FitCallbacks::save(SavePoint point) {
  const bool passes = point == SavePoint::kStep || point == SavePoint::kEpoch;
  asked_ = passes ? 0 : std::ssize(own_);
  for (size_t i = 0; i < own_.size();) {
    const bool saving = own_[i].callback->saves();
    const OptionalPhase phase(recorder_, saving ? Phase::kCheckpoint : Phase::kCallbacks);
    const comm::Doing doing(activity_, saving ? "saving a checkpoint" : kRunning);
    for (; i < own_.size() && own_[i].callback->saves() == saving; ++i) {
      if (passes) ++asked_;
      call(own_[i], [&](Callback& callback) { callback.on_save(run_, point); });
    }
  }
}

void FitCallbacks::finish_saves(const RunDocument& document, SavePoint point) {
  const OptionalPhase phase(recorder_, Phase::kCheckpoint);
  const auto others = std::span(document.callbacks).subspan(static_cast<size_t>(document.asked));
  asked_ = std::ssize(own_);
  for (const auto& [name, callback] : own_) {
    if (std::ranges::find(others, name, &RunDocument::CallbackState::kind) == others.end()) continue;
    callback->on_save(run_, point);
  }
}

std::vector<RunDocument::CallbackState> FitCallbacks::states() const {
  std::vector<RunDocument::CallbackState> states;
  for (const auto& [name, callback] : own_) states.push_back({name, callback->state()});
  return states;
}

void FitCallbacks::append_variables(NamedVariables& variables) const {
  for (const auto& [owner, callback] : own_) {
    for (const auto& [name, variable] : callback->variables()) {
      variables.emplace_back(prefix_of(owner) + name, variable);
    }
  }
}

std::filesystem::path FitCallbacks::resume_from() const {
  for (const Named& named : own_) {
    std::filesystem::path path = named.callback->resume_from();
    if (!path.empty()) return path;
  }
  return {};
}

void FitCallbacks::restore(const ResumedRun& resumed) {
  for (const auto& [name, callback] : own_) {
    const auto& states = resumed.document.callbacks;
    const auto found = std::ranges::find(states, name, &RunDocument::CallbackState::kind);
    if (found == states.end()) {
      tell_of_resuming(
          resumed.checkpoint.path(),
          fmt::format("it contains no state of callback '{}', which starts from the beginning", name));
    } else {
      callback->restore(run_, found->state);
    }
  }
}

bool FitCallbacks::belongs_to_another_rank(std::string_view variable) const {
  return std::ranges::any_of(others_,
                             [&](const std::string& name) { return variable.starts_with(prefix_of(name)); });
}

}  // namespace isochron::train
