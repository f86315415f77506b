// Functions of convolution; the rows that they call are in convolution_rows.cc.
#include "isochron/ops/convolution.h"

#include "isochron/graph/apply.h"
#include "isochron/ops/elementwise.h"
#include "isochron/ops/registry.h"

namespace isochron {
namespace {

/// `axes`: the spatial axes asked for; 0: any.
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

/// The convolution whose input gradient a transposed convolution is.
struct Transposed {
  Dims input;  // spatial extents of its input, which is the result
  Dims padding;
};

Dims default_output_size(std::string_view where, const Dims& extents, const Dims& window, const Dims& stride,
                         const Dims& dilation, const Dims& padding,
                         const ConvolutionTransposeOptions& options) {
  const Dims& extra = options.output_padding;
  Dims result;
  for (int i = 0; i < extents.rank(); ++i) {
    if (options.padding.is_same()) {
      result.push_back(extents[i] * stride[i]);
      continue;
    }
    require(extra.empty() || (extra[i] >= 0 && extra[i] < stride[i]), ErrorCode::kInvalidArgument, where,
            "the output padding must lie between 0 and the stride, got {} with stride {}", dims_str(extra),
            dims_str(stride));
    const int64_t reach = (window[i] - 1) * dilation[i] + 1;
    result.push_back((extents[i] - 1) * stride[i] + reach - padding[2 * i] - padding[2 * i + 1] +
                     (extra.empty() ? 0 : extra[i]));
  }
  return result;
}

Transposed transposed_of(std::string_view where, const Dims& extents, const Dims& window, const Dims& stride,
                         const Dims& dilation, const ConvolutionTransposeOptions& options) {
  const int axes = extents.rank();
  const auto require_length = [&](std::string_view what, const Dims& numbers, int expected) {
    require(numbers.rank() == expected, ErrorCode::kInvalidArgument, where, "the {} takes {} numbers, got {}",
            what, expected, dims_str(numbers));
  };
  require(!options.padding.is_causal(), ErrorCode::kInvalidArgument, where,
          "a transposed convolution has no causal padding; use valid padding and cut the end off");
  require(options.output_padding.empty() || (options.output_size.empty() && !options.padding.is_same()),
          ErrorCode::kInvalidArgument, where,
          "output_padding goes with neither output_size nor same padding; give output_size alone");
  require_length("stride", stride, axes);
  require_length("dilation", dilation, axes);
  if (!options.output_padding.empty()) require_length("output padding", options.output_padding, axes);
  if (!options.output_size.empty()) require_length("output size", options.output_size, axes);
  Transposed result;
  for (int i = 0; i < axes; ++i) {
    require(stride[i] >= 1 && dilation[i] >= 1, ErrorCode::kInvalidArgument, where,
            "stride and dilation must be at least 1, got {} and {}", dims_str(stride), dims_str(dilation));
  }
  if (!options.padding.is_same()) {  // the numbers don't depend on the extents
    result.padding = options.padding.resolve(extents, window, stride, dilation);
    require_length("padding", result.padding, 2 * axes);
  }
  result.input = options.output_size.empty()
                     ? default_output_size(where, extents, window, stride, dilation, result.padding, options)
                     : options.output_size;
  if (options.padding.is_same()) {
    result.padding = options.padding.resolve(result.input, window, stride, dilation);
  }
  for (int i = 0; i < axes; ++i) {
    const int64_t padded = result.input[i] + result.padding[2 * i] + result.padding[2 * i + 1];
    const int64_t free = padded - (window[i] - 1) * dilation[i] - 1;
    require(result.input[i] >= 1 && free >= 0 && free / stride[i] + 1 == extents[i],
            ErrorCode::kShapeMismatch, where,
            "no convolution of extents {} gives {} with window {}, stride {} and padding {}; mend the output "
            "size or the padding",
            dims_str(result.input), dims_str(extents), dims_str(window), dims_str(stride),
            dims_str(result.padding));
  }
  return result;
}

Tensor convolve_transposed(std::string_view where, int axes, const Tensor& x, const Tensor& kernel,
                           const Tensor& bias, const ConvolutionTransposeOptions& options) {
  static const graph::OpDef& op = ops::row("convolution_input_gradient");
  require_operands(where, x, kernel, axes);
  require(kernel.extent(-1) == x.extent(-1), ErrorCode::kShapeMismatch, where,
          "kernels are (spatial..., O / groups, C): {} takes {} channels, the image {} has {}",
          kernel.spec().str(), kernel.extent(-1), x.spec().str(), x.extent(-1));
  const Dims stride = ops::ones_if_empty(options.stride, x.rank() - 2);
  const Dims dilation = ops::ones_if_empty(options.dilation, x.rank() - 2);
  const Transposed of =
      transposed_of(where, ops::spatial_extents(x.shape()), window_of(kernel), stride, dilation, options);
  Dims input{x.extent(0)};
  for (const int64_t extent : of.input) input.push_back(extent);
  input.push_back(kernel.extent(-2) * options.groups);
  const Tensor y = graph::apply_one(op, {x, kernel},
                                    {{"stride", stride},
                                     {"padding", of.padding},
                                     {"dilation", dilation},
                                     {"groups", options.groups},
                                     {"input_shape", input}});
  if (!bias.defined()) return y;
  require(bias.shape() == Shape{input.back()}, ErrorCode::kShapeMismatch, where,
          "the bias must be ({}), got {}", input.back(), bias.spec().str());
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
