// The tables of `transfers`, of trainings on a device or the CPU.
#pragma once

#include "isochron/core/tensor/device.h"
#include "isochron/observe/export/table.h"

namespace isochron::apps {

/// Numbers that aren't finite, planted in data, loss and gradient, and who is named for them.
observe::Table culprits_table(Device device);
/// What looking for such numbers costs a step; made in about so many seconds.
observe::Table checks_table(Device device, double seconds);

}  // namespace isochron::apps
