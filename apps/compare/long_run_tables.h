// The tables of `long-run`, each made in about so many seconds.
#pragma once

#include "isochron/apps/compare/table.h"

namespace isochron::apps {

/// Memory and time under SGD, RMSprop and Adam.
Table optimizers_table(double seconds);
/// 64 images an update as one batch, or as sums over smaller ones: memory against time.
Table accumulation_table(double seconds);
/// f32, mixed_f16 and mixed_bf16: time, memory, loss.
Table precisions_table(double seconds);

}  // namespace isochron::apps
