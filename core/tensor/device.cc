#include "isochron/core/tensor/device.h"

#include <charconv>

#include "isochron/core/base/error.h"

namespace isochron {

Device parse_device(std::string_view text) {
  if (text == "cpu") return {};
  Device device{DeviceKind::kCuda, 0};
  std::string_view index = text;
  if (text == "cuda") return device;
  if (text.starts_with("cuda:")) {
    index.remove_prefix(5);
    const auto [end, error] = std::from_chars(index.data(), index.data() + index.size(), device.index);
    if (error == std::errc() && end == index.data() + index.size() && device.index >= 0) return device;
  }
  fail(ErrorCode::kInvalidArgument, "device", "'{}' is not a device; devices are cpu, cuda and cuda:N",
       text.substr(0, 40));
}

}  // namespace isochron
