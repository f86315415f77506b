// Spans as NVTX ranges. Called only by core/telemetry/trace.cc.
#pragma once

#include <cstdint>

namespace isochron::internal {

/// Makes the domain "isochron" and its categories. Without NVTX, all three functions do nothing.
void nvtx_begin();
void nvtx_push(uint32_t name, int64_t value);
void nvtx_pop();

}  // namespace isochron::internal
