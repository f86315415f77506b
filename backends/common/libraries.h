// Versions of the libraries under the kernels, for reports.
#pragma once

#include <string>

namespace isochron::ops {

/// "2.6.3".
std::string onednn_version();

}  // namespace isochron::ops
