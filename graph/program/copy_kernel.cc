#include "isochron/graph/program/copy_kernel.h"

#include <cstring>

namespace isochron::graph {
namespace {

class CopyKernel final : public Kernel {
 public:
  explicit CopyKernel(size_t bytes) : bytes_(bytes) {}
  void run(const KernelArgs& args) override {
    if (bytes_ > 0 && args.outputs[0] != args.inputs[0])
      std::memmove(args.outputs[0], args.inputs[0], bytes_);
  }

 private:
  size_t bytes_;
};

/// Like CopyKernel, but in a device's stream.
class DeviceCopyKernel final : public Kernel {
 public:
  DeviceCopyKernel(cuda::Context& context, size_t bytes) : context_(context), bytes_(bytes) {}
  void run(const KernelArgs& args) override {
    cuda::copy_within(context_, args.outputs[0], args.inputs[0], bytes_, args.stream);
  }

 private:
  cuda::Context& context_;
  size_t bytes_;
};

}  // namespace

std::unique_ptr<Kernel> copy_kernel(size_t bytes, cuda::Gpu* gpu) {
  if (gpu != nullptr) return std::make_unique<DeviceCopyKernel>(gpu->context(), bytes);
  return std::make_unique<CopyKernel>(bytes);
}

}  // namespace isochron::graph
