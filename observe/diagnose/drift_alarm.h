// Reports growing iteration times while the run is still going, so that no hours are lost until its end. The
// verdict is the same as at the end of a run. Its data cover the whole run so far, including the time before
// the growth: windows, samples and spikes reach back to the beginning.
#pragma once

#include <optional>

#include "isochron/observe/diagnose/report.h"

namespace isochron::observe {

struct DriftAlarmOptions {
  FlatnessOptions time = {};  // the confidence is that of all looks together
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

  /// Whether a look is due. The call costs a ns or two; looks take at most half a percent of the time.
  bool due() const { return recorder_.totals().elapsed_ns >= next_ns_ && !raised_; }
  /// Looks at the run. Returns its report if it was found growing for the second time in a row, and nothing
  /// otherwise; reports only once. Takes about ten ms and allocates, so call it between iterations or in a
  /// kCallbacks scope.
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
