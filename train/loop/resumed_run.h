// The checkpoint that a fit goes on from, and what is said where the run can't equal an uninterrupted one.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "isochron/train/callbacks/run_document.h"
#include "isochron/train/checkpoints/checkpoint.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::train {

struct ResumedRun {
  Checkpoint checkpoint;
  RunDocument document;

  /// Throws as Checkpoint and RunDocument::parse; kInvalidArgument for a checkpoint of weights only, and,
  /// listing the differences, for one of a run with other settings. Those that are only `noted` are told in
  /// notices.
  static ResumedRun read(const std::filesystem::path& path, const std::vector<FitOptions::Setting>& settings);
  /// Tells in notices which kernels are chosen in another way than in the saved run, once all is planned.
  /// `before`: ops::recorded_choices() before the planning.
  void tell_other_choices(const std::map<std::string, std::string>& before) const;
};

/// An event kNotice: "resuming from PATH: TEXT".
void tell_of_resuming(const std::filesystem::path& path, const std::string& text);

}  // namespace isochron::train
