// The tables of `transfers`, for training on a device or the CPU.
#pragma once

#include "isochron/core/tensor/device.h"
#include "isochron/observe/export/table.h"

namespace isochron::apps {

/// Non-finite numbers planted in data, loss and gradient, and the culprit that is reported for each.
observe::Table culprits_table(Device device);
/// The cost of checking for such numbers in each step. Takes about `seconds`.
observe::Table checks_table(Device device, double seconds);

}  // namespace isochron::apps
