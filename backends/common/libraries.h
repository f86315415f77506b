// Versions of the libraries that the kernels use, for reports.
#pragma once

#include <string>

namespace isochron::ops {

/// "2.6.3".
std::string onednn_version();

}  // namespace isochron::ops
