// NVML, played by a library of the test's own.
#include "isochron/core/cuda/device_monitor.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "support/temp_folder.h"

namespace isochron::cuda {
namespace {

constexpr const char* kLibrary = R"(
#include <cstring>
struct Time { unsigned long long reference_us, violation_ns; };
static int running = 0;
extern "C" {
int nvmlInit_v2() { ++running; return 0; }
int nvmlShutdown() { --running; return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) {
  *device = &running;
  return std::strcmp(bus, "0000:65:00.0") == 0 ? 0 : 6;
}
int nvmlDeviceGetClockInfo(void*, int type, unsigned* mhz) { *mhz = 1755; return type == 1 ? 0 : 2; }
int nvmlDeviceGetTemperature(void*, int, unsigned*) { return 3; }  // not supported
int nvmlDeviceGetViolationStatus(void*, int policy, Time* time) {
  *time = {7, policy == 0 ? 1000ull : 50000000000ull};
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void* processes) {
  const bool fits = processes != nullptr && *count >= 3;
  *count = 3;
  return fits ? 0 : 7;
}
}
)";

class Monitor : public testing::Test {
 protected:
  std::string build(const std::string& text) {
    const std::string source = (folder_ / "nvml.cc").string(), library = (folder_ / "nvml.so").string();
    std::ofstream(source) << text;
    const std::string command = std::string(ISOCHRON_CXX) + " -shared -fPIC -o " + library + " " + source;
    EXPECT_EQ(std::system(command.c_str()), 0);
    return library;
  }
  TempFolder folder_;
};

TEST_F(Monitor, TellsWhatTheDeviceDoes) {
  const std::string library = build(kLibrary);
  DeviceProperties device;
  device.pci_bus_id = "0000:65:00.0";
  const auto monitor = machine_monitor(device, library);
  ASSERT_NE(monitor, nullptr);
  const DeviceConditions now = monitor->read();
  EXPECT_EQ(now.clock_khz, 1'755'000);
  EXPECT_EQ(now.temperature, std::nullopt);
  EXPECT_EQ(now.throttled_ns, 50'000'001'000);
  EXPECT_EQ(now.other_programs, 2);
  device.pci_bus_id = "0000:66:00.0";
  EXPECT_EQ(machine_monitor(device, library), nullptr);
}

TEST_F(Monitor, IsLeftOutWhereNothingTells) {
  EXPECT_EQ(machine_monitor({}, (folder_ / "none.so").string()), nullptr);
  EXPECT_EQ(machine_monitor({}, build("extern \"C\" int nvmlInit_v2() { return 0; }")), nullptr)
      << "a library without the rest";
}

}  // namespace
}  // namespace isochron::cuda
