// The backends of this build.
#include "isochron/backends/cpu/kernels.h"
#include "isochron/backends/cuda/kernels.h"

namespace isochron::graph {
namespace {

KernelTable& kernels_of(DeviceKind device) {
  return device == DeviceKind::kCpu ? ops::cpu_kernels() : ops::cuda_kernels();
}

}  // namespace

const Backend& backend_of(DeviceKind device) { return kernels_of(device); }

void add_kernel(DeviceKind device, const KernelTable::Entry& entry) { kernels_of(device).add(entry); }

}  // namespace isochron::graph
