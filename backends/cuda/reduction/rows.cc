// Device kernels in which each block processes rows.
#include <algorithm>
#include <cmath>

#include "isochron/backends/common/axis_view.h"
#include "isochron/backends/cuda/common/block_sizes.h"
#include "isochron/backends/cuda/common/element_source.h"
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/core/base/error.h"

namespace isochron::ops {
namespace {

using graph::ElementOp;
using graph::ElementProgram;
using graph::KernelRequest;
using graph::ReduceKind;

using element::kColumnsEach;
using element::kRowThreads;

/// Adds a function with one block for each row of the first input. `call`: the work of a block, with {n} for
/// the row's length, {at} for the offset of the row's first element and {T} for the type that is computed
/// with.
void add_rows(LaunchKernel& kernel, const KernelRequest& request, std::string_view call) {
  const TensorSpec& x = request.inputs[0];
  const int64_t columns = x.shape.back();
  if (x.shape.elems() == 0) return;
  request.module->add_shared(std::string(backends::texts::kRows));
  kernel.add(request,
             fmt::format(
                 "// threads meet\n  const unsigned row = blockIdx.x;\n  {}",
                 fmt::format(fmt::runtime(call), fmt::arg("n", fmt::format("{}u", counted(request, columns))),
                             fmt::arg("at", fmt::format("row * {}ull", columns)),
                             fmt::arg("T", computed_type(x.dtype)))),
             row_of_blocks(request, x.shape.elems() / columns, kRowThreads));
}

std::unique_ptr<graph::Kernel> row_kernel(const KernelRequest& request, std::string_view call) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  add_rows(*kernel, request, call);
  return kernel;
}

/// The dtype in which a call is computed: f32 if its first input is stored in 16 bits.
DType computed_dtype(const KernelRequest& request) {
  return is_half(request.inputs[0].dtype) ? DType::kF32 : request.inputs[0].dtype;
}

/// The shape (rows, columns) of a tensor, whose last axis holds the columns.
Shape as_rows(const Shape& shape) {
  const int64_t columns = shape.back();
  return {columns == 0 ? 0 : shape.elems() / columns, columns};
}

/// The argument for the tensor that is added to a layer norm's dx.
std::string_view added_gradient(const KernelRequest& request) {
  return request.inputs.size() > 5 ? "in5" : "static_cast<const float*>(nullptr)";
}

/// The gradients of a weighted layer norm, for the case that the column sums of a block fit in shared memory.
/// Each block processes some of the rows, and a second launch combines the column sums of the blocks.
class LayerNormGradient {
 public:
  explicit LayerNormGradient(const KernelRequest& request)
      : request_(request), shape_(as_rows(request.inputs[0].shape)), dtype_(computed_dtype(request)) {}

  bool fits() const { return column_bytes() <= kMaxColumnBytes; }

  void add_to(LaunchKernel& kernel) const {
    const unsigned rows = counted(request_, shape_[0]), columns = counted(request_, shape_[1]);
    const int64_t wanted = kBlocksEach * std::max(1, request_.module->device().multiprocessors);
    const int64_t each = std::max(kMinRows, (shape_[0] + wanted - 1) / wanted);
    const int64_t blocks = (shape_[0] + each - 1) / each;
    const std::string_view type = computed_type(dtype_);
    request_.module->add_shared(std::string(backends::texts::kRows));
    kernel.add(
        request_,
        fmt::format("// threads meet\n  __shared__ {0} columns[2 * {1}u];\n"
                    "  layer_norm_gradient_rows<{0}, {2}>(in0, in1, in2, in3, in4, {5}, out0, columns, "
                    "static_cast<{0}*>(workspace), {3}u, {4}u, {1}u);",
                    type, columns, request_.attributes.get<bool>("centered"), rows, each,
                    added_gradient(request_)),
        row_of_blocks(request_, blocks, kRowThreads));
    kernel.need_workspace(static_cast<size_t>(blocks) * column_bytes());
    kernel.add(request_,
               fmt::format("// threads meet\n"
                           "  join_columns(static_cast<const {}*>(workspace), {}u, {}u, out1, out2);",
                           type, blocks, columns),
               row_of_blocks(request_, (2 * shape_[1] + kColumnsEach - 1) / kColumnsEach, kRowThreads));
  }

 private:
  static constexpr int64_t kBlocksEach = 8, kMinRows = 2;  // of a multiprocessor; of a block
  static constexpr size_t kMaxColumnBytes = 16 << 10;      // as fit in shared memory beside other blocks

  size_t column_bytes() const { return 2 * static_cast<size_t>(shape_[1]) * dtype_size(dtype_); }

  const KernelRequest& request_;
  const Shape shape_;
  const DType dtype_;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_softmax_cuda(const KernelRequest& request) {
  return row_kernel(request, "softmax_row(in0 + {at}, out0 + {at}, {n});");
}
std::unique_ptr<graph::Kernel> prepare_log_softmax_cuda(const KernelRequest& request) {
  return row_kernel(request, "log_softmax_row(in0 + {at}, out0 + {at}, {n});");
}
std::unique_ptr<graph::Kernel> prepare_log_sum_exp_cuda(const KernelRequest& request) {
  return row_kernel(request, "log_sum_exp_row(in0 + {at}, out0 + row, {n});");
}
std::unique_ptr<graph::Kernel> prepare_cross_entropy_cuda(const KernelRequest& request) {
  return row_kernel(request, "cross_entropy_row(in0 + {at}, in1[row], out0 + row, {n});");
}
std::unique_ptr<graph::Kernel> prepare_cross_entropy_gradient_cuda(const KernelRequest& request) {
  return row_kernel(request, "cross_entropy_gradient_row(in0 + {at}, in1[row], in2[row], out0 + {at}, {n});");
}

std::unique_ptr<graph::Kernel> prepare_layer_norm_cuda(const KernelRequest& request) {
  return row_kernel(
      request,
      fmt::format("layer_norm_row<{{T}}, {}>(in0 + {{at}}, {}, {}, out0 ? out0 + {{at}} : out0, out1 ? out1 "
                  "+ row : out1, "
                  "out2 ? out2 + row : out2, {{n}}, {});",
                  request.attributes.get<bool>("centered"), request.inputs.size() > 1 ? "in1" : "nullptr",
                  request.inputs.size() > 2 ? "in2" : "nullptr",
                  number_text(request.attributes.get<double>("epsilon"), computed_dtype(request))));
}

std::unique_ptr<graph::Kernel> prepare_layer_norm_gradient_cuda(const KernelRequest& request) {
  const bool centered = request.attributes.get<bool>("centered");
  const bool weighted = request.inputs.size() > 4;
  auto kernel = std::make_unique<LaunchKernel>(request);
  const DType dtype = computed_dtype(request);
  const Shape shape = as_rows(request.inputs[0].shape);
  const auto read = [&](size_t output) { return request.unread.empty() || !request.unread[output]; };
  if (weighted && shape[0] > 0 && (read(1) || read(2))) {
    if (const LayerNormGradient gradient(request); gradient.fits()) {
      gradient.add_to(*kernel);
      return kernel;
    }
    // The sums over the rows come first, because dx may overwrite their inputs.
    const Shape column{shape[0], 1};
    ElementProgram program;
    program.shape = shape;
    program.operands = {{{request.inputs[0].dtype, shape}},
                        {{dtype, column}},
                        {{dtype, column}},
                        {{request.inputs[3].dtype, shape}}};
    constexpr uint8_t kX = 4, kG = 5, kCentered = 6, kNormal = 7, kProduct = 8;
    program.code = {{ElementOp::kCast, dtype, {0}},
                    {ElementOp::kCast, dtype, {3}},
                    {ElementOp::kSub, dtype, {kX, 1}},
                    {ElementOp::kMul, dtype, {centered ? kCentered : kX, 2}},
                    {ElementOp::kMul, dtype, {kNormal, kG}}};
    std::vector<Slot> slots = {{Slot::kInput, 0}, {Slot::kInput, 1}, {Slot::kInput, 2}, {Slot::kInput, 3}};
    if (read(1)) {
      program.outputs.push_back({kProduct, true, ReduceKind::kSum, {0}});
      slots.push_back({Slot::kOutput, 1});
    }
    if (read(2)) {
      program.outputs.push_back({kG, true, ReduceKind::kSum, {0}});
      slots.push_back({Slot::kOutput, 2});
    }
    kernel->add_program(program, slots);
  }
  if (!read(0)) return kernel;
  add_rows(*kernel, request,
           fmt::format("layer_norm_gradient_row<{{T}}, {}>(in0 + {{at}}, in1[row], in2[row], in3 + {{at}}, "
                       "{}, {}{}, out0 + {{at}}, static_cast<{{T}}*>(nullptr), {{n}});",
                       centered, weighted ? "in4" : "nullptr", added_gradient(request),
                       request.inputs.size() > 5 ? " + {at}" : ""));
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_channel_moments_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const Shape shape = as_rows(request.inputs[0].shape);
  const unsigned rows = counted(request, shape[0]), columns = counted(request, shape[1]);
  if (columns == 0) return kernel;
  const ColumnBlocks blocks = column_blocks(rows, columns, request.module->device().multiprocessors);
  const DType dtype = computed_dtype(request);
  request.module->add_shared(std::string(backends::texts::kMoments));
  kernel->need_workspace(static_cast<size_t>(blocks.splits) * columns * 3 * dtype_size(dtype));
  const bool shared = blocks.splits > 1;
  kernel->add(request,
              fmt::format("// threads meet\n  column_moments<{}, {}>(in0, {}u, {}u, out0, out1, "
                          "static_cast<MomentsOf<{}>*>(workspace), {});",
                          blocks.along, computed_type(dtype), rows, columns, computed_type(dtype),
                          shared ? "arrivals + arrival" : "nullptr"),
              {.grid = {static_cast<unsigned>(blocks.across), static_cast<unsigned>(blocks.splits), 1},
               .block = {kRowThreads, 1, 1}},
              {{Slot::kInput, 0}, {Slot::kOutput, 0}, {Slot::kOutput, 1}}, storage_type,
              shared ? blocks.across : 0);
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_scatter_add_cuda(const KernelRequest& request) {
  constexpr int64_t kBlocksEach = 4;                     // of a multiprocessor
  constexpr int64_t kMin = 64, kMax = int64_t{1} << 30;  // elements of a block
  auto kernel = std::make_unique<LaunchKernel>(request);
  const TensorSpec& sums = request.outputs[0];
  if (sums.shape.elems() == 0) return kernel;
  const AxisView view(sums.shape, axis_of(request));
  const int64_t elems = view.extent * view.inner;
  const int64_t wanted = kBlocksEach * std::max(1, request.module->device().multiprocessors);
  const int64_t share = std::clamp(sums.shape.elems() / wanted, kMin, kMax);
  // Each block compares all indices with its part, and each of its elements compares all indices that point
  // into the part. More parts increase the former work, longer parts the latter.
  const int64_t balanced = 2 * static_cast<int64_t>(std::sqrt(static_cast<double>(elems)));
  const int64_t part = std::min(elems, std::max(kMin, std::min(share, balanced) / kMin * kMin));
  const int64_t parts = (elems + part - 1) / part;
  const int64_t entries = std::min(view.outer, std::max<int64_t>(1, share / part));
  request.module->add_shared(std::string(backends::texts::kRows));
  kernel->add(request,
              fmt::format("// threads meet\n  constexpr ScatterAdd s = {{{}, {}, {}, {}, {}, {}, {}}};\n"
                          "  scatter_add_part<{}>(s, in0, in1, out0);",
                          counted(request, request.inputs[1].shape.elems()), counted(request, view.extent),
                          view.outer, view.inner, part, parts, entries, computed_type(sums.dtype)),
              row_of_blocks(request, parts * ((view.outer + entries - 1) / entries), kRowThreads));
  return kernel;
}

}  // namespace isochron::ops
