// A simulated device that runs the source code of the real kernels, so that everything a program does on a
// GPU can be tested without one.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include "isochron/graph/capture/apply.h"
#include "isochron/memory/cuda/gpu.h"
#include "support/driver_library/library_device.h"
#include "support/simulated/host_compiler.h"
#include "support/simulated/simulated_attention.h"
#include "support/simulated/simulated_convolutions.h"
#include "support/simulated/simulated_driver.h"
#include "support/simulated/simulated_products.h"

namespace isochron {

/// While it exists, device 0 of the process is simulated. With ISOCHRON_TEST_DRIVER=library in the
/// environment, the device comes from machine_driver over the tests' libcuda.so.1, without kernel libraries,
/// and must leave nothing behind.
class SimulatedGpu {
 public:
  explicit SimulatedGpu(const cuda::SimulatedDevice& device = {}, bool also_for_devices = false,
                        bool libraries = true)
      : compiler(also_for_devices) {
    const char* const driver = std::getenv("ISOCHRON_TEST_DRIVER");
    if (driver != nullptr && std::string_view(driver) == "library") {
      controls = library_ = std::make_shared<cuda::LibraryDevice>(device);
      context = cuda::machine_driver().open(0);
      libraries = false;
    } else {
      const auto simulated = std::make_shared<cuda::SimulatedContext>(device);
      simulated->set_loader(compiler.loader());
      context = simulated;
      controls = simulated;
    }
    gpu = cuda::Gpu::create(context,
                            libraries ? cuda::KernelSources{&compiler, {&products, &convolutions, &attention}}
                                      : cuda::KernelSources{&compiler, {}, {"matrix products"}});
    before_ = cuda::set_gpu(0, gpu);
  }
  ~SimulatedGpu() {
    graph::clear_eager_kernels();
    cuda::set_gpu(0, std::move(before_));
    gpu.reset();
    context.reset();
    if (library_) {
      EXPECT_EQ(library_->left_behind(), "");
    }
  }
  SimulatedGpu(const SimulatedGpu&) = delete;
  SimulatedGpu& operator=(const SimulatedGpu&) = delete;

  static constexpr Device kDevice{DeviceKind::kCuda, 0};
  HostCompiler compiler;
  cuda::SimulatedProducts products;
  cuda::SimulatedConvolutions convolutions;
  cuda::SimulatedAttention attention;
  std::shared_ptr<cuda::Context> context;
  std::shared_ptr<cuda::SimulatedControls> controls;
  std::shared_ptr<cuda::Gpu> gpu;

 private:
  std::shared_ptr<cuda::LibraryDevice> library_;
  std::shared_ptr<cuda::Gpu> before_;
};

}  // namespace isochron
