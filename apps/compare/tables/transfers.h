// The tables of `transfers`, of trainings on a device or the CPU.
#pragma once

#include "isochron/core/tensor/device.h"
#include "isochron/observe/export/table.h"

namespace isochron::apps {

/// Non-finite numbers planted in data, loss and gradient, and the culprit that is named for each.
observe::Table culprits_table(Device device);
/// What looking for such numbers costs a step; made in about so many seconds.
observe::Table checks_table(Device device, double seconds);

}  // namespace isochron::apps
