// `isochron train --patience`: what ranks say of one that stands still, and how the run ends for that.
#pragma once

#include <memory>

#include "isochron/apps/train/options.h"
#include "isochron/comm/launch/launch_watch_options.h"
#include "isochron/comm/watch/watchdog.h"

namespace isochron::apps {

/// For MPI's start and end.
comm::LaunchWatchOptions patience_of(const TrainOptions& options);
/// A collective call. Null where there is nothing to watch. Its files are in a folder `ranks` in that of
/// --checkpoint, else of --out.
std::unique_ptr<comm::Watchdog> watch_ranks(const TrainOptions& options);

}  // namespace isochron::apps
