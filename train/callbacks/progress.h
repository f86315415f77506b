// The line per epoch: on a terminal it is rewritten in place while the epoch runs, as far as it fits into a
// row; otherwise it is printed at the end of the epoch, and every half minute before that.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "isochron/train/callbacks/callback.h"

namespace isochron::train {

/// "Epoch 3/10  loss 0.1234  val_loss 0.1411  12.3 ms  step p50 2.1 us".
std::string epoch_line(const RunState& run, const EpochRecord& record);

/// The time of one step, without callbacks and saves.
struct StepTime {
  int64_t duration_ns = 0;
  int64_t wait_ns = 0;  // the part spent waiting for data
};

/// The newest steps, in fixed memory.
class RecentSteps {
 public:
  static constexpr size_t kMaxSteps = 512;
  void add(const StepTime& step) { steps_[count_++ % kMaxSteps] = step; }
  size_t size() const { return count_ < kMaxSteps ? count_ : kMaxSteps; }
  /// Nearest rank; 0 without steps.
  double quantile_ns(double fraction) const;
  double mean_ns() const;
  /// Share of the time that went to waiting for data.
  double wait_share() const;

 private:
  std::array<StepTime, kMaxSteps> steps_;
  size_t count_ = 0;
};

/// "step p50 2.10 us p95 3.05 us  15200000 samples/s  data wait 1 %  ETA 00:00:12".
std::string pace_text(const RunState& run, const RecentSteps& steps, int64_t samples_per_step);

class Progress {
 public:
  /// `file` null: prints nothing. `epochs` false: prints only notes.
  Progress(std::FILE* file, bool epochs, int64_t samples_per_step);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Ends an unfinished line, so that an error starts on a new line.
  ~Progress();

  void add_step(const StepTime& step) { recent_.add(step); }
  /// Whether `update` would show something now.
  bool due() const;
  void update(const RunState& run, const Results& results);
  void finish(const RunState& run, const EpochRecord& record);
  /// Prints a separate line: from where a run was resumed, or why training stopped.
  void note(const std::string& text);

 private:
  static constexpr int64_t kTerminalIntervalNs = 100'000'000;
  static constexpr int64_t kPlainIntervalNs = 30'000'000'000;

  void rewrite(std::string_view text);

  std::FILE* file_;
  bool epochs_;
  int64_t samples_per_step_;
  bool terminal_;
  bool open_ = false;  // the line has no newline yet
  int64_t shown_ns_ = 0;
  RecentSteps recent_;
};

}  // namespace isochron::train
