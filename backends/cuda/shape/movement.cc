// Ops that move elements of any dtype on a device, and ops that search for a position.
#include <algorithm>

#include "isochron/backends/common/axis_view.h"
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/ops/shape/block_view.h"

namespace isochron::ops {
namespace {

using graph::KernelRequest;

/// Like LaunchKernel::add_loop, for elements that are only moved.
template <typename... Slots>
void add_loop(LaunchKernel& kernel, const KernelRequest& request, int64_t elems, const std::string& body,
              Slots... slots) {
  kernel.add_loop(request, elems, body, slots..., moved_type);
}

/// Text for the position of the part's element `i` in the whole.
std::string place_text(const BlockView& view, const Shape& part) {
  return fmt::format("{}ll + {}", view.offset, offset_text("i", joined_axes(part, view.strides), "ll"));
}

std::unique_ptr<graph::Kernel> strided_copy(const KernelRequest& request, const BlockView& from) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const Shape& shape = request.outputs[0].shape;
  add_loop(*kernel, request, shape.elems(), fmt::format("out0[i] = in0[{}];", place_text(from, shape)));
  return kernel;
}

/// Text for `value` in its stored form.
std::string stored_text(double value, DType dtype) {
  return fmt::format("Store<{}>::of({})", storage_type(dtype), number_text(value, dtype));
}

/// Position of the first largest (or smallest) element along an axis; the first NaN wins.
std::unique_ptr<graph::Kernel> prepare_arg(const KernelRequest& request, std::string_view better) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const AxisView around(request.inputs[0].shape, axis_of(request));
  const DType dtype = request.inputs[0].dtype;
  add_loop(*kernel, request, request.outputs[0].shape.elems(),
           fmt::format("const {0}* x = reinterpret_cast<const {0}*>(in0) + i / {1}ll * {2}ll + i % {1}ll;\n"
                       "  long long place = 0;\n  {3} chosen = widen(x[0]);\n"
                       "  for (long long k = 1; k < {4}ll && chosen == chosen; ++k) {{\n"
                       "    const {3} candidate = widen(x[k * {1}ll]);\n"
                       "    if (candidate {5} chosen || candidate != candidate) {{\n"
                       "      chosen = candidate;\n      place = k;\n    }}\n  }}\n"
                       "  out0[i] = static_cast<unsigned long long>(place);",
                       storage_type(dtype), around.inner, around.extent * around.inner, computed_type(dtype),
                       around.extent, better));
  return kernel;
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_transpose_cuda(const KernelRequest& request) {
  const Dims& permutation = request.attributes.get<Dims>("permutation");
  const Strides source = contiguous_strides(request.inputs[0].shape);
  BlockView view{source};
  for (int i = 0; i < source.rank(); ++i) view.strides[i] = source[static_cast<int>(permutation[i])];
  return strided_copy(request, view);
}

std::unique_ptr<graph::Kernel> prepare_slice_cuda(const KernelRequest& request) {
  return strided_copy(request,
                      block_view(request.attributes, request.outputs[0].shape, request.inputs[0].shape));
}

std::unique_ptr<graph::Kernel> prepare_pad_cuda(const KernelRequest& request) {
  const Shape& part = request.inputs[0].shape;
  const TensorSpec& whole = request.outputs[0];
  auto kernel = std::make_unique<LaunchKernel>(request);
  add_loop(*kernel, request, whole.shape.elems(),
           fmt::format("reinterpret_cast<{}*>(out0)[i] = {};", storage_type(whole.dtype),
                       stored_text(request.attributes.get<double>("value"), whole.dtype)));
  const BlockView view = block_view(request.attributes, part, whole.shape);
  add_loop(*kernel, request, part.elems(), fmt::format("out0[{}] = in0[i];", place_text(view, part)));
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_concatenate_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const int axis = axis_of(request);
  const AxisView out(request.outputs[0].shape, axis);
  int64_t start = 0;
  for (size_t k = 0; k < request.inputs.size(); ++k) {
    const Shape& shape = request.inputs[k].shape;
    const int64_t run = shape[axis] * out.inner;
    add_loop(*kernel, request, shape.elems(),
             fmt::format("out0[i / {0}ll * {1}ll + {2}ll + i % {0}ll] = in{3}[i];", run,
                         out.extent * out.inner, start, k),
             std::vector<Slot>{{Slot::kInput, k}, {Slot::kOutput, 0}});
    start += run;
  }
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_gather_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const AxisView from(request.inputs[0].shape, axis_of(request));
  const TensorSpec& indices = request.inputs[1];
  const int64_t count = std::max<int64_t>(indices.shape.elems(), 1);
  add_loop(*kernel, request, request.outputs[0].shape.elems(),
           fmt::format(
               "const long long index = reinterpret_cast<const {0}*>(in1)[i / {1}ll % {2}ll];\n"
               "  out0[i] = in0[(i / {3}ll * {4}ll + checked_index(index, {4}u, \"gather\")) * {1}ll + i % "
               "{1}ll];",
               storage_type(indices.dtype), std::max<int64_t>(from.inner, 1), count,
               std::max<int64_t>(from.inner, 1) * count, counted(request, from.extent)));
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_stack_row_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const int64_t elems = request.outputs[0].shape.elems();
  add_loop(*kernel, request, elems,
           fmt::format("const long long index = reinterpret_cast<const long long*>(in1)[0];\n"
                       "  out0[i] = in0[checked_index(index, {}u, \"stack_row\") * {}ll + i];",
                       counted(request, request.inputs[0].shape[0]), elems));
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_one_hot_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request);
  const DType dtype = request.outputs[0].dtype;
  add_loop(
      *kernel, request, request.outputs[0].shape.elems(),
      fmt::format(
          "const long long index = reinterpret_cast<const {0}*>(in0)[i / {1}ll];\n"
          "  reinterpret_cast<{2}*>(out0)[i] = checked_index(index, {1}u, \"one_hot\") == i % {1}ll ? {3} "
          ": {4};",
          storage_type(request.inputs[0].dtype), counted(request, request.attributes.get<int64_t>("depth")),
          storage_type(dtype), stored_text(1, dtype), stored_text(0, dtype)));
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_argmax_cuda(const KernelRequest& request) {
  return prepare_arg(request, ">");
}
std::unique_ptr<graph::Kernel> prepare_argmin_cuda(const KernelRequest& request) {
  return prepare_arg(request, "<");
}

}  // namespace isochron::ops
