// The optimizers by the names that `isochron train --optimizer` takes.
#pragma once

#include <string>
#include <vector>

#include "isochron/optim/optimizers.h"

namespace isochron::apps {

struct NamedOptimizer {
  std::string name;
  double learning_rate;  // the usual one
  optim::Optimizer (*make)(double learning_rate, const optim::StepOptions& step);
};

/// In the order of the help.
const std::vector<NamedOptimizer>& named_optimizers();
/// The optimizer of that name. Throws kInvalidArgument, listing the names, if there is none.
const NamedOptimizer& optimizer_named(const std::string& name);

}  // namespace isochron::apps
