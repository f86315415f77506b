// Convolutions on a device: by the machine's library where it has a way, else as implicit matrix products.
#include <algorithm>
#include <array>
#include <utility>

#include "isochron/backends/cuda/factories.h"
#include "isochron/backends/cuda/launches.h"
#include "isochron/backends/cuda/libraries/convolutions.h"
#include "isochron/backends/cuda/library_kernel.h"
#include "isochron/backends/cuda/texts.h"
#include "isochron/backends/cuda/texts/block_sizes.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/base/error.h"

namespace isochron::ops {
namespace {

using element::kMatmulTile;
using graph::KernelRequest;

constexpr int64_t kBlocksEach = 4;         // a multiprocessor has, so that none waits for work
constexpr int64_t kLeastPixelsEach = 128;  // that a part of the weights' sum is worth a block for
constexpr int64_t kMostParts = 64;         // of that sum

int64_t tiles_of(int64_t extent) { return (extent + kMatmulTile - 1) / kMatmulTile; }

/// A product a group: its rows and columns in tiles.
struct Tiles {
  int64_t across, each, all;
  Tiles(const ConvolutionShape& s, int64_t rows, int64_t columns)
      : across(tiles_of(columns)), each(tiles_of(rows) * across), all(each * s.groups) {}
};

std::string_view sum_type(const KernelRequest& request) {
  return request.inputs[0].dtype == DType::kF64 ? "double" : "float";
}

/// The text that begins all three: the convolution and the block's tile.
std::string opening(const KernelRequest& request, const ConvolutionShape& s, const Tiles& tiles) {
  const int64_t numbers[] = {s.batch * std::max(s.input_pixels(), s.output_pixels()),
                             s.window_elems() * std::max(s.channels, s.outputs), tiles.all};
  for (const int64_t number : numbers)
    require(number < int64_t{1} << 31, ErrorCode::kUnsupported, request.op.name,
            "{} and {} make more pixels, or products a pixel, than its kernel counts",
            request.inputs[0].str(), request.inputs[1].str());
  request.module->add_shared(std::string(backends::texts::kMatmul));
  request.module->add_shared(std::string(backends::texts::kWindow));
  request.module->add_shared(std::string(backends::texts::kConvolution));
  return fmt::format(
      "// threads meet\n  constexpr Convolution s = {{{}, {}, {}, {}, {}}};\n"
      "  const Tile tile = tile_of(blockIdx.x % {}u, {}u, {}u);\n",
      window_text(request, s), s.batch, s.channels, s.outputs, s.groups, tiles.all, tiles.each, tiles.across);
}

cuda::LaunchSize blocks_of(const KernelRequest& request, int64_t blocks) {
  return row_of_blocks(request, blocks, kMatmulTile * kMatmulTile);
}

void add_forward(LaunchKernel& kernel, const KernelRequest& request, const ConvolutionShape& s) {
  const Tiles tiles(s, s.batch * s.output_pixels(), s.group_outputs());
  if (tiles.all == 0) return;
  kernel.add(request,
             opening(request, s, tiles) +
                 fmt::format("  convolve_tile<{0}>(s, in0, in1, {1}, out0, tile);", sum_type(request),
                             request.inputs.size() == 3 ? "in2" : "static_cast<const float*>(nullptr)"),
             blocks_of(request, tiles.all));
}

void add_input_gradient(LaunchKernel& kernel, const KernelRequest& request, const ConvolutionShape& s) {
  const Tiles tiles(s, s.batch * s.input_pixels(), s.group_channels());
  if (tiles.all == 0) return;
  kernel.add(
      request,
      opening(request, s, tiles) +
          fmt::format("  convolve_input_gradient_tile<{}>(s, in0, in1, out0, tile);", sum_type(request)),
      blocks_of(request, tiles.all));
}

/// Parts of the sum over pixels, each by its blocks; then these are added in their order.
void add_weight_gradient(LaunchKernel& kernel, const KernelRequest& request, const ConvolutionShape& s) {
  const bool bias = request.outputs.size() == 2;
  const int64_t rows = s.window_elems() * s.group_channels() + (bias ? 1 : 0), elems = rows * s.outputs;
  const Tiles tiles(s, rows, s.group_outputs());
  if (tiles.all == 0) return;
  const int64_t pixels = s.batch * s.output_pixels();
  const int64_t wanted = kBlocksEach * request.module->device().multiprocessors / tiles.all;
  const int64_t parts = std::clamp<int64_t>(std::min(wanted, pixels / kLeastPixelsEach), 1, kMostParts);
  const int64_t pixels_each = (pixels + parts - 1) / parts;
  const std::string_view sum = sum_type(request);
  kernel.need_workspace(static_cast<size_t>(parts * elems) *
                        dtype_size(request.inputs[0].dtype == DType::kF64 ? DType::kF64 : DType::kF32));
  kernel.add(request,
             opening(request, s, tiles) +
                 fmt::format(
                     "  const unsigned part = blockIdx.x / {}u, begin = part * {}u;\n"
                     "  convolve_weight_gradient_tile<{}>(s, in0, in1, {}, static_cast<{}*>(workspace) + "
                     "part * {}ull, begin, begin + {}u < {}u ? begin + {}u : {}u, tile);",
                     tiles.all, pixels_each, sum, bias, sum, elems, pixels_each, pixels, pixels_each, pixels),
             blocks_of(request, parts * tiles.all), {{Slot::kInput, 0}, {Slot::kInput, 1}});
  std::vector<Slot> outputs = {{Slot::kOutput, 0}};
  if (bias) outputs.push_back({Slot::kOutput, 1});
  kernel.add_loop(
      request, elems,
      fmt::format(
          "{0} sum = 0;\n  for (int part = 0; part < {1}; ++part) sum += "
          "static_cast<const {0}*>(workspace)[part * {2}ll + i];\n  {3}put(out0 + i, sum);",
          sum, parts, elems,
          bias ? fmt::format("if (i >= {0}ll) put(out1 + (i - {0}ll), sum); else ", elems - s.outputs) : ""),
      outputs);
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

/// A call by the library, whose kernel has its outputs first and is of the images' dtype: a copy at the
/// beginning of the workspace. Behind it, where a gradient of weights pads one side of an axis more than the
/// other, lies a copy of the images with their padding: some of cuDNN's ways take both sides for alike and
/// are wrong.
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
  /// Of images, kernel and results.
  std::vector<size_t> bytes() const {
    const size_t size = dtype_size(dtype_);
    return {image_bytes(), kernel_bytes(),
            static_cast<size_t>(s_.batch * s_.output_pixels() * s_.outputs) * size};
  }

 private:
  static bool is_even(const cuda::ConvolutionSpec::Axis& axis) { return axis.before == axis.after; }
  /// The images that are convolved are those with their padding from now on.
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
  /// d kernel, and d bias.
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
  /// Elements of a kernel's output.
  int64_t rows() const { return s_.window_elems() * s_.group_channels(); }

  const ConvolutionPass pass_;
  const ConvolutionShape& s_;
  const KernelRequest& request_;
  const DType dtype_;
  const int64_t kernel_elems_;
  cuda::ConvolutionSpec spec_;
  std::vector<int64_t> before_;  // of each axis of padded images; none: they aren't
};

/// Null where the library has no way, or there is none.
std::unique_ptr<graph::Kernel> prepare_by_library(ConvolutionPass pass, const ConvolutionShape& s,
                                                  const KernelRequest& request) {
  cuda::ConvolutionLibrary* library = request.module->sources().library<cuda::ConvolutionSpec>();
  const DType dtype = request.inputs[0].dtype;
  const bool empty = s.batch == 0 || s.channels == 0 || s.outputs == 0;
  // The library's images are all of one dtype.
  const DType other =
      pass == ConvolutionPass::kWeightGradient ? request.inputs[1].dtype : request.outputs[0].dtype;
  if (library == nullptr || empty || dtype == DType::kF64 || other != dtype) return nullptr;
  ByLibrary call(pass, s, request);
  LibraryParts parts = call.parts();
  parts.call = choose_way(request, fmt::format("cudnn {}", library->version()),
                          library->ways(request.module->context(), call.spec()), call.bytes());
  return parts.call ? std::make_unique<LibraryKernel>(std::move(parts)) : nullptr;
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_convolution_cuda(ConvolutionPass pass, const ConvolutionShape& shape,
                                                        const KernelRequest& request) {
  if (std::unique_ptr<graph::Kernel> by_library = prepare_by_library(pass, shape, request)) return by_library;
  auto kernel = std::make_unique<LaunchKernel>(request);
  switch (pass) {
    case ConvolutionPass::kForward:
      add_forward(*kernel, request, shape);
      break;
    case ConvolutionPass::kInputGradient:
      add_input_gradient(*kernel, request, shape);
      break;
    case ConvolutionPass::kWeightGradient:
      add_weight_gradient(*kernel, request, shape);
      break;
  }
  return kernel;
}

}  // namespace isochron::ops
