// Lets a device kernel use another op's kernel.
#pragma once

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "isochron/graph/ir/half_storage.h"
#include "isochron/ops/rows/registry.h"

namespace isochron::ops {

/// Another op's kernel, called with addresses.
class InnerKernel {
 public:
  InnerKernel(const graph::KernelRequest& outer, const char* op, const std::vector<TensorSpec>& inputs,
              const TensorSpec& output, const graph::Attributes& attributes)
      : kernel_(graph::prepare_kernel(
            {row(op), inputs, {&output, 1}, attributes, outer.threads, {}, outer.module})) {}
  explicit InnerKernel(std::unique_ptr<graph::Kernel> kernel) : kernel_(std::move(kernel)) {}

  size_t workspace_bytes() const { return kernel_->workspace_bytes(); }
  void run(std::array<std::byte*, 2> inputs, std::byte* output, std::byte* workspace, cuda::Stream stream) {
    const graph::KernelArgs args{inputs.data(), &output, workspace, stream};
    kernel_->bind(args);
    kernel_->run(args);
  }

 private:
  std::unique_ptr<graph::Kernel> kernel_;
};

}  // namespace isochron::ops
