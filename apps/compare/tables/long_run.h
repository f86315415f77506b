// The tables of `long-run`. Each function takes about `seconds`.
#pragma once

#include "isochron/observe/export/table.h"

namespace isochron::apps {

/// Memory and time under SGD, RMSprop and Adam.
observe::Table optimizers_table(double seconds);
/// Updates of 64 images as one batch, or accumulated over smaller batches: memory and time.
observe::Table accumulation_table(double seconds);
/// f32, mixed_f16 and mixed_bf16: time, memory, loss.
observe::Table precisions_table(double seconds);

}  // namespace isochron::apps
