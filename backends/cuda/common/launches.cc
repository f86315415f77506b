#include "isochron/backends/cuda/common/launches.h"

#include "isochron/backends/cuda/common/element_source.h"
#include "isochron/core/base/error.h"

namespace isochron::ops {

unsigned counted(const graph::KernelRequest& request, int64_t count) {
  require(count < int64_t{1} << 32, ErrorCode::kUnsupported, request.op.name,
          "{} has more rows, columns or places than its kernel counts", request.inputs[0].str());
  return static_cast<unsigned>(count);
}

cuda::LaunchSize row_of_blocks(const graph::KernelRequest& request, int64_t blocks, unsigned threads) {
  constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;
  require(blocks <= kMaxBlocks, ErrorCode::kUnsupported, request.op.name,
          "{} would take {} blocks, more than a launch has", request.outputs[0].str(), blocks);
  return {.grid = {static_cast<unsigned>(blocks), 1, 1}, .block = {threads, 1, 1}};
}

LaunchKernel::LaunchKernel(const graph::KernelRequest& request)
    : module_(*request.module), name_(request.op.name) {
  for (size_t i = 0; i < request.inputs.size(); ++i) all_.push_back({Slot::kInput, i});
  for (size_t o = 0; o < request.outputs.size(); ++o) all_.push_back({Slot::kOutput, o});
  module_.add_shared(element_prelude());
}

void LaunchKernel::add(const graph::KernelRequest& request, std::string_view body,
                       const cuda::LaunchSize& size, std::vector<Slot> slots, std::string_view (*type)(DType),
                       int64_t arrivals) {
  std::string parameters;
  for (const Slot& slot : slots) {
    const size_t i = slot.index;
    parameters += slot.kind == Slot::kInput
                      ? fmt::format("const {}* in{}, ", type(request.inputs[i].dtype), i)
                      : fmt::format("{}* out{}, ", type(request.outputs[i].dtype), i);
  }
  const std::string name = module_.add_named(
      name_, fmt::format("extern \"C\" __global__ void {}({}void* workspace{}) {{\n  {}\n}}\n",
                         cuda::KernelModule::kNamePlace, parameters, arrivals > 0 ? ", unsigned arrival" : "",
                         body));
  add_launch(name, size, std::move(slots), arrivals);
}

void LaunchKernel::add_loop(const graph::KernelRequest& request, int64_t elems, std::string_view body,
                            std::vector<Slot> slots, std::string_view (*type)(DType)) {
  constexpr unsigned kThreads = 256;
  if (elems == 0) return;
  add(request,
      fmt::format("const long long i = blockIdx.x * {}ll + threadIdx.x;\n  if (i >= {}ll) return;\n  {}",
                  kThreads, elems, body),
      row_of_blocks(request, (elems + kThreads - 1) / kThreads, kThreads), std::move(slots), type);
}

void LaunchKernel::add_program(const graph::ElementProgram& program, std::vector<Slot> slots) {
  const std::string place(1, cuda::KernelModule::kNamePlace);
  const ElementSource source = element_source(program, place, module_.device().multiprocessors);
  const std::string name = module_.add_named(name_, source.text);
  need_workspace(source.workspace_bytes);
  for (const ElementLaunch& launch : source.launches)
    add_launch(name + launch.function.substr(place.size()),
               {.grid = {launch.grid[0], launch.grid[1], 1}, .block = {launch.block, 1, 1}}, slots,
               launch.arrivals);
}

void LaunchKernel::add_row_sums(const Shape& shape, DType from, DType to, std::vector<Slot> slots) {
  graph::ElementProgram program;
  program.shape = shape;
  program.operands = {{{from, shape}}};
  program.code = {{graph::ElementOp::kCast, to, {0}}};
  program.outputs = {{1, true, graph::ReduceKind::kSum, {0}}};
  add_program(program, std::move(slots));
}

void LaunchKernel::add_launch(const std::string& function, const cuda::LaunchSize& size,
                              std::vector<Slot> slots, int64_t arrivals) {
  slots.push_back({Slot::kWorkspace, 0});
  Launch& launch = launches_.emplace_back();
  launch.function = module_.add_function(function);
  launch.size = size;
  launch.addresses.resize(slots.size());
  for (std::byte*& address : launch.addresses) launch.arguments.push_back(&address);
  if (arrivals > 0) {
    launch.arrival = std::make_unique<unsigned>(module_.add_arrivals(arrivals));
    launch.arguments.push_back(launch.arrival.get());
  }
  launch.slots = std::move(slots);
}

void LaunchKernel::run(const graph::KernelArgs& args) {
  for (Launch& launch : launches_) {
    for (size_t a = 0; a < launch.slots.size(); ++a) launch.addresses[a] = launch.slots[a].address(args);
    module_.launch(launch.function, launch.size, launch.arguments, args.stream);
  }
}

}  // namespace isochron::ops
