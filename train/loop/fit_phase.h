// Phases of a fit, for its recorder and the trace.
#pragma once

#include <optional>

#include "isochron/core/telemetry/sealed.h"
#include "isochron/core/telemetry/trace.h"
#include "isochron/observe/record/recorder.h"

namespace isochron::train {

inline constinit TraceLabel kPhases[] = {
    {TraceCategory::kPhase, "data_wait"}, {TraceCategory::kPhase, "host_to_device"},
    {TraceCategory::kPhase, "compute"},   {TraceCategory::kPhase, "update"},
    {TraceCategory::kPhase, "callbacks"}, {TraceCategory::kPhase, "checkpoint"},
    {TraceCategory::kPhase, "log"},       {TraceCategory::kPhase, "communication"},
    {TraceCategory::kPhase, "rank_wait"}, {TraceCategory::kPhase, "unexplained"}};
static_assert(std::size(kPhases) == observe::kPhaseCount);

/// A phase of the recorder, if there is one, and of the trace. Callbacks, checkpoints and logs don't belong
/// to a sealed iteration.
class OptionalPhase {
 public:
  OptionalPhase(observe::Recorder* recorder, observe::Phase phase, const char* label = nullptr)
      : span_(kPhases[static_cast<size_t>(phase)]) {
    if (recorder != nullptr) scope_.emplace(*recorder, phase, label);
    if (phase == observe::Phase::kCallbacks || phase == observe::Phase::kCheckpoint ||
        phase == observe::Phase::kLog)
      beside_.emplace();
  }

 private:
  TraceSpan span_;
  std::optional<observe::PhaseScope> scope_;
  std::optional<UnsealedScope> beside_;
};

}  // namespace isochron::train
