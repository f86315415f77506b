// What a device reports about its own state, through NVML, which comes with the driver and is loaded at run
// time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "isochron/core/cuda/driver.h"

namespace isochron::cuda {

/// Values that the device doesn't report are empty.
struct DeviceConditions {
  std::optional<int64_t> clock_khz = {};    // of its multiprocessors, now
  std::optional<int64_t> temperature = {};  // degrees Celsius, now
  /// How long the device has reduced its clocks since the driver was loaded, because of its temperature or
  /// power limit.
  std::optional<int64_t> throttled_ns = {};
  /// How many other programs compute on the device now. This program must have the device open.
  std::optional<int64_t> other_programs = {};
};

class DeviceMonitor {
 public:
  virtual ~DeviceMonitor() = default;
  virtual DeviceConditions read() = 0;
};

/// The monitor of the device with these properties; null if there is no NVML, or NVML doesn't know the
/// device. `library`: NVML's name for the system's loader.
std::unique_ptr<DeviceMonitor> machine_monitor(const DeviceProperties& device,
                                               const std::string& library = "libnvidia-ml.so.1");

}  // namespace isochron::cuda
