// Source text that all optimizer updates share.
#pragma once

#include <string>

#include "isochron/core/cuda/kernel_module.h"
#include "isochron/ops/optimizer/update_numbers.h"

namespace isochron::ops {

/// Text that defines `settings`.
std::string settings_text(const element::UpdateSettings& settings);

/// Adds the texts that define the rules, UpdateSettings and the numbers computed from these settings.
void add_update_texts(cuda::KernelModule& module);

}  // namespace isochron::ops
