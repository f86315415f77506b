// The loops of `every-epoch` with two workers, which exchange gradients and the training's results after
// every epoch.
#pragma once

#include <vector>

#include "isochron/apps/compare/scenarios/scenario.h"

namespace isochron::apps {

/// All results so far exchanged in every epoch; and what is new alone.
std::vector<Loop> every_epoch_rank_loops();

}  // namespace isochron::apps
