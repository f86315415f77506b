// The callbacks of a fit: which of them this rank calls, the calls, each in a phase of the recorder, and what
// of them is saved and restored.
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
  /// `run`, `recorder` and `activity` (both may be null) must outlive it. Throws kInvalidArgument where one
  /// saves that is for the first of several ranks alone.
  FitCallbacks(const std::vector<Callback*>& callbacks, RunState& run, observe::Recorder* recorder,
               comm::Activity* activity);

  bool empty() const { return own_.empty(); }
  /// Throw kUnsupported where one that the first rank alone calls ends the training of several.
  void notify(void (Callback::*hook)(RunState&));
  void notify(void (Callback::*hook)(RunState&, const Results&), const Results& results);
  /// on_evaluation_begin of all, and on_evaluation_end of those that have begun, in reverse.
  void begin_evaluation();
  void end_evaluation();
  /// Those that every rank calls, in their order.
  std::string names_of_all() const;
  /// A line for each of them that has settings.
  std::vector<std::string> settings_of_all() const;
  /// Whether one of them deals with it.
  bool deal_with_not_a_number(int64_t step);

  /// Whether one of them, on all ranks, is to save after this step.
  bool due_at_step() const;
  void save(SavePoint point);
  /// The process before ended after some of them had saved at `point`: has the others save there.
  void finish_saves(const RunDocument& document, SavePoint point);
  /// How many have been asked to save at the present point.
  int64_t asked() const { return asked_; }

  std::vector<RunDocument::CallbackState> states() const;
  void append_variables(NamedVariables& variables) const;
  /// The checkpoint that the first which has one gives; empty for none.
  std::filesystem::path resume_from() const;
  void restore(const ResumedRun& resumed);
  /// Whether a saved variable belongs to one that another rank calls.
  bool belongs_to_another_rank(std::string_view variable) const;

 private:
  struct Named {
    std::string name;  // in a checkpoint: its kind, numbered where one comes twice
    Callback* callback;
  };
  /// call(callback), which may ask for an end where all ranks do.
  template <typename Call>
  void call(const Named& named, const Call& call);

  RunState& run_;
  observe::Recorder* recorder_;
  comm::Activity* activity_;
  std::vector<Named> own_;           // that this rank calls
  std::vector<std::string> others_;  // the first rank's alone, on the others
  int64_t asked_ = 0;
  size_t evaluating_ = 0;  // of own_, those that began and didn't end
};

}  // namespace isochron::train
