// The public functions of convolution; the ops that they call are in convolution_rows.cc.
#include "isochron/ops/convolution/convolution.h"

#include "isochron/core/base/checked.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/ops/convolution/window.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/registry.h"

namespace isochron {
namespace {

/// `axes`: the required number of spatial axes; 0: any.
void require_operands(std::string_view where, const Tensor& x, const Tensor& kernel, int axes) {
  require(x.defined() && kernel.defined(), ErrorCode::kInvalidArgument, where, "an operand is undefined");
  ops::require_image(where, x.shape(), axes);
  require(kernel.rank() == x.rank(), ErrorCode::kShapeMismatch, where,
          "the kernel of images {} has {} axes, got {}", x.spec().str(), x.rank(), kernel.spec().str());
}

Dims window_of(const Tensor& kernel) {
  return Dims(kernel.shape().span().first(static_cast<size_t>(kernel.rank() - 2)));
}

Tensor convolve(std::string_view where, int axes, const Tensor& x, const Tensor& kernel, const Tensor& bias,
                const ConvolutionOptions& options) {
  static const graph::OpDef& op = ops::row("convolution");
  require_operands(where, x, kernel, axes);
  const Dims stride = ops::ones_if_empty(options.stride, x.rank() - 2);
  const Dims dilation = ops::ones_if_empty(options.dilation, x.rank() - 2);
  graph::Attributes attributes{{"stride", stride},
                               {"padding", options.padding.resolve(ops::spatial_extents(x.shape()),
                                                                   window_of(kernel), stride, dilation)},
                               {"dilation", dilation},
                               {"groups", options.groups}};
  if (!bias.defined()) return graph::apply_one(op, {x, kernel}, std::move(attributes));
  return graph::apply_one(op, {x, kernel, bias}, std::move(attributes));
}

void require_consistent(std::string_view where, int axes, const ConvolutionTransposeOptions& options) {
  const auto require_numbers = [&](std::string_view what, const Dims& numbers, int64_t least) {
    bool good = numbers.empty() || numbers.rank() == axes;
    for (const int64_t number : numbers) good = good && number >= least && number < kMaxWindowNumber;
    require(good, ErrorCode::kInvalidArgument, where,
            "the {} takes {} numbers, one per spatial axis, of at least {}, got {}", what, axes, least,
            dims_str(numbers));
  };
  require_numbers("stride", options.stride, 1);
  for (const int64_t stride : options.stride) {
    require(stride <= kMaxWindowReach, ErrorCode::kUnsupported, where,
            "the stride puts the image's elements {} apart in the result; at most {} are supported, use a "
            "smaller stride",
            stride, kMaxWindowReach);
  }
  require_numbers("dilation", options.dilation, 1);
  require_numbers("output padding", options.output_padding, 0);
  require_numbers("output size", options.output_size, 1);
  require(!options.padding.is_causal(), ErrorCode::kInvalidArgument, where,
          "a transposed convolution has no causal padding; use valid padding and cut the end off");
  require(options.output_padding.empty() || (options.output_size.empty() && !options.padding.is_same()),
          ErrorCode::kInvalidArgument, where,
          "output_padding goes with neither output_size nor same padding; give output_size alone");
  for (int i = 0; i < options.output_padding.rank(); ++i) {
    const int64_t stride = options.stride.empty() ? 1 : options.stride[i];
    require(options.output_padding[i] < stride, ErrorCode::kInvalidArgument, where,
            "the output padding must be smaller than the stride, got {} with stride {}",
            dims_str(options.output_padding), dims_str(options.stride));
  }
}

/// The convolution whose input gradient is the transposed convolution.
struct Transposed {
  Dims input;  // input shape, i.e. shape of the transposed result
  Dims stride;
  Dims dilation;
  Dims padding;
};

Transposed transposed_of(std::string_view where, const Tensor& x, const Tensor& kernel,
                         const ConvolutionTransposeOptions& options) {
  const int axes = x.rank() - 2;
  require_consistent(where, axes, options);
  const Dims window = window_of(kernel);
  const Dims extents = ops::spatial_extents(x.shape());
  const bool same = options.padding.is_same();
  Transposed result{{x.extent(0)},
                    ops::ones_if_empty(options.stride, axes),
                    ops::ones_if_empty(options.dilation, axes),
                    {}};
  if (!same) {  // padding is independent of the extents
    result.padding = options.padding.resolve(extents, window, result.stride, result.dilation);
    bool good = result.padding.rank() == 2 * axes;
    for (const int64_t number : result.padding) good = good && number >= 0 && number < kMaxWindowNumber;
    require(good, ErrorCode::kInvalidArgument, where, "the padding takes {} numbers of at least 0, got {}",
            2 * axes, dims_str(result.padding));
  }
  for (int i = 0; i < axes; ++i) {
    int64_t extent = checked_mul(extents[i], result.stride[i], where);
    if (!options.output_size.empty()) {
      extent = options.output_size[i];
    } else if (!same) {
      const int64_t around = result.padding[2 * i] + result.padding[2 * i + 1];
      const int64_t extra = options.output_padding.empty() ? 0 : options.output_padding[i];
      extent = checked_add(
          extent, (window[i] - 1) * result.dilation[i] + 1 - result.stride[i] - around + extra, where);
    }
    require(extent >= 1, ErrorCode::kShapeMismatch, where,
            "the result's extent along spatial axis {} would be {}; fix the padding", i, extent);
    result.input.push_back(extent);
  }
  result.input.push_back(kernel.extent(-2) * options.groups);
  if (same) {
    result.padding =
        options.padding.resolve(ops::spatial_extents(result.input), window, result.stride, result.dilation);
  }
  const ops::SlidingWindow found =
      ops::sliding_window(where, result.input, window, result.stride, result.dilation, result.padding);
  require(found.output_shape(x.extent(0), x.extent(-1)) == x.shape(), ErrorCode::kShapeMismatch, where,
          "no convolution of {} with window {}, stride {} and padding {} gives {}; fix the output size",
          dims_str(result.input), dims_str(window), dims_str(result.stride), dims_str(result.padding),
          x.shape().str());
  return result;
}

Tensor convolve_transposed(std::string_view where, int axes, const Tensor& x, const Tensor& kernel,
                           const Tensor& bias, const ConvolutionTransposeOptions& options) {
  static const graph::OpDef& op = ops::row("convolution_input_gradient");
  require_operands(where, x, kernel, axes);
  require(kernel.extent(-1) == x.extent(-1), ErrorCode::kShapeMismatch, where,
          "kernels are (spatial..., O / groups, C): {} takes {} channels, the image {} has {}",
          kernel.spec().str(), kernel.extent(-1), x.spec().str(), x.extent(-1));
  const Transposed of = transposed_of(where, x, kernel, options);
  const Tensor y = graph::apply_one(op, {x, kernel},
                                    {{"stride", of.stride},
                                     {"padding", of.padding},
                                     {"dilation", of.dilation},
                                     {"groups", options.groups},
                                     {"input_shape", of.input}});
  if (!bias.defined()) return y;
  const int64_t outputs = of.input.back();
  require(bias.shape() == Shape{outputs}, ErrorCode::kShapeMismatch, where, "the bias must be ({}), got {}",
          outputs, bias.spec().str());
  return y + bias;
}

}  // namespace

Tensor convolution(const Tensor& x, const Tensor& kernel, const Tensor& bias,
                   const ConvolutionOptions& options) {
  return convolve("convolution", 0, x, kernel, bias, options);
}
Tensor conv1d(const Tensor& x, const Tensor& kernel, const ConvolutionOptions& options) {
  return convolve("conv1d", 1, x, kernel, {}, options);
}
Tensor conv1d(const Tensor& x, const Tensor& kernel, const Tensor& bias, const ConvolutionOptions& options) {
  return convolve("conv1d", 1, x, kernel, bias, options);
}
Tensor conv2d(const Tensor& x, const Tensor& kernel, const ConvolutionOptions& options) {
  return convolve("conv2d", 2, x, kernel, {}, options);
}
Tensor conv2d(const Tensor& x, const Tensor& kernel, const Tensor& bias, const ConvolutionOptions& options) {
  return convolve("conv2d", 2, x, kernel, bias, options);
}
Tensor conv3d(const Tensor& x, const Tensor& kernel, const ConvolutionOptions& options) {
  return convolve("conv3d", 3, x, kernel, {}, options);
}
Tensor conv3d(const Tensor& x, const Tensor& kernel, const Tensor& bias, const ConvolutionOptions& options) {
  return convolve("conv3d", 3, x, kernel, bias, options);
}

Tensor convolution_transpose(const Tensor& x, const Tensor& kernel, const Tensor& bias,
                             const ConvolutionTransposeOptions& options) {
  return convolve_transposed("convolution_transpose", 0, x, kernel, bias, options);
}
Tensor conv1d_transpose(const Tensor& x, const Tensor& kernel, const ConvolutionTransposeOptions& options) {
  return convolve_transposed("conv1d_transpose", 1, x, kernel, {}, options);
}
Tensor conv1d_transpose(const Tensor& x, const Tensor& kernel, const Tensor& bias,
                        const ConvolutionTransposeOptions& options) {
  return convolve_transposed("conv1d_transpose", 1, x, kernel, bias, options);
}
Tensor conv2d_transpose(const Tensor& x, const Tensor& kernel, const ConvolutionTransposeOptions& options) {
  return convolve_transposed("conv2d_transpose", 2, x, kernel, {}, options);
}
Tensor conv2d_transpose(const Tensor& x, const Tensor& kernel, const Tensor& bias,
                        const ConvolutionTransposeOptions& options) {
  return convolve_transposed("conv2d_transpose", 2, x, kernel, bias, options);
}
Tensor conv3d_transpose(const Tensor& x, const Tensor& kernel, const ConvolutionTransposeOptions& options) {
  return convolve_transposed("conv3d_transpose", 3, x, kernel, {}, options);
}
Tensor conv3d_transpose(const Tensor& x, const Tensor& kernel, const Tensor& bias,
                        const ConvolutionTransposeOptions& options) {
  return convolve_transposed("conv3d_transpose", 3, x, kernel, bias, options);
}

}  // namespace isochron
