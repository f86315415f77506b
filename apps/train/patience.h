// `isochron train --patience`: what ranks report about a rank that hangs, and how this ends the run.
#pragma once

#include <memory>

#include "isochron/apps/train/options.h"
#include "isochron/comm/launch/launch_watch_options.h"
#include "isochron/comm/watch/watchdog.h"

namespace isochron::apps {

/// The patience for MPI's start and end.
comm::LaunchWatchOptions patience_of(const TrainOptions& options);
/// Starts watching the other ranks. All ranks must call this. Returns null if there is nothing to watch. Its
/// files are in a subfolder `ranks` of the folder of --checkpoint, or else of --out.
std::unique_ptr<comm::Watchdog> watch_ranks(const TrainOptions& options);

}  // namespace isochron::apps
