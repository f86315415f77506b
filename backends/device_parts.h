// What of a device is no one op's, against the CPU: conditions within a step, instructions side by side, and
// batches on their way.
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
/// Throws kInvalidArgument naming those there are.
const DevicePart& device_part(std::string_view name);

/// Runs fixed functions, captured for `gpu`, which must be the process'. What is thrown is a finding, but for
/// kDeviceLost, which is thrown on.
DeviceCheck check_device_part(const std::shared_ptr<cuda::Gpu>& gpu, const DevicePart& part);

}  // namespace isochron::ops
