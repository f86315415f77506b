// The kernels of optimizers (ops/optimizer/optimizer_updates.h) whose rule needs several passes over a
// parameter, for its norm or its rows and columns: LAMB and Adafactor, with Highway, for f32 and f64. Sums of
// up to 1,024 elements are kept in vector lanes, and these sums are added in f64. Their order doesn't depend
// on the number of threads.
#pragma once

#include <memory>

#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

std::unique_ptr<graph::Kernel> prepare_lamb_update(const graph::KernelRequest& request);
std::unique_ptr<graph::Kernel> prepare_adafactor_update(const graph::KernelRequest& request);

}  // namespace isochron::ops
