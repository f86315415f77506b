// Ops that move elements of any dtype on a device, and those that look for a place.
#include <algorithm>

#include "isochron/ops/cuda/element_source.h"
#include "isochron/ops/cuda/index_text.h"
#include "isochron/ops/cuda/kernels.h"
#include "isochron/ops/cuda/launches.h"

namespace isochron::ops {
namespace {

using graph::KernelRequest;

constexpr int64_t kBlock = 256;
constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;

/// An unsigned type of the size.
std::string_view moved_type(DType dtype) {
  switch (dtype_size(dtype)) {
    case 1:
      return "unsigned char";
    case 2:
      return "unsigned short";
    case 4:
      return "unsigned";
    default:
      return "unsigned long long";
  }
}

/// Adds a function with the call's inputs `in0`... and outputs `out0`..., whose `body` a thread runs for each
/// element `i` of `elems`, a signed number of 64 bits.
void add_loop(LaunchKernel& kernel, const KernelRequest& request, int64_t elems, const std::string& body) {
  if (elems == 0) return;
  const int64_t blocks = (elems + kBlock - 1) / kBlock;
  require(blocks <= kMostBlocks, ErrorCode::kUnsupported, request.op.name,
          "{} elements are too many for one launch", elems);
  cuda::KernelModule& module = *request.module;
  const std::string name = module.unique_name(request.op.name);
  std::string parameters;
  for (size_t i = 0; i < request.inputs.size(); ++i)
    parameters += fmt::format("const {}* in{}, ", moved_type(request.inputs[i].dtype), i);
  for (size_t o = 0; o < request.outputs.size(); ++o)
    parameters += fmt::format("{}* out{}, ", moved_type(request.outputs[o].dtype), o);
  module.add_shared(element_prelude());
  module.add(fmt::format(
      "extern \"C\" __global__ void {0}({1}void* workspace) {{\n"
      "  const long long i = blockIdx.x * {2}ll + threadIdx.x;\n  if (i >= {3}ll) return;\n  {4}\n}}\n",
      name, parameters, kBlock, elems, body));
  kernel.add(name, {.grid = {static_cast<unsigned>(blocks), 1, 1}, .block = {kBlock, 1, 1}});
}

/// The offset of element `index` under signed strides, of either sign.
std::string signed_offset(const std::string& index, const Shape& shape, const Strides& strides,
                          int64_t offset) {
  return fmt::format("{}ll + {}", offset, offset_text(index, joined_axes(shape, strides), "ll"));
}

/// out[i] = in[offset + strides . index of i].
std::unique_ptr<graph::Kernel> strided_copy(const KernelRequest& request, const Strides& strides,
                                            int64_t offset) {
  auto kernel = std::make_unique<LaunchKernel>(request, 0);
  const Shape& shape = request.outputs[0].shape;
  add_loop(*kernel, request, shape.elems(),
           fmt::format("out0[i] = in0[{}];", signed_offset("i", shape, strides, offset)));
  return kernel;
}

/// Extents before, at and behind an axis.
struct AroundAxis {
  int64_t outer = 1, extent = 1, inner = 1;
  AroundAxis(const Shape& shape, int axis) : extent(shape[axis]) {
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
};

int axis_of(const KernelRequest& request) {
  return static_cast<int>(request.attributes.get<int64_t>("axis"));
}

std::string number_text(double value, DType dtype) {
  return fmt::format("Store<{}>::of(static_cast<{}>({:.17g}))", stored_type(dtype), computed_type(dtype),
                     value);
}

/// Position of the first largest (or smallest) element along an axis; the first NaN wins.
std::unique_ptr<graph::Kernel> prepare_arg(const KernelRequest& request, std::string_view better) {
  auto kernel = std::make_unique<LaunchKernel>(request, 0);
  const AroundAxis around(request.inputs[0].shape, axis_of(request));
  const DType dtype = request.inputs[0].dtype;
  add_loop(*kernel, request, request.outputs[0].shape.elems(),
           fmt::format("const {0}* x = reinterpret_cast<const {0}*>(in0) + i / {1}ll * {2}ll + i % {1}ll;\n"
                       "  long long place = 0;\n  {3} chosen = widen(x[0]);\n"
                       "  for (long long k = 1; k < {4}ll && chosen == chosen; ++k) {{\n"
                       "    const {3} candidate = widen(x[k * {1}ll]);\n"
                       "    if (candidate {5} chosen || candidate != candidate) {{\n"
                       "      chosen = candidate;\n      place = k;\n    }}\n  }}\n"
                       "  out0[i] = static_cast<unsigned long long>(place);",
                       stored_type(dtype), around.inner, around.extent * around.inner, computed_type(dtype),
                       around.extent, better));
  return kernel;
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_transpose_cuda(const KernelRequest& request) {
  const Dims& permutation = request.attributes.get<Dims>("permutation");
  const Strides source = contiguous_strides(request.inputs[0].shape);
  Strides strides = source;
  for (int i = 0; i < strides.rank(); ++i) strides[i] = source[static_cast<int>(permutation[i])];
  return strided_copy(request, strides, 0);
}

std::unique_ptr<graph::Kernel> prepare_slice_cuda(const KernelRequest& request) {
  const Dims& starts = request.attributes.get<Dims>("starts");
  const Dims& steps = request.attributes.get<Dims>("steps");
  Strides strides = contiguous_strides(request.inputs[0].shape);
  int64_t offset = 0;
  for (int i = 0; i < strides.rank(); ++i) {
    offset += starts[i] * strides[i];
    strides[i] =
        request.outputs[0].shape[i] > 1 ? strides[i] * steps[i] : 0;  // a huge step takes one element
  }
  return strided_copy(request, strides, offset);
}

std::unique_ptr<graph::Kernel> prepare_pad_cuda(const KernelRequest& request) {
  const Dims& starts = request.attributes.get<Dims>("starts");
  const Dims& steps = request.attributes.get<Dims>("steps");
  const Shape& part = request.inputs[0].shape;
  const TensorSpec& whole = request.outputs[0];
  auto kernel = std::make_unique<LaunchKernel>(request, 0);
  add_loop(*kernel, request, whole.shape.elems(),
           fmt::format("reinterpret_cast<{}*>(out0)[i] = {};", stored_type(whole.dtype),
                       number_text(request.attributes.get<double>("value"), whole.dtype)));
  Strides strides = contiguous_strides(whole.shape);
  int64_t offset = 0;
  for (int i = 0; i < strides.rank(); ++i) {
    offset += part[i] > 0 ? starts[i] * strides[i] : 0;
    strides[i] = part[i] > 1 ? strides[i] * steps[i] : 0;
  }
  add_loop(*kernel, request, part.elems(),
           fmt::format("out0[{}] = in0[i];", signed_offset("i", part, strides, offset)));
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_concatenate_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request, 0);
  const int axis = axis_of(request);
  const AroundAxis out(request.outputs[0].shape, axis);
  int64_t start = 0;
  for (size_t k = 0; k < request.inputs.size(); ++k) {
    const Shape& shape = request.inputs[k].shape;
    const int64_t run = shape[axis] * out.inner;
    add_loop(*kernel, request, shape.elems(),
             fmt::format("out0[i / {0}ll * {1}ll + {2}ll + i % {0}ll] = in{3}[i];", run,
                         out.extent * out.inner, start, k));
    start += run;
  }
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_gather_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request, 0);
  const AroundAxis from(request.inputs[0].shape, axis_of(request));
  const TensorSpec& indices = request.inputs[1];
  const int64_t count = std::max<int64_t>(indices.shape.elems(), 1);
  add_loop(*kernel, request, request.outputs[0].shape.elems(),
           fmt::format(
               "const long long index = reinterpret_cast<const {0}*>(in1)[i / {1}ll % {2}ll];\n"
               "  out0[i] = in0[(i / {3}ll * {4}ll + checked_index(index, {4}u, \"gather\")) * {1}ll + i % "
               "{1}ll];",
               stored_type(indices.dtype), std::max<int64_t>(from.inner, 1), count,
               std::max<int64_t>(from.inner, 1) * count, from.extent));
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_one_hot_cuda(const KernelRequest& request) {
  auto kernel = std::make_unique<LaunchKernel>(request, 0);
  const DType dtype = request.outputs[0].dtype;
  add_loop(
      *kernel, request, request.outputs[0].shape.elems(),
      fmt::format(
          "const long long index = reinterpret_cast<const {0}*>(in0)[i / {1}ll];\n"
          "  reinterpret_cast<{2}*>(out0)[i] = checked_index(index, {1}u, \"one_hot\") == i % {1}ll ? {3} "
          ": {4};",
          stored_type(request.inputs[0].dtype), request.attributes.get<int64_t>("depth"), stored_type(dtype),
          number_text(1, dtype), number_text(0, dtype)));
  return kernel;
}

std::unique_ptr<graph::Kernel> prepare_argmax_cuda(const KernelRequest& request) {
  return prepare_arg(request, ">");
}
std::unique_ptr<graph::Kernel> prepare_argmin_cuda(const KernelRequest& request) {
  return prepare_arg(request, "<");
}

}  // namespace isochron::ops
