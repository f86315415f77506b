// How much of a device's memory this process may take.
#pragma once

#include <cstddef>

#include "isochron/core/tensor/device.h"

namespace isochron::cuda {

/// Tensors on `device` take no more than `bytes` in all, in whole steps of the driver's granularity. Throws
/// what opening the device throws, kInvalidArgument for the CPU, for less than one step, and where something
/// lives there already.
void limit_memory(Device device, size_t bytes);

}  // namespace isochron::cuda
