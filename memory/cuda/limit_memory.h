// Limits how much of a device's memory this process may take.
#pragma once

#include <cstddef>

#include "isochron/core/tensor/device.h"

namespace isochron::cuda {

/// Limits the memory of all tensors on `device` to `bytes`, in multiples of the driver's granularity. Throws
/// what opening the device throws; kInvalidArgument for the CPU, for less than this granularity, and if
/// something is already allocated on the device.
void limit_memory(Device device, size_t bytes);

}  // namespace isochron::cuda
