// From a report to the numbers that causes are told by, and from these to the causes' names.
#pragma once

#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/record/recorder.h"

namespace isochron::observe {

/// Sets what only the recorder knows: looks at single iterations, traced plans, files that were left.
void add_evidence(const Recorder& recorder, Evidence& evidence);

/// Sets in `report.evidence` every quantity that cause.h lists, beside what the caller knows.
void add_evidence(RunReport& report);

/// `report.causes` anew: what `attribute` finds, and the spikes that return on a beat.
void name_causes(RunReport& report);

}  // namespace isochron::observe
