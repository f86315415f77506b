// Waits for the end of a timed step: on a device, until its results can be read.
#pragma once

#include <memory>

#include "isochron/memory/cuda/gpu.h"

namespace isochron::apps {

/// Waits for all work that was submitted to a device; does nothing on the CPU.
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
