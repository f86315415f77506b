// Softmax and normalisation over rows on a device.
#include <bit>

#include "isochron/ops/cuda/element_source.h"
#include "isochron/ops/cuda/index_text.h"
#include "isochron/ops/cuda/kernels.h"
#include "isochron/ops/cuda/launches.h"
#include "isochron/ops/cuda/texts.h"

namespace isochron::ops {
namespace {

using graph::ElementOp;
using graph::ElementProgram;
using graph::KernelRequest;
using graph::ReduceKind;

constexpr unsigned kRowThreads = 256;  // as in rows_text.h
constexpr int64_t kMostRows = (int64_t{1} << 31) - 1;
constexpr int64_t kMostColumns = (int64_t{1} << 32) - 1;

/// The parameters of a function, one for each input and output and the workspace. Null dtypes are those of
/// the call.
std::string parameters_text(const KernelRequest& request) {
  std::string text;
  for (size_t i = 0; i < request.inputs.size(); ++i)
    text += fmt::format("const {}* in{}, ", stored_type(request.inputs[i].dtype), i);
  for (size_t o = 0; o < request.outputs.size(); ++o)
    text += fmt::format("{}* out{}, ", stored_type(request.outputs[o].dtype), o);
  return text + "void* workspace";
}

/// A block a row of the first input; `call`, with {n} for the row's length and {at} for the offset of its
/// first element, is what it does.
std::unique_ptr<LaunchKernel> row_kernel(const KernelRequest& request, std::string_view call) {
  cuda::KernelModule& module = *request.module;
  auto kernel = std::make_unique<LaunchKernel>(request, 0);
  const int64_t columns = request.inputs[0].shape.back();
  const int64_t rows = request.inputs[0].shape.elems() / columns;
  if (rows == 0) return kernel;
  require(rows <= kMostRows && columns <= kMostColumns, ErrorCode::kUnsupported, request.op.name,
          "{} has too many rows or columns for one launch", request.inputs[0].str());
  const std::string name = module.unique_name(request.op.name);
  module.add_shared(element_prelude());
  module.add_shared(std::string(texts::kRows));
  module.add(
      fmt::format("extern \"C\" __global__ void {}({}) {{  // threads meet\n  const unsigned row = "
                  "blockIdx.x;\n  {}\n}}\n",
                  name, parameters_text(request),
                  fmt::format(fmt::runtime(call), fmt::arg("n", fmt::format("{}u", columns)),
                              fmt::arg("at", fmt::format("row * {}ull", columns)),
                              fmt::arg("T", stored_type(request.inputs[0].dtype)))));
  kernel->add(name, {.grid = {static_cast<unsigned>(rows), 1, 1}, .block = {kRowThreads, 1, 1}});
  return kernel;
}

/// The launches of an element program whose operands and outputs are the call's at these places.
void add_program(LaunchKernel& kernel, const KernelRequest& request, const ElementProgram& program,
                 const std::vector<Slot>& operands, const std::vector<Slot>& outputs) {
  cuda::KernelModule& module = *request.module;
  const ElementSource source =
      element_source(program, module.unique_name(request.op.name), module.device().multiprocessors);
  module.add_shared(element_prelude());
  module.add(source.text);
  std::vector<Slot> slots = operands;
  slots.insert(slots.end(), outputs.begin(), outputs.end());
  slots.push_back({Slot::kWorkspace, 0});
  kernel.need_workspace(source.workspace_bytes);
  for (const ElementLaunch& launch : source.launches)
    kernel.add(launch.function, {.grid = {launch.grid[0], launch.grid[1], 1}, .block = {launch.block, 1, 1}},
               slots);
}

/// (rows, columns) of a tensor whose last axis are the columns.
Shape as_rows(const Shape& shape) {
  const int64_t columns = shape.back();
  return {columns == 0 ? 0 : shape.elems() / columns, columns};
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_softmax_cuda(const KernelRequest& request) {
  return row_kernel(request, "softmax_row(in0 + {at}, out0 + {at}, {n});");
}
std::unique_ptr<graph::Kernel> prepare_log_softmax_cuda(const KernelRequest& request) {
  return row_kernel(request, "log_softmax_row(in0 + {at}, out0 + {at}, {n});");
}
std::unique_ptr<graph::Kernel> prepare_cross_entropy_cuda(const KernelRequest& request) {
  return row_kernel(request, "cross_entropy_row(in0 + {at}, in1[row], out0 + row, {n});");
}
std::unique_ptr<graph::Kernel> prepare_cross_entropy_gradient_cuda(const KernelRequest& request) {
  return row_kernel(request, "cross_entropy_gradient_row(in0 + {at}, in1[row], in2[row], out0 + {at}, {n});");
}

std::unique_ptr<graph::Kernel> prepare_layer_norm_cuda(const KernelRequest& request) {
  const std::string epsilon = fmt::format("{{T}}(double_of({:#x}ull))",
                                          std::bit_cast<uint64_t>(request.attributes.get<double>("epsilon")));
  return row_kernel(
      request,
      fmt::format("layer_norm_row<{{T}}, {}>(in0 + {{at}}, {}, {}, out0 + {{at}}, out1 ? out1 + row : out1, "
                  "out2 ? out2 + row : out2, {{n}}, {});",
                  request.attributes.get<bool>("centered"), request.inputs.size() > 1 ? "in1" : "nullptr",
                  request.inputs.size() > 2 ? "in2" : "nullptr", epsilon));
}

std::unique_ptr<graph::Kernel> prepare_layer_norm_gradient_cuda(const KernelRequest& request) {
  const bool centered = request.attributes.get<bool>("centered");
  const bool weighted = request.inputs.size() > 4;
  auto kernel = std::make_unique<LaunchKernel>(request, 0);
  const DType dtype = request.inputs[0].dtype;
  const Shape shape = as_rows(request.inputs[0].shape);
  const auto read = [&](size_t output) { return request.unread.empty() || !request.unread[output]; };
  if (weighted && shape[0] > 0 && (read(1) || read(2))) {
    // Sums over the rows, before dx may overwrite what they read.
    const Shape column{shape[0], 1};
    ElementProgram program;
    program.shape = shape;
    program.operands = {{{dtype, shape}}, {{dtype, column}}, {{dtype, column}}, {{dtype, shape}}};
    program.code = {{ElementOp::kSub, dtype, {0, 1}}};
    const uint8_t centred = centered ? 4 : 0;
    program.code.push_back({ElementOp::kMul, dtype, {centred, 2}});
    program.code.push_back({ElementOp::kMul, dtype, {5, 3}});
    std::vector<Slot> outputs;
    if (read(1)) {
      program.outputs.push_back({6, true, ReduceKind::kSum, {0}});
      outputs.push_back({Slot::kOutput, 1});
    }
    if (read(2)) {
      program.outputs.push_back({3, true, ReduceKind::kSum, {0}});
      outputs.push_back({Slot::kOutput, 2});
    }
    add_program(*kernel, request, program,
                {{Slot::kInput, 0}, {Slot::kInput, 1}, {Slot::kInput, 2}, {Slot::kInput, 3}}, outputs);
  }
  const auto rows = row_kernel(
      request,
      fmt::format("layer_norm_gradient_row<{{T}}, {}>(in0 + {{at}}, in1[row], in2[row], in3 + {{at}}, {}, "
                  "out0 + {{at}}, {{n}});",
                  centered, weighted ? "in4" : "nullptr"));
  kernel->add_all(*rows);
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_channel_moments_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request, 0);
  const DType dtype = request.inputs[0].dtype;
  const Shape shape = as_rows(request.inputs[0].shape), channels{shape[1]};
  ElementProgram mean;
  mean.shape = shape;
  mean.operands = {{{dtype, shape}}};
  mean.outputs = {{0, true, ReduceKind::kMean, {0}}};
  add_program(*kernel, request, mean, {{Slot::kInput, 0}}, {{Slot::kOutput, 0}});
  ElementProgram variance;
  variance.shape = shape;
  variance.operands = {{{dtype, shape}}, {{dtype, channels}}};
  variance.code = {{ElementOp::kSub, dtype, {0, 1}}, {ElementOp::kSquare, dtype, {2}}};
  variance.outputs = {{3, true, ReduceKind::kMean, {0}}};
  add_program(*kernel, request, variance, {{Slot::kInput, 0}, {Slot::kOutput, 0}}, {{Slot::kOutput, 1}});
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_scatter_add_cuda(const KernelRequest& request) {
  cuda::KernelModule& module = *request.module;
  auto kernel = std::make_unique<LaunchKernel>(request, 0);
  const Shape& shape = request.outputs[0].shape;
  const int axis = static_cast<int>(request.attributes.get<int64_t>("axis"));
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const int64_t extent = shape[axis], count = request.inputs[1].shape.elems();
  if (shape.elems() == 0) return kernel;
  const DType dtype = request.outputs[0].dtype;
  ElementProgram zeros;
  zeros.shape = shape;
  zeros.operands = {{{dtype, Shape{}}, true, 0.0}};
  zeros.outputs = {{0}};
  add_program(*kernel, request, zeros, {}, {{Slot::kOutput, 0}});
  if (count == 0) return kernel;
  require(outer * count <= kMostRows && extent <= kMostColumns, ErrorCode::kUnsupported, request.op.name,
          "{} has too many rows for one launch", request.inputs[0].str());
  const std::string name = module.unique_name(request.op.name);
  module.add_shared(std::string(texts::kRows));
  module.add(
      fmt::format("extern \"C\" __global__ void {0}({1}) {{  // threads meet\n"
                  "  const unsigned j = blockIdx.x % {2}u, entry = blockIdx.x / {2}u;\n"
                  "  scatter_add_row<{7}>(in0 + entry * {3}ull, in1, out0 + entry * {4}ull, {2}u, {5}u, j, "
                  "{6}ull);\n}}\n",
                  name, parameters_text(request), count, count * inner, extent * inner, extent, inner,
                  computed_type(dtype)));
  kernel->add(name, {.grid = {static_cast<unsigned>(outer * count), 1, 1}, .block = {kRowThreads, 1, 1}});
  return kernel;
}

}  // namespace isochron::ops
