// The tables of `growing-graph`. Each function takes about `seconds`.
#pragma once

#include "isochron/observe/export/table.h"

namespace isochron::apps {

/// The effect of switching off each graph pass: nodes, kernels, arena, time of a step.
observe::Table passes_table(double seconds);
/// A recurrent network, unrolled and as a scan, and branches, all with gradients.
observe::Table control_flow_table(double seconds);
/// The gradient through everything recorded so far, compared with that of one iteration.
observe::Table gradient_table(double seconds);

}  // namespace isochron::apps
