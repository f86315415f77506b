// The tables of `long-run`, each made in about so many seconds.
#pragma once

#include "isochron/observe/export/table.h"

namespace isochron::apps {

/// Memory and time under SGD, RMSprop and Adam.
observe::Table optimizers_table(double seconds);
/// 64 images an update as one batch, or as sums over smaller ones: memory against time.
observe::Table accumulation_table(double seconds);
/// f32, mixed_f16 and mixed_bf16: time, memory, loss.
observe::Table precisions_table(double seconds);

}  // namespace isochron::apps
