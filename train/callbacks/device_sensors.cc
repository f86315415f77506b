#include "isochron/train/callbacks/device_sensors.h"

namespace isochron::train {

void DeviceSensors::read_slow(observe::SensorReading& reading) {
  machine_.read_slow(reading);
  const AllocatorStats stats = gpu_->pool().stats();
  reading.device_in_use_bytes = static_cast<int64_t>(stats.in_use_bytes);
  reading.device_reserved_bytes = static_cast<int64_t>(stats.reserved_bytes);
  reading.device_retries = stats.retries;
  reading.pinned_bytes = gpu_->pinned_bytes();
  if (!monitor_) return;
  const cuda::DeviceConditions now = monitor_->read();
  reading.device_clock_khz = now.clock_khz.value_or(observe::kUnknownReading);
  reading.device_temperature = now.temperature.value_or(observe::kUnknownReading);
  reading.device_throttled_ns = now.throttled_ns.value_or(observe::kUnknownReading);
}

}  // namespace isochron::train
