#include "isochron/core/cuda/device_monitor.h"

#include <algorithm>
#include <utility>

#include "isochron/core/cuda/shared_library.h"

namespace isochron::cuda {
namespace {

// The part of NVML's interface (docs.nvidia.com/deploy/nvml-api) that is used here, declared by hand so that
// the build doesn't need NVML's header.
using NvmlDevice = void*;
constexpr int kNvmlSuccess = 0;
constexpr int kNvmlClockSm = 1;
constexpr int kNvmlTemperatureGpu = 0;
constexpr int kNvmlPolicyPower = 0, kNvmlPolicyThermal = 1;
constexpr int kNvmlInsufficientSize = 7;
struct NvmlProcess {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};
struct NvmlViolationTime {
  unsigned long long reference_us;
  unsigned long long violation_ns;
};

struct MonitorCalls {
  int (*nvmlInit_v2)() = nullptr;
  int (*nvmlShutdown)() = nullptr;
  int (*nvmlDeviceGetHandleByPciBusId_v2)(const char*, NvmlDevice*) = nullptr;
  int (*nvmlDeviceGetClockInfo)(NvmlDevice, int, unsigned*) = nullptr;
  int (*nvmlDeviceGetTemperature)(NvmlDevice, int, unsigned*) = nullptr;
  int (*nvmlDeviceGetViolationStatus)(NvmlDevice, int, NvmlViolationTime*) = nullptr;
  int (*nvmlDeviceGetComputeRunningProcesses_v3)(NvmlDevice, unsigned*, NvmlProcess*) = nullptr;
};

class NvmlMonitor final : public DeviceMonitor {
 public:
  NvmlMonitor(const DeviceProperties& device, const std::string& library)
      : library_("NVML", {library.c_str()}, "install the driver's libraries") {
#define ISOCHRON_FIND(name) library_.find(calls_.name, #name)
    ISOCHRON_FIND(nvmlInit_v2);
    ISOCHRON_FIND(nvmlShutdown);
    ISOCHRON_FIND(nvmlDeviceGetHandleByPciBusId_v2);
    ISOCHRON_FIND(nvmlDeviceGetClockInfo);
    ISOCHRON_FIND(nvmlDeviceGetTemperature);
    ISOCHRON_FIND(nvmlDeviceGetViolationStatus);
    ISOCHRON_FIND(nvmlDeviceGetComputeRunningProcesses_v3);
#undef ISOCHRON_FIND
    require(calls_.nvmlInit_v2() == kNvmlSuccess, ErrorCode::kUnsupported, "cuda",
            "NVML could not be initialized");
    if (calls_.nvmlDeviceGetHandleByPciBusId_v2(device.pci_bus_id.c_str(), &device_) == kNvmlSuccess) return;
    calls_.nvmlShutdown();
    fail(ErrorCode::kUnsupported, "cuda", "NVML knows no device at {}", device.pci_bus_id);
  }
  ~NvmlMonitor() override { calls_.nvmlShutdown(); }

  DeviceConditions read() override {
    DeviceConditions now;
    unsigned value = 0;
    if (calls_.nvmlDeviceGetClockInfo(device_, kNvmlClockSm, &value) == kNvmlSuccess)
      now.clock_khz = int64_t{1000} * value;
    if (calls_.nvmlDeviceGetTemperature(device_, kNvmlTemperatureGpu, &value) == kNvmlSuccess)
      now.temperature = value;
    for (const int policy : {kNvmlPolicyPower, kNvmlPolicyThermal}) {
      NvmlViolationTime time{};
      if (calls_.nvmlDeviceGetViolationStatus(device_, policy, &time) == kNvmlSuccess)
        now.throttled_ns = now.throttled_ns.value_or(0) + static_cast<int64_t>(time.violation_ns);
    }
    // Programs aren't identified by process id, because ids differ in a container.
    unsigned programs = 0;
    const int asked = calls_.nvmlDeviceGetComputeRunningProcesses_v3(device_, &programs, nullptr);
    if (asked == kNvmlSuccess || asked == kNvmlInsufficientSize)
      now.other_programs = std::max<int64_t>(int64_t{programs} - 1, 0);
    return now;
  }

 private:
  const SharedLibrary library_;
  MonitorCalls calls_;
  NvmlDevice device_ = nullptr;
};

}  // namespace

std::unique_ptr<DeviceMonitor> machine_monitor(const DeviceProperties& device, const std::string& library) {
  try {
    return std::make_unique<NvmlMonitor>(device, library);
  } catch (const Error&) {  // its readings are left out
    return nullptr;
  }
}

}  // namespace isochron::cuda
