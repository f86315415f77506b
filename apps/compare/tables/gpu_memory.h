// The tables of `gpu-memory`. Each function takes about `seconds`.
#pragma once

#include "isochron/core/tensor/device.h"
#include "isochron/observe/export/table.h"

namespace isochron::apps {

/// How fragmented the pool is under this training, under batches of any size, and under random lifetimes.
observe::Table fragmentation_table(double seconds);
/// How fragmented a device's pool is under random lifetimes, compared with a plan.
observe::Table device_fragmentation_table(Device device, double seconds);
/// Batches of varying size with pools of smaller and smaller limits.
observe::Table limit_table(double seconds);
/// Requests for growth on demand before and after the first use.
observe::Table growth_table(double seconds);
/// What a loop may keep of each step, and how much memory this keeps alive.
observe::Table kept_alive_table(double seconds);

}  // namespace isochron::apps
