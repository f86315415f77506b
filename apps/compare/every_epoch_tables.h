// The tables of `every-epoch`, each made in about so many seconds.
#pragma once

#include "isochron/apps/compare/table.h"

namespace isochron::apps {

/// Ways to save: what each makes the loop wait for, and leaves on the disk.
Table checkpoints_table(double seconds);
/// What is left of temporary files at the end, after a crash, and at the next start.
Table files_table(double seconds);
/// Lines and time of a step under each log level, and with a line in every step.
Table log_levels_table(double seconds);
/// An accuracy over all predictions so far: from a list of them, and streaming.
Table metrics_table(double seconds);
/// Time of a step whose gradients shrink until they are no normal numbers any more.
Table shrinking_gradients_table(double seconds);

}  // namespace isochron::apps
