// Where a tensor lives. Only the CPU executes today; the type exists so that signatures don't change.
#pragma once

#include <cstdint>

namespace isochron {

enum class DeviceKind : uint8_t { kCpu, kCuda };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int16_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace isochron
