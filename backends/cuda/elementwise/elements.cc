// Element programs and reductions on a device.
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/factories.h"

namespace isochron::ops {
namespace {

std::unique_ptr<graph::Kernel> prepare_program(const graph::ElementProgram& program,
                                               const graph::KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  kernel->add_program(program);
  return kernel;
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_elementwise_cuda(const graph::KernelRequest& request) {
  return prepare_program(graph::elementwise_program(request.op.element, request.inputs, request.outputs[0]),
                         request);
}

std::unique_ptr<graph::Kernel> prepare_reduction_cuda(const graph::KernelRequest& request) {
  return prepare_program(
      graph::reduction_program(request.inputs[0], request.op.reduce, request.attributes.get<Dims>("axes"),
                               request.attributes.get<bool>("keep_dims")),
      request);
}

std::unique_ptr<graph::Kernel> prepare_fused_cuda(const graph::KernelRequest& request) {
  return prepare_program(*request.attributes.object<graph::ElementProgram>("program"), request);
}

}  // namespace isochron::ops
