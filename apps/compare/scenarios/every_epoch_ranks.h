// The loops of `every-epoch` with two workers, which exchange gradients and the training's results after
// every epoch.
#pragma once

#include <vector>

#include "isochron/apps/compare/scenarios/scenario.h"

namespace isochron::apps {

/// One loop exchanges all results so far in every epoch; the other exchanges only the new ones.
std::vector<Loop> every_epoch_rank_loops();

}  // namespace isochron::apps
