// The one line an epoch: rewritten in place while the epoch runs where the output is a terminal, else printed
// once, at its end.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "isochron/train/callback.h"

namespace isochron::train {

/// "Epoch 3/10  loss 0.1234  val_loss 0.1411  12.3 ms  step p50 2.1 us".
std::string epoch_line(const RunState& run, const EpochRecord& record);

class Progress {
 public:
  /// `file` null: says nothing.
  explicit Progress(std::FILE* file);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Ends an unfinished line, so that an error begins one of its own.
  ~Progress();

  /// Whether `update` would show something now: on a terminal, every kInterval.
  bool due() const;
  void update(const RunState& run, const Results& results);
  void finish(const RunState& run, const EpochRecord& record);
  /// A line of its own: why training stopped.
  void note(const std::string& text);

 private:
  static constexpr int64_t kIntervalNs = 100'000'000;

  void rewrite(const std::string& text);

  std::FILE* file_;
  bool terminal_;
  bool open_ = false;  // the line is not ended
  int64_t shown_ns_ = 0;
};

}  // namespace isochron::train
