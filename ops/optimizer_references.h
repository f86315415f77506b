// The optimizers' rules on doubles, as ops/optimizer_updates.h writes them down: what kernels are tested
// against.
#pragma once

#include <string_view>

#include "isochron/graph/op.h"

namespace isochron::ops {

/// The definition of the row `name`, e.g. "adam_update".
graph::ReferenceFunction update_reference(std::string_view name);

}  // namespace isochron::ops
