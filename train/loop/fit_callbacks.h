// The callbacks of a fit: which of them this rank calls, the calls (each in a phase of the recorder), and
// their saved state.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/comm/group/activity.h"
#include "isochron/observe/record/recorder.h"
#include "isochron/train/callbacks/callback.h"
#include "isochron/train/callbacks/run_document.h"

namespace isochron::train {

struct ResumedRun;

class FitCallbacks {
 public:
  /// `run`, `recorder` and `activity` must outlive it; the last two may be null. Throws kInvalidArgument if a
  /// callback that only the first rank calls saves checkpoints.
  FitCallbacks(const std::vector<Callback*>& callbacks, RunState& run, observe::Recorder* recorder,
               comm::Activity* activity);

  bool empty() const { return own_.empty(); }
  /// Throw kUnsupported if, with several ranks, a callback that only the first rank calls ends the training.
  void notify(void (Callback::*hook)(RunState&));
  void notify(void (Callback::*hook)(RunState&, const Results&), const Results& results);
  /// Call on_evaluation_begin of all callbacks; call on_evaluation_end of those that have begun, in reverse.
  void begin_evaluation();
  void end_evaluation();
  /// The names of the callbacks that every rank calls, in order.
  std::string names_of_all() const;
  /// One line for each callback that every rank calls and that has settings.
  std::vector<std::string> settings_of_all() const;
  /// Calls on_not_a_number; returns whether a callback handles it.
  bool deal_with_not_a_number(int64_t step);

  /// Whether a callback, on all ranks, will save after this step.
  bool due_at_step() const;
  void save(SavePoint point);
  /// If the previous process ended after only some callbacks had saved at `point`, lets the others save.
  void finish_saves(const RunDocument& document, SavePoint point);
  /// How many callbacks have been asked to save at the present point.
  int64_t asked() const { return asked_; }

  std::vector<RunDocument::CallbackState> states() const;
  void append_variables(NamedVariables& variables) const;
  /// The checkpoint of the first callback that has one; empty for none.
  std::filesystem::path resume_from() const;
  void restore(const ResumedRun& resumed);
  /// Whether a saved variable belongs to a callback that another rank calls.
  bool belongs_to_another_rank(std::string_view variable) const;

 private:
  struct Named {
    std::string name;  // in a checkpoint: the kind, with a number if it occurs twice
    Callback* callback;
  };
  /// Runs call(callback). The callback may end the training only if all ranks call it.
  template <typename Call>
  void call(const Named& named, const Call& call);

  RunState& run_;
  observe::Recorder* recorder_;
  comm::Activity* activity_;
  std::vector<Named> own_;           // those that this rank calls
  std::vector<std::string> others_;  // names of those that only the first rank calls, on other ranks
  int64_t asked_ = 0;
  size_t evaluating_ = 0;  // number of own_ between on_evaluation_begin and on_evaluation_end
};

}  // namespace isochron::train
