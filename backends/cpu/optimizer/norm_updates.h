// The kernels of ops/optimizer/optimizer_updates.h whose rule looks at a parameter as a whole (its norm, its
// rows and columns) and so takes several passes: LAMB and Adafactor, in Highway, for f32 and f64. Sums are
// kept in vector lanes over 1,024 elements and in f64 beyond; their order doesn't depend on the number of
// threads.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_lamb_update(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_adafactor_update(const graph::KernelRequest& request);

}  // namespace isochron::ops
