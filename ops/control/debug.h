// Ops to look into a computation with, eager or in the middle of a captured step. They cost time and, when
// they speak, memory: print allocates on every run.
#pragma once

#include <string>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// x itself; each time it is computed, "label: dtype(shape): first elements" goes to standard error; on a
/// device to standard output, when the host next waits for it. Kept in a captured step though nobody reads
/// the result.
Tensor print(const Tensor& x, const std::string& label);
/// x itself; throws kNotANumber, naming label, first bad index and how many, when x (floating) holds NaN or
/// infinity at the time it is computed. On a device it doesn't throw but ends the device (kDeviceLost), with
/// a line on standard output that says the same. Kept in a captured step though nobody reads the result.
Tensor check_numerics(const Tensor& x, const std::string& label);

}  // namespace isochron
