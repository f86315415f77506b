// Where a tensor lives.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace isochron {

enum class DeviceKind : uint8_t { kCpu, kCuda };

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int16_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
  bool is_cpu() const { return kind == DeviceKind::kCpu; }
  /// "cpu", "cuda:0".
  std::string str() const { return is_cpu() ? "cpu" : "cuda:" + std::to_string(index); }
};

/// The device with the name "cpu", "cuda" (the first GPU) or "cuda:1". Throws kInvalidArgument for anything
/// else.
Device parse_device(std::string_view text);

}  // namespace isochron
