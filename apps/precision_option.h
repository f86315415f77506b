// The option --precision of the commands that train.
#pragma once

#include <CLI/CLI.hpp>

#include "isochron/core/base/error.h"
#include "isochron/core/tensor/device.h"
#include "isochron/graph/passes/precision.h"

namespace isochron::apps {

/// The initial value of `precision` is the default. `precision` must outlive the parsing.
inline void add_precision_option(CLI::App& command, Precision& precision) {
  command
      .add_option_function<std::string>(
          "--precision", [&precision](const std::string& name) { precision = parse_precision(name); },
          "f32; mixed_bf16 and mixed_f16 store and multiply in 16 bits, with variables, sums and losses in "
          "f32; mixed_fp8 is mixed_bf16 with the matmul operands of dense layers rounded to 8 bits, which "
          "NVIDIA devices of compute capability 8.9 or later multiply in hardware; tf32 multiplies f32 "
          "operands with a 10-bit mantissa, on CUDA devices")
      ->check(CLI::IsMember(precision_names()))
      ->default_str(std::string(precision_name(precision)));
}

/// Throws kUnsupported if the device doesn't support the precision.
inline void require_precision(Precision precision, const Device& device) {
  require(precision != Precision::kTf32 || !device.is_cpu(), ErrorCode::kUnsupported, "--precision",
          "tf32 is for CUDA devices; name one with --device cuda, or leave --precision out");
}

}  // namespace isochron::apps
