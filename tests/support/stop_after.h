// Stops a fit in the middle, as if the process were killed.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "isochron/train/callbacks/callback.h"

namespace isochron::train {

/// What an interrupted run ends with; the rest of it happens in another Training.
struct Stopped : std::runtime_error {
  Stopped() : std::runtime_error("stopped") {}
};

/// Throws after `at` steps of this process, without ending the training in good order.
class StopAfter : public Callback {
 public:
  explicit StopAfter(int64_t at) : at_(at) {}
  void on_save(RunState& run, SavePoint) override {
    if (run.total_steps == at_) throw Stopped();
  }
  std::string_view kind() const override { return "stop_after"; }

 private:
  int64_t at_;
};

}  // namespace isochron::train
