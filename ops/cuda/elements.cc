// Element programs and reductions on a device.
#include "isochron/ops/cuda/element_source.h"
#include "isochron/ops/cuda/kernels.h"
#include "isochron/ops/cuda/launches.h"

namespace isochron::ops {
namespace {

std::unique_ptr<graph::Kernel> prepare_program(const graph::ElementProgram& program, std::string_view name,
                                               const graph::KernelRequest& request) {
  cuda::KernelModule& module = *request.module;
  const ElementSource source =
      element_source(program, module.unique_name(name), module.device().multiprocessors);
  module.add_shared(element_prelude());
  module.add(source.text);
  auto kernel = std::make_unique<LaunchKernel>(request, source.workspace_bytes);
  for (const ElementLaunch& launch : source.launches)
    kernel->add(launch.function,
                {.grid = {launch.grid[0], launch.grid[1], 1}, .block = {launch.block, 1, 1}});
  return kernel;
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_elementwise_cuda(const graph::KernelRequest& request) {
  return prepare_program(graph::elementwise_program(request.op.element, request.inputs, request.outputs[0]),
                         request.op.name, request);
}

std::unique_ptr<graph::Kernel> prepare_reduction_cuda(const graph::KernelRequest& request) {
  return prepare_program(
      graph::reduction_program(request.inputs[0], request.op.reduce, request.attributes.get<Dims>("axes"),
                               request.attributes.get<bool>("keep_dims")),
      request.op.name, request);
}

std::unique_ptr<graph::Kernel> prepare_fused_cuda(const graph::KernelRequest& request) {
  return prepare_program(*request.attributes.object<graph::ElementProgram>("program"), request.op.name,
                         request);
}

}  // namespace isochron::ops
