// What a device tells of its own state, by NVML, which the driver brings along; loaded at run time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "isochron/core/cuda/driver.h"

namespace isochron::cuda {

/// Empty: the device doesn't tell.
struct DeviceConditions {
  std::optional<int64_t> clock_khz = {};    // of its multiprocessors, now
  std::optional<int64_t> temperature = {};  // degrees Celsius, now
  /// How long it ran below its clocks since the driver was loaded, by its temperature or its power limit.
  std::optional<int64_t> throttled_ns = {};
  /// Programs that compute on it now, beside this one, which must have it open.
  std::optional<int64_t> other_programs = {};
};

class DeviceMonitor {
 public:
  virtual ~DeviceMonitor() = default;
  virtual DeviceConditions read() = 0;
};

/// Of the device of these properties; null where there is no NVML, or it doesn't know the device. `library`:
/// its name for the system's loader.
std::unique_ptr<DeviceMonitor> machine_monitor(const DeviceProperties& device,
                                               const std::string& library = "libnvidia-ml.so.1");

}  // namespace isochron::cuda
