// `isochron train --patience`: what ranks report about a rank that hangs, and how this ends the run.
#pragma once

#include <memory>

#include "isochron/apps/train/options.h"
#include "isochron/comm/launch/launch_watch_options.h"
#include "isochron/comm/watch/watchdog.h"

namespace isochron::apps {

/// For MPI's start and end.
comm::LaunchWatchOptions patience_of(const TrainOptions& options);
/// A collective call. Returns null if there is nothing to watch. The files are in a folder `ranks` in that of
/// --checkpoint, or else in that of --out.
std::unique_ptr<comm::Watchdog> watch_ranks(const TrainOptions& options);

}  // namespace isochron::apps
