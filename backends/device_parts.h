// Checks of a device against the CPU that don't belong to a single op: conditions within a step, concurrent
// instructions, and batches in transfer.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "isochron/backends/device_checks.h"

namespace isochron::ops {

struct DevicePart {
  std::string_view name;
  void (*run)(const std::shared_ptr<cuda::Gpu>& gpu, DeviceCheck& check);
};

std::span<const DevicePart> device_parts();
/// Throws kInvalidArgument for an unknown name, with a list of the existing parts.
const DevicePart& device_part(std::string_view name);

/// Runs fixed functions that are captured for `gpu`, which must be the process' device. An error thrown by
/// them is a finding, except kDeviceLost, which is rethrown.
DeviceCheck check_device_part(const std::shared_ptr<cuda::Gpu>& gpu, const DevicePart& part);

}  // namespace isochron::ops
