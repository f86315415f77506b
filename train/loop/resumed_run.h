// The checkpoint from which a fit resumes, and the notices for runs that can't equal an uninterrupted one.
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

  /// Throws like Checkpoint and RunDocument::parse; kInvalidArgument for a checkpoint with only weights; and
  /// kInvalidArgument, listing the differences, for a run with other settings. Differences in settings that
  /// are only `noted` are reported as notices.
  static ResumedRun read(const std::filesystem::path& path, const std::vector<FitOptions::Setting>& settings);
  /// Reports in notices which kernels were chosen differently than in the saved run. Call it after planning.
  /// `before`: ops::recorded_choices() before planning.
  void tell_other_choices(const std::map<std::string, std::string>& before) const;
};

/// Emits an event kNotice: "resuming from PATH: TEXT".
void tell_of_resuming(const std::filesystem::path& path, const std::string& text);

}  // namespace isochron::train
