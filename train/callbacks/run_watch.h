// Reports on a run while it continues: a file that `isochron watch` shows, and an alarm if its steps begin
// to take longer.
//
// FOLDER/live.json, one object, written at the start, replaced every `interval_seconds` and at the end:
//   format       "isochron live 1"
//   title, process (its id), finished, stop_reason
//   process_space, host        where that id is valid (core/process/process_space.h); absent in older files
//   epoch, epochs, step, steps_per_epoch (0: not known), total_steps
//   recorded_steps, seconds    since warm-up, as everything below
//   results      {name: number}
//   p50_ns, p99_ns
//   data_wait_share, rss_bytes, rss_first_bytes (-1: not known), spikes
//   medians_ns   [at most 64 numbers], over the run
//   alarm        text, empty while there is none
// FOLDER/drift.json: at the alarm, the run's record (observe/export/run_record.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "isochron/observe/diagnose/drift_alarm.h"
#include "isochron/train/callbacks/callback.h"

namespace isochron::train {

inline constexpr std::string_view kLiveFile = "live.json", kDriftFile = "drift.json";

struct RunWatchOptions {
  std::filesystem::path folder = {};  // empty: no files, only the alarm
  std::string title = "run";
  double interval_seconds = 1;
  observe::DriftAlarmOptions alarm = {};
};

/// Writing a file takes about 0.1 ms and doesn't wait for the disk. An alarm is also an event kNotice, as is
/// the first failure to write live.json.
class RunWatch : public Callback {
 public:
  /// `recorder`: the fit's recorder, which must outlive the callback.
  explicit RunWatch(const observe::Recorder& recorder, RunWatchOptions options = {});
  bool first_rank_only() const override { return true; }
  void on_train_begin(RunState& run) override;
  void on_batch_end(RunState& run, const Results& results) override;
  void on_progress(RunState& run, const Results& results) override;
  void on_epoch_end(RunState& run, const Results& results) override;
  void on_train_end(RunState& run) override;
  std::string_view kind() const override { return "run_watch"; }
  /// What the alarm said; empty while there was none.
  const std::string& alarm() const { return alarm_text_; }

 private:
  void look(const RunState& run, const Results& results);
  void try_writing(const std::function<void()>& write);
  void raise(const observe::RunReport& report);
  void write(const RunState& run, bool finished);

  const observe::Recorder& recorder_;
  RunWatchOptions options_;
  observe::DriftAlarm alarm_;
  std::string alarm_text_;
  bool rehearsed_ = false;
  uint32_t epochs_ended_ = 0;
  Results results_;           // the newest results received
  bool not_written_ = false;  // writing has failed, and a notice said so
  int64_t next_write_ns_ = 0;
};

}  // namespace isochron::train
