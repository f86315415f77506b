// The tables of `gpu-memory`, each made in about so many seconds.
#pragma once

#include "isochron/core/tensor/device.h"
#include "isochron/observe/export/table.h"

namespace isochron::apps {

/// How fragmented the pool is under this training, under batches of any size, and under random lifetimes.
observe::Table fragmentation_table(double seconds);
/// How fragmented the pool of a device is under random lifetimes, and a plan for it.
observe::Table device_fragmentation_table(Device device, double seconds);
/// Batches of varying size from pools with less and less room.
observe::Table limit_table(double seconds);
/// Asking for growth on demand before and after the first use.
observe::Table growth_table(double seconds);
/// What a loop can keep of its steps, and how much memory stays alive for it.
observe::Table kept_alive_table(double seconds);

}  // namespace isochron::apps
