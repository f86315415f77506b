#include "isochron/core/cuda/driver.h"

#include "isochron/core/base/error.h"

namespace isochron::cuda {

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

void require_served(int driver_version) {
  require(driver_version >= kOldestDriver, ErrorCode::kUnsupported, "cuda",
          "the driver supports CUDA {}, but {} is needed; install a newer driver",
          version_text(driver_version), version_text(kOldestDriver));
}

void require_served(int driver_version, const DeviceProperties& device) {
  require_served(driver_version);
  require(10 * device.major + device.minor >= kOldestDevice, ErrorCode::kUnsupported, "cuda",
          "{} has compute capability {}.{}, but {}.{} is needed; compute on the CPU (--device cpu)",
          device.name, device.major, device.minor, kOldestDevice / 10, kOldestDevice % 10);
  require(device.virtual_memory && device.memory_pools, ErrorCode::kUnsupported, "cuda",
          "{} offers no {}, which the arena needs; compute on the CPU (--device cpu)", device.name,
          device.virtual_memory ? "memory pools" : "virtual memory");
}

GraphExec capture_graph(Context& context, Stream stream, const std::function<void()>& enqueue,
                        GraphCounts* counts) {
  context.begin_capture(stream);
  try {
    enqueue();
  } catch (...) {
    try {
      context.destroy(context.end_capture(stream));
    } catch (const Error&) {  // less informative than the original error
    }
    throw;
  }
  const Graph graph = context.end_capture(stream);
  GraphExec executable = GraphExec::kNone;
  try {
    if (counts != nullptr) *counts = context.counts(graph);
    executable = context.instantiate(graph);
  } catch (...) {
    context.destroy(graph);
    throw;
  }
  context.destroy(graph);
  return executable;
}

#ifndef ISOCHRON_CUDA
bool built_with_cuda() { return false; }

Driver& machine_driver() {
  fail(ErrorCode::kUnsupported, "cuda",
       "this was built without CUDA; configure with -DISOCHRON_CUDA=ON where the toolkit is installed");
}
#endif

}  // namespace isochron::cuda
