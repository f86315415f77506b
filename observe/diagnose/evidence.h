// Derives from a report the numbers that identify causes, and from these the names of the causes.
#pragma once

#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/record/recorder.h"

namespace isochron::observe {

/// Sets what only the recorder knows: inspected single iterations, traced plans, files that were left behind.
void add_evidence(const Recorder& recorder, Evidence& evidence);

/// Sets in `report.evidence` every quantity that cause.h lists, beside what the caller knows.
void add_evidence(RunReport& report);

/// Recomputes `report.causes`: the result of `attribute`, plus the causes of periodic spikes.
void name_causes(RunReport& report);

}  // namespace isochron::observe
