// Where a timed step ends: on a device when its results could be read.
#pragma once

#include <memory>

#include "isochron/memory/cuda/gpu.h"

namespace isochron::apps {

/// Waits for all that was put on a device; on the CPU for nothing.
class DeviceWait {
 public:
  explicit DeviceWait(Device device) : gpu_(device.is_cpu() ? nullptr : cuda::gpu(device)) {}
  void operator()() const {
    if (gpu_) gpu_->synchronize();
  }

 private:
  std::shared_ptr<cuda::Gpu> gpu_;
};

}  // namespace isochron::apps
