// Versions of the libraries under the kernels, for reports.
#pragma once

#include <string>

namespace isochron::ops {

/// "2.6.3".
std::string onednn_version();
/// The instruction set that Highway's run-time dispatch chose on this machine, e.g. "AVX3".
std::string vector_target();

}  // namespace isochron::ops
