// Ops for debugging a computation, eagerly or in the middle of a captured step. They cost time and, when they
// print, memory: `print` allocates on every run.
#pragma once

#include <string>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// Returns x. Each time x is computed, prints "label: dtype(shape): first elements" to standard error; on a
/// device to standard output, the next time the host waits for the device. Kept in a captured step even if
/// nothing reads the result.
Tensor print(const Tensor& x, const std::string& label);
/// Returns x, and throws kNotANumber if x holds NaN or infinity when it is computed; the error names `label`,
/// the first such index and their count. A device kernel can't throw: there it prints the same line to
/// standard output and traps, and later calls throw kDeviceLost. Throws kDtypeMismatch unless x is floating.
/// Kept in a captured step even if nothing reads the result.
Tensor check_numerics(const Tensor& x, const std::string& label);

}  // namespace isochron
