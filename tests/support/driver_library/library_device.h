// Runs machine_driver without hardware, on the tests' libcuda.so.1.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>

#include "support/driver_library/controls.h"
#include "support/simulated/simulated_driver.h"

namespace isochron::cuda {

class LibraryDevice final : public SimulatedControls {
 public:
  /// Whether this build has it.
  static bool built() { return built_with_cuda(); }
  /// From now on, every driver that the process opens is the tests'. Throws kUnsupported if another one is
  /// loaded.
  explicit LibraryDevice(const SimulatedDevice& device = {}) {
#ifdef ISOCHRON_SIMULATED_DRIVER
    static void* const loaded = dlopen(ISOCHRON_SIMULATED_DRIVER, RTLD_NOW | RTLD_LOCAL);
    require(loaded != nullptr && dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == loaded,
            ErrorCode::kUnsupported, "library device",
            "the tests' libcuda.so.1 isn't the one that is loaded");
    library_ = loaded;
#else
    isochron::fail(ErrorCode::kUnsupported, "library device", "this was built without CUDA");
#endif
    const SimulatedLibraryDevice asked{device.properties.total_bytes, device.granularity_bytes,
                                       device.properties.multiprocessors, device.seed,
                                       device.stages_pageable ? 1 : 0};
    find<decltype(simulated_configure)>("simulated_configure")(&asked);
  }

  int64_t calls(const std::string& call) const override {
    return find<decltype(simulated_calls)>("simulated_calls")(call.c_str());
  }
  void forget_calls() override { find<decltype(simulated_forget_calls)>("simulated_forget_calls")(); }
  void fail(const std::string& call, int64_t number, ErrorCode code) override {
    find<decltype(simulated_fail)>("simulated_fail")(call.c_str(), number, static_cast<int>(code));
  }
  size_t used_bytes() const override {
    return find<decltype(simulated_used_bytes)>("simulated_used_bytes")();
  }
  /// The leftovers of destroyed contexts, such as "1 stream"; each is returned once.
  std::string left_behind() const { return find<decltype(simulated_left_behind)>("simulated_left_behind")(); }
  /// A function of the driver, by name.
  template <typename F>
  F* find(const char* name) const {
    void* const found = dlsym(library_, name);
    require(found != nullptr, ErrorCode::kUnsupported, "library device", "no {}", name);
    return reinterpret_cast<F*>(found);
  }

 private:
  void* library_ = nullptr;
};

}  // namespace isochron::cuda
