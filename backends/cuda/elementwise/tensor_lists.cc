// Ops on lists of tensors on a device.
#include <algorithm>

#include "isochron/backends/cuda/common/block_sizes.h"
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/core/base/error.h"

namespace isochron::ops {
namespace {

using element::kRowThreads;
using graph::ElementOp;
using graph::ElementProgram;
using graph::KernelRequest;

constexpr int64_t kFoldsEach = 16;   // elements that a thread folds before more blocks are worth it
constexpr int64_t kMaxBlocks = 256;  // of a tensor

}  // namespace

/// Each block sums a part of a tensor; then one block adds the partial sums.
std::unique_ptr<graph::Kernel> prepare_square_sum_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  request.module->add_shared(std::string(backends::texts::kRows));
  int64_t parts = 0;
  for (size_t t = 0; t < request.inputs.size(); ++t) {
    const int64_t elems = request.inputs[t].shape.elems();
    if (elems == 0) continue;
    const int64_t blocks = std::clamp<int64_t>(elems / (kRowThreads * kFoldsEach), 1, kMaxBlocks);
    kernel->add(
        request,
        fmt::format("// threads meet\n  __shared__ double parts[kRowThreads];\n  double sum = 0;\n"
                    "  for (unsigned long long i = blockIdx.x * kRowThreads + threadIdx.x; i < {0}ull; "
                    "i += {1}ull) {{\n    const double x = in{2}[i];\n    sum += x * x;\n  }}\n"
                    "  sum = folded_by_block<SumOf>(parts, sum);\n"
                    "  if (threadIdx.x == 0) static_cast<double*>(workspace)[{3} + blockIdx.x] = sum;",
                    elems, blocks * kRowThreads, t, parts),
        row_of_blocks(request, blocks, kRowThreads), {{Slot::kInput, t}});
    parts += blocks;
  }
  kernel->need_workspace(static_cast<size_t>(parts) * sizeof(double));
  kernel->add(request,
              fmt::format("// threads meet\n  __shared__ double parts[kRowThreads];\n  double sum = 0;\n"
                          "  for (unsigned i = threadIdx.x; i < {}u; i += kRowThreads) sum += "
                          "static_cast<const double*>(workspace)[i];\n"
                          "  sum = folded_by_block<SumOf>(parts, sum);\n  if (threadIdx.x == 0) *out0 = sum;",
                          parts),
              row_of_blocks(request, 1, kRowThreads), {{Slot::kOutput, 0}});
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_blend_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const size_t count = request.outputs.size();
  for (size_t i = 0; i < count; ++i) {
    const TensorSpec& spec = request.outputs[i];
    const TensorSpec number{DType::kF64, {}}, zero{spec.dtype, {}};
    ElementProgram program;
    program.shape = spec.shape;
    // alpha, a, beta, b, and zeros
    program.operands = {{number}, {spec}, {number}, {spec}, {zero, true, 0.0}, {number, true, 0.0}};
    program.code = {{ElementOp::kCast, spec.dtype, {0}},         // 6
                    {ElementOp::kCast, spec.dtype, {2}},         // 7
                    {ElementOp::kMul, spec.dtype, {6, 1}},       // 8
                    {ElementOp::kEqual, DType::kBool, {0, 5}},   // 9
                    {ElementOp::kWhere, spec.dtype, {9, 4, 8}},  // 10: a is ignored if alpha is 0
                    {ElementOp::kMul, spec.dtype, {7, 3}},       // 11
                    {ElementOp::kAdd, spec.dtype, {10, 11}}};    // 12
    program.outputs = {{12}};
    kernel->add_program(program, {{Slot::kInput, 0},
                                  {Slot::kInput, 2 + i},
                                  {Slot::kInput, 1},
                                  {Slot::kInput, 2 + count + i},
                                  {Slot::kOutput, i}});
  }
  return kernel;
}

}  // namespace isochron::ops
