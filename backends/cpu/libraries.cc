#include "isochron/backends/common/libraries.h"

#include <dnnl.h>
#include <fmt/format.h>

namespace isochron::ops {

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace isochron::ops
