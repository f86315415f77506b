// `isochron train MODEL --dry-run`: computes how much memory a training takes, without a single step.
#pragma once

#include "isochron/apps/train/options.h"
#include "isochron/optim/optimizer.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::apps {

/// Thrown when a dry run has printed its results; the command then ends successfully.
struct DryRunDone {};

/// Prints the memory of the parameters, the gradients, the optimizer's state and the rest of the arena under
/// SGD, RMSprop, Adam and `chosen`, for the largest batch of `data`. `functions` must update with
/// `optimizer`, which this function changes.
[[noreturn]] void dry_run(const train::BatchFunctions& functions, train::Batches data,
                          optim::Optimizer& optimizer, const std::string& chosen,
                          const optim::StepOptions& step);

}  // namespace isochron::apps
