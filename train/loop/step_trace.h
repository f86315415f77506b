// Which calls of a fit are recorded for a trace (FitOptions::traced).
#pragma once

#include "isochron/train/loop/trainer.h"

namespace isochron::train {

class StepTrace {
 public:
  StepTrace(const FitOptions::TracedSteps& traced, int64_t steps_per_call)
      : traced_(traced), steps_per_call_(steps_per_call) {}

  void begin_call() {
    if (traced_.recorder == nullptr || traced_.recorder->recording()) return;
    const int64_t last = steps_ + steps_per_call_;
    if (!over_ && last >= traced_.first && steps_ < traced_.last) traced_.recorder->start();
  }
  void add_step() { ++steps_; }
  /// Returns whether the recording ended with this call.
  bool end_call() {
    if (traced_.recorder == nullptr || !traced_.recorder->recording()) return false;
    traced_.recorder->sample_memory();
    if (steps_ < traced_.last) return false;
    stop();
    return true;
  }
  /// Stops for good: no later call is recorded.
  void stop() {
    if (traced_.recorder != nullptr) traced_.recorder->stop();
    over_ = true;
  }

 private:
  const FitOptions::TracedSteps& traced_;
  int64_t steps_per_call_;
  int64_t steps_ = 0;  // done in this process
  bool over_ = false;
};

}  // namespace isochron::train
