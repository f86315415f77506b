// The tables of `transfers`, each made in about so many seconds.
#pragma once

#include "isochron/observe/table.h"

namespace isochron::apps {

/// Numbers that aren't finite, planted in data, loss and gradient, and who is named for them.
observe::Table culprits_table(double seconds);
/// What looking for such numbers costs a step.
observe::Table checks_table(double seconds);

}  // namespace isochron::apps
