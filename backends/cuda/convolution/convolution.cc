// Convolutions on a device: by the machine's library or as implicit matrix products (implicit GEMM) in tiles,
// whichever is faster.
#include <algorithm>
#include <array>
#include <utility>

#include "isochron/backends/common/fused_product.h"
#include "isochron/backends/cuda/common/element_source.h"
#include "isochron/backends/cuda/common/launches.h"
#include "isochron/backends/cuda/common/texts.h"
#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/libraries/convolutions.h"
#include "isochron/backends/cuda/libraries/library_kernel.h"
#include "isochron/backends/cuda/matmul/product_tiles.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/base/error.h"
#include "isochron/ops/matmul/fused_product.h"

namespace isochron::ops {
namespace {

using graph::KernelRequest;

/// Whether tiles can compute the call: 32 bits must be enough to count the pixels of all images and the
/// products of a pixel.
bool tiles_count(const ConvolutionShape& s) {
  return std::max(s.batch * std::max(s.input_pixels(), s.output_pixels()),
                  s.window_elems() * std::max(s.channels, s.outputs)) < int64_t{1} << 31;
}

/// A convolution, or one of its gradients, as one product per group.
class ByTiles {
 public:
  ByTiles(const KernelRequest& request, const ConvolutionShape& s, const ProductExtents& extents)
      : request_(request),
        s_(s),
        tiles_(extents, request),
        sum_(request.inputs[0].dtype == DType::kF64 ? "double" : "float") {
    require(tiles_count(s), ErrorCode::kUnsupported, request.op.name,
            "{} and {} make more pixels, or products a pixel, than its kernel counts",
            request.inputs[0].str(), request.inputs[1].str());
  }

  /// A kernel that calls `function` of convolution_text.h for `elems` elements, which the text `result`
  /// stores. `bias`: a template argument of `function`, or empty.
  Candidate kernel(std::string_view function, int64_t elems, std::string_view result,
                   std::string_view bias = "") const {
    auto kernel = std::make_unique<LaunchKernel>(request_);
    request_.module->add_shared(std::string(backends::texts::kMatmul));
    request_.module->add_shared(std::string(backends::texts::kWindow));
    request_.module->add_shared(std::string(backends::texts::kConvolution));
    add_product(*kernel, request_, tiles_, elems, sum_,
                fmt::format("constexpr Convolution s = {{{}, {}, {}, {}, {}}};\n  ",
                            window_text(request_, s_), s_.batch, s_.channels, s_.outputs, s_.groups),
                fmt::format("{}<{}, {}{}>(s, in0, in1, to, {});", function, sum_, tiles_.tiling(), bias,
                            tiles_.tile()),
                result);
    return {tiles_.name(), std::move(kernel)};
  }

 private:
  const KernelRequest& request_;
  const ConvolutionShape& s_;
  const ProductTiles tiles_;
  const std::string_view sum_;
};

/// The text that stores the sums of a convolution, or of its gradient with respect to the images.
std::string plain_result(ConvolutionPass pass, const ConvolutionShape& s, const KernelRequest& request) {
  const bool bias = pass == ConvolutionPass::kForward && request.inputs.size() == 3;
  return bias ? fmt::format("put(out0 + i, sum + widen(in2[i % {}u]));", s.outputs) : "put(out0 + i, sum);";
}

/// `result`: the text that stores the sums, except those of the gradients of weights and bias.
Candidate prepare_by_tiles(ConvolutionPass pass, const ConvolutionShape& s, const KernelRequest& request,
                           std::string_view result) {
  const int64_t in_pixels = s.batch * s.input_pixels(), out_pixels = s.batch * s.output_pixels();
  const int64_t window = s.window_elems();
  switch (pass) {
    case ConvolutionPass::kForward:
      return ByTiles(request, s, {out_pixels, s.group_outputs(), window * s.group_channels(), s.groups})
          .kernel("convolve_tile", out_pixels * s.outputs, result);
    case ConvolutionPass::kInputGradient:
      return ByTiles(request, s, {in_pixels, s.group_channels(), window * s.group_outputs(), s.groups})
          .kernel("convolve_input_gradient_tile", in_pixels * s.channels, result);
    case ConvolutionPass::kWeightGradient:
      break;
  }
  const bool bias = request.outputs.size() == 2;
  const int64_t rows = window * s.group_channels() + (bias ? 1 : 0), elems = rows * s.outputs;
  return ByTiles(request, s, {rows, s.group_outputs(), out_pixels, s.groups})
      .kernel("convolve_weight_gradient_tile", elems,
              bias ? fmt::format("if (i >= {0}ull) put(out1 + (i - {0}ull), sum); else put(out0 + i, sum);",
                                 elems - s.outputs)
                   : "put(out0 + i, sum);",
              bias ? ", true" : ", false");
}

cuda::ConvolutionSpec library_spec(ConvolutionPass pass, const ConvolutionShape& s, DType dtype, bool tf32) {
  using Pass = cuda::ConvolutionSpec::Pass;
  const auto axis = [](const WindowAxis& a) {
    return cuda::ConvolutionSpec::Axis{a.input, a.window, a.stride, a.dilation, a.before, a.after, a.output};
  };
  cuda::ConvolutionSpec spec;
  spec.pass = pass == ConvolutionPass::kForward         ? Pass::kForward
              : pass == ConvolutionPass::kInputGradient ? Pass::kInputGradient
                                                        : Pass::kWeightGradient;
  spec.axes = s.planar() ? 2 : 3;
  spec.axis = s.planar() ? std::array{axis(s.height), axis(s.width), cuda::ConvolutionSpec::Axis{}}
                         : std::array{axis(s.depth), axis(s.height), axis(s.width)};
  spec.batch = s.batch;
  spec.channels = s.channels;
  spec.outputs = s.outputs;
  spec.groups = s.groups;
  spec.dtype = dtype;
  spec.tf32 = tf32;
  return spec;
}

/// A call through the library. The library's kernel tensor has the outputs as its first axis and the images'
/// dtype, so the kernel is copied to the beginning of the workspace. For a weight gradient with unequal
/// padding on the two sides of an axis, a zero-padded copy of the images follows: some of cuDNN's engines
/// assume that both sides are equal and give wrong results.
class ByLibrary {
 public:
  ByLibrary(ConvolutionPass pass, const ConvolutionShape& s, const KernelRequest& request)
      : pass_(pass),
        s_(s),
        request_(request),
        dtype_(request.inputs[0].dtype),
        kernel_elems_(s.window_elems() * s.group_channels() * s.outputs),
        spec_(library_spec(pass, s, dtype_, request.module->tf32())) {
    if (pass == ConvolutionPass::kWeightGradient && !std::ranges::all_of(spec_.axis, is_even)) pad();
  }

  const cuda::ConvolutionSpec& spec() const { return spec_; }

  LibraryParts parts() {
    constexpr Slot kFirst{Slot::kInput, 0}, kSecond{Slot::kInput, 1}, kResult{Slot::kOutput, 0};
    constexpr Slot kKernel{Slot::kWorkspace, 0};
    LibraryParts parts;
    parts.tensor_bytes = padded_at() + (padded() ? align_up(image_bytes(), cuda::kDeviceAlignment) : 0);
    switch (pass_) {
      case ConvolutionPass::kForward:
        parts.tensors = {kFirst, kKernel, kResult};
        parts.before = to_workspace();
        if (request_.inputs.size() == 3) parts.after = plus_bias();
        break;
      case ConvolutionPass::kInputGradient:
        parts.tensors = {kResult, kKernel, kFirst};
        parts.before = to_workspace();
        break;
      case ConvolutionPass::kWeightGradient:
        parts.tensors = {padded() ? Slot{Slot::kWorkspace, padded_at()} : kFirst, kKernel, kSecond};
        if (padded()) parts.before = to_padded();
        parts.after = from_workspace();
        break;
    }
    return parts;
  }

  /// The sizes of images, kernel and results.
  std::vector<size_t> bytes() const {
    const size_t size = dtype_size(dtype_);
    return {image_bytes(), kernel_bytes(),
            static_cast<size_t>(s_.batch * s_.output_pixels() * s_.outputs) * size};
  }

 private:
  static bool is_even(const cuda::ConvolutionSpec::Axis& axis) { return axis.before == axis.after; }
  /// Makes the convolution use copies of the images that include the padding.
  void pad() {
    for (cuda::ConvolutionSpec::Axis& axis : spec_.axis) {
      before_.push_back(axis.before);
      axis.input += axis.before + axis.after;
      axis.before = axis.after = 0;
    }
  }
  bool padded() const { return !before_.empty(); }

  size_t kernel_bytes() const { return static_cast<size_t>(kernel_elems_) * dtype_size(dtype_); }
  size_t padded_at() const { return align_up(kernel_bytes(), cuda::kDeviceAlignment); }
  int64_t image_elems() const {
    int64_t elems = s_.batch * s_.channels;
    for (const cuda::ConvolutionSpec::Axis& axis : spec_.axis) elems *= axis.input;
    return elems;
  }
  size_t image_bytes() const { return static_cast<size_t>(image_elems()) * dtype_size(dtype_); }

  std::unique_ptr<graph::Kernel> to_padded() const {
    const cuda::ConvolutionSpec plain = library_spec(pass_, s_, dtype_, false);
    std::string text = fmt::format(
        "{0}* to = reinterpret_cast<{0}*>(static_cast<char*>(workspace) + {1}) + i;\n"
        "  long long rest = i / {2}, from = i % {2}, step = {2};\n  bool inside = true;\n",
        storage_type(dtype_), padded_at(), s_.channels);
    for (size_t a = static_cast<size_t>(spec_.axes); a-- > 0;)
      text += fmt::format(
          "  {{\n    const long long at = rest % {} - {};\n    rest /= {};\n"
          "    inside = inside && at >= 0 && at < {};\n    from += at * step;\n"
          "    step *= {};\n  }}\n",
          spec_.axis[a].input, before_[a], spec_.axis[a].input, plain.axis[a].input, plain.axis[a].input);
    text += "  put(to, inside ? widen(in0[rest * step + from]) : 0);";
    auto kernel = std::make_unique<LaunchKernel>(request_);
    kernel->add_loop(request_, image_elems(), text, {{Slot::kInput, 0}});
    return kernel;
  }

  std::unique_ptr<graph::Kernel> to_workspace() const {
    auto kernel = std::make_unique<LaunchKernel>(request_);
    kernel->add_loop(
        request_, kernel_elems_,
        fmt::format("put(static_cast<{}*>(workspace) + i, widen(in1[i % {}ull * {}ull + i / {}ull]));",
                    storage_type(dtype_), rows(), s_.outputs, rows()),
        {{Slot::kInput, 1}});
    return kernel;
  }
  /// Converts the kernel's gradient from the workspace, and computes the bias' gradient.
  std::unique_ptr<graph::Kernel> from_workspace() const {
    auto kernel = std::make_unique<LaunchKernel>(request_);
    kernel->add_loop(
        request_, kernel_elems_,
        fmt::format("put(out0 + i, widen(static_cast<const {}*>(workspace)[i % {}ull * {}ull + i / {}ull]));",
                    storage_type(dtype_), s_.outputs, rows(), s_.outputs),
        {{Slot::kOutput, 0}});
    if (request_.outputs.size() < 2) return kernel;
    kernel->add_row_sums({s_.batch * s_.output_pixels(), s_.outputs}, request_.inputs[1].dtype,
                         request_.outputs[1].dtype, {{Slot::kInput, 1}, {Slot::kOutput, 1}});
    return kernel;
  }
  std::unique_ptr<graph::Kernel> plus_bias() const {
    auto kernel = std::make_unique<LaunchKernel>(request_);
    kernel->add_loop(request_, request_.outputs[0].shape.elems(),
                     fmt::format("put(out0 + i, widen(out0[i]) + widen(in2[i % {}u]));", s_.outputs),
                     {{Slot::kInput, 2}, {Slot::kOutput, 0}});
    return kernel;
  }
  /// The number of kernel elements per output channel.
  int64_t rows() const { return s_.window_elems() * s_.group_channels(); }

  const ConvolutionPass pass_;
  const ConvolutionShape& s_;
  const KernelRequest& request_;
  const DType dtype_;
  const int64_t kernel_elems_;
  cuda::ConvolutionSpec spec_;
  std::vector<int64_t> before_;  // padding before each axis, for padded images; otherwise empty
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_convolution_cuda(ConvolutionPass pass, const ConvolutionShape& s,
                                                        const KernelRequest& request) {
  cuda::ConvolutionLibrary* library = request.module->sources().library<cuda::ConvolutionSpec>();
  const DType dtype = request.inputs[0].dtype;
  const bool empty = s.batch == 0 || s.channels == 0 || s.outputs == 0;
  // The library's images are all of one dtype.
  const DType other =
      pass == ConvolutionPass::kWeightGradient ? request.inputs[1].dtype : request.outputs[0].dtype;
  if (library == nullptr || empty || dtype == DType::kF64 || other != dtype)
    return prepare_by_tiles(pass, s, request, plain_result(pass, s, request)).kernel;
  // In f32, the library's bitwise reproducible algorithms for sums over all pixels are slow.
  const bool first =
      pass == ConvolutionPass::kWeightGradient && dtype == DType::kF32 && !request.module->tf32();
  const bool tiles = tiles_count(s) && (first || worth_trying(request));
  ByLibrary call(pass, s, request);
  cuda::LibraryAlgorithms algorithms = library->algorithms(request.module->context(), call.spec());
  if (!tiles) algorithms = working_algorithms(*request.module, std::move(algorithms), call.bytes());
  std::vector<Candidate> candidates = candidates_of(std::move(algorithms), call.parts());
  if (tiles || candidates.empty())
    candidates.insert(first ? candidates.begin() : candidates.end(),
                      prepare_by_tiles(pass, s, request, plain_result(pass, s, request)));
  return choose_kernel(request, "cudnn", library, std::move(candidates));
}

std::unique_ptr<graph::Kernel> prepare_fused_convolution_cuda(ConvolutionPass pass, const ConvolutionShape& s,
                                                              const KernelRequest& request,
                                                              const FusedProduct& fused) {
  cuda::ConvolutionLibrary* library = request.module->sources().library<cuda::ConvolutionSpec>();
  const bool in_two = library != nullptr || !tiles_count(s);
  std::vector<Candidate> candidates(in_two ? 1 : 0);
  if (in_two) candidates[0] = {"a convolution, then the rest", prepare_product_then_program(request)};
  if (!in_two || (tiles_count(s) && worth_trying(request)))
    candidates.push_back(
        prepare_by_tiles(pass, s, request, element_statements(*fused.program, kProductFactors)));
  return choose_kernel(request, "cudnn", library, std::move(candidates));
}

}  // namespace isochron::ops
