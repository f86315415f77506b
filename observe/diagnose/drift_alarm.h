// Reports during a run that its iterations have begun to take longer, using the same verdict as at the end of
// a run, so that hours need not pass first. The data from before the growth is available: windows, samples
// and spikes reach back to the run's beginning.
#pragma once

#include <optional>

#include "isochron/observe/diagnose/report.h"

namespace isochron::observe {

struct DriftAlarmOptions {
  FlatnessOptions time = {};  // its confidence holds for all looks of a run together
  double growth = 1.25;  // next look when the run has lasted this many times as long as at the previous look
};

/// Repeatedly judges what `recorder` holds. Repeated looks make a false alarm more likely than a single look,
/// so look k may use only 1 / (k (k + 1)) of the total error probability (alpha spending, Lan and DeMets,
/// "Discrete Sequential Boundaries for Clinical Trials", Biometrika 70, 1983). Growth is reported when two
/// looks in a row find it.
class DriftAlarm {
 public:
  /// `recorder` must outlive it. Throws kInvalidArgument unless growth > 1.
  explicit DriftAlarm(const Recorder& recorder, DriftAlarmOptions options = {});

  /// Whether a look is due; costs a ns or two. Looks take at most half a percent of the time.
  bool due() const { return recorder_.totals().elapsed_ns >= next_ns_ && !raised_; }
  /// The report of the run when it was found growing twice in a row, which is reported once; otherwise
  /// nothing. Takes some ten ms and allocates: call it between iterations, or in a scope of callbacks.
  std::optional<RunReport> look();
  int looks() const { return looks_; }

 private:
  const Recorder& recorder_;
  DriftAlarmOptions options_;
  int64_t next_ns_;
  int looks_ = 0;
  bool grown_ = false;  // at the latest look
  bool raised_ = false;
};

}  // namespace isochron::observe
