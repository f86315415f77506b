// The option --device of the commands that can run elsewhere than on the CPU.
#pragma once

#include <CLI/CLI.hpp>

#include "isochron/core/tensor/device.h"

namespace isochron::apps {

/// `device` keeps what it holds as the default, and must outlive the parsing.
inline void add_device_option(CLI::App& command, Device& device, const std::string& description) {
  command
      .add_option_function<std::string>(
          "--device", [&device](const std::string& text) { device = parse_device(text); }, description)
      ->type_name("cpu|cuda|cuda:N")
      ->default_str(device.str());
}

}  // namespace isochron::apps
