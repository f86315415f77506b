// The tables of `every-epoch`. Each function takes about `seconds`.
#pragma once

#include "isochron/observe/export/table.h"

namespace isochron::apps {

/// Ways to save: how long the loop waits for each, and what each leaves on disk.
observe::Table checkpoints_table(double seconds);
/// The temporary files that remain at the end of a run, after a crash, and at the next start.
observe::Table files_table(double seconds);
/// Lines and time of a step under each log level, and with a line in every step.
observe::Table log_levels_table(double seconds);
/// The accuracy of all predictions so far, computed from a list of them and by a streaming metric.
observe::Table metrics_table(double seconds);
/// Time and loss of ten epochs: later epochs improve the loss less, but take as long.
observe::Table improvement_table(double seconds);
/// Time of a step whose gradients shrink until they are subnormal.
observe::Table shrinking_gradients_table(double seconds);

}  // namespace isochron::apps
