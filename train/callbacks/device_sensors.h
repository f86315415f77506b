// The sensors of a recorder for training on a CUDA device: those of the machine, and the device's memory,
// clock, temperature and throttling.
#pragma once

#include <memory>

#include "isochron/core/cuda/device_monitor.h"
#include "isochron/memory/cuda/gpu.h"
#include "isochron/observe/host/machine.h"

namespace isochron::train {

class DeviceSensors final : public observe::SensorSource {
 public:
  /// Used by the thread that makes the object. `monitor` may be null.
  DeviceSensors(std::shared_ptr<cuda::Gpu> gpu, std::unique_ptr<cuda::DeviceMonitor> monitor)
      : gpu_(std::move(gpu)), monitor_(std::move(monitor)) {}
  /// Uses the machine's own monitor (cuda::machine_monitor).
  explicit DeviceSensors(const std::shared_ptr<cuda::Gpu>& gpu)
      : DeviceSensors(gpu, cuda::machine_monitor(gpu->context().properties())) {}

  void read(observe::SensorReading& reading) override { machine_.read(reading); }
  void read_slow(observe::SensorReading& reading) override;
  int64_t waited_ns() override { return machine_.waited_ns(); }
  void watch_team(bool team) override { machine_.watch_team(team); }

 private:
  observe::Sensors machine_;
  const std::shared_ptr<cuda::Gpu> gpu_;
  const std::unique_ptr<cuda::DeviceMonitor> monitor_;
};

}  // namespace isochron::train
