// Computes the evidence of a run (the numbers listed in cause.h) and derives the names of causes from it.
#pragma once

#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/record/recorder.h"

namespace isochron::observe {

/// Sets the quantities that only the recorder knows, such as those of inspected iterations, traced plans, and
/// files left behind.
void add_evidence(const Recorder& recorder, Evidence& evidence);

/// Sets in `report.evidence` the quantities of cause.h that follow from the report itself.
void add_evidence(RunReport& report);

/// Recomputes `report.causes`: the result of `attribute`, plus the causes of periodic spikes.
void name_causes(RunReport& report);

}  // namespace isochron::observe
