// Options of the commands that can run on a device instead of the CPU.
#pragma once

#include <CLI/CLI.hpp>

#include "isochron/core/cuda/kernel_sources.h"
#include "isochron/core/tensor/device.h"

namespace isochron::apps {

/// Adds --device and --plain-kernels. The initial value of `device` is the default. `device` must outlive the
/// parsing.
inline void add_device_option(CLI::App& command, Device& device, const std::string& description) {
  CLI::Option* const option =
      command
          .add_option_function<std::string>(
              "--device", [&device](const std::string& text) { device = parse_device(text); }, description)
          ->type_name("cpu|cuda|cuda:N")
          ->default_str(device.str());
  command
      .add_flag_callback("--plain-kernels", cuda::use_plain_kernels,
                         "on a device, use neither cuBLASLt nor cuDNN, whose kernels are much faster")
      ->needs(option);
}

}  // namespace isochron::apps
