// A loop and its twin in alternation, for observe/side_by_side.h.
#pragma once

#include <vector>

#include "isochron/apps/compare/worker.h"
#include "isochron/core/rng.h"
#include "isochron/observe/side_by_side.h"

namespace isochron::apps {

/// Gives `loop` and `twin` turns of some 3 ms, of random length and order, so that nothing periodic favours
/// one, and on one core at a time, whose neighbours both have. Adds their times to `pairs`, until these tell
/// a change of 2 % from none, or `seconds` have passed and there are observe::kLeastTurnPairs, or one has
/// ended.
void alternate(Worker& loop, Worker& twin, double seconds, Rng& random,
               std::vector<observe::TurnPair>& pairs);

}  // namespace isochron::apps
