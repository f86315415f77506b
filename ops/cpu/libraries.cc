#include "isochron/ops/libraries.h"

#include <dnnl.h>
#include <fmt/format.h>
#include <hwy/targets.h>

namespace isochron::ops {

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::string vector_target() {
  const int64_t targets = static_cast<int64_t>(hwy::SupportedTargets());
  const int64_t best = targets & -targets;  // lower bits are better targets
  return hwy::TargetName(best);
}

}  // namespace isochron::ops
