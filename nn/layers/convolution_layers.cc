#include "isochron/nn/layers/convolution_layers.h"

#include <algorithm>

#include "isochron/ops/convolution/window.h"

namespace isochron::nn {
namespace {

/// Names of a family by its number of spatial axes.
using Kinds = std::string_view[kMaxWindowAxes];
constexpr Kinds kConvolution = {"conv1d", "conv2d", "conv3d"};
constexpr Kinds kDepthwise = {"depthwise_conv1d", "depthwise_conv2d", "depthwise_conv3d"};
constexpr Kinds kTransposed = {"conv1d_transpose", "conv2d_transpose", "conv3d_transpose"};
constexpr Kinds kPool[] = {{"max_pool1d", "max_pool2d", "max_pool3d"},
                           {"average_pool1d", "average_pool2d", "average_pool3d"}};
constexpr Kinds kGlobalPool[] = {{"global_max_pool1d", "global_max_pool2d", "global_max_pool3d"},
                                 {"global_average_pool1d", "global_average_pool2d", "global_average_pool3d"}};
constexpr Kinds kAdaptivePool[] = {
    {"adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"},
    {"adaptive_average_pool1d", "adaptive_average_pool2d", "adaptive_average_pool3d"}};
constexpr Kinds kForms = {"{width}", "{height, width}", "{depth, height, width}"};

void require_window(std::string_view kind, int axes, const Dims& window) {
  bool positive = true;
  for (const int64_t extent : window) positive = positive && extent >= 1;
  require(window.rank() == axes && positive, ErrorCode::kInvalidArgument, kind,
          "the window must be {} with extents >= 1, got {}", kForms[axes - 1], dims_str(window));
}

void require_groups(std::string_view kind, int64_t filters, int64_t groups) {
  require(filters >= 1 && groups >= 1 && filters % groups == 0, ErrorCode::kInvalidArgument, kind,
          "filters and groups must be >= 1 and the groups divide the filters, got {} and {}", filters,
          groups);
}

void require_split(std::string_view kind, int64_t channels, int64_t groups) {
  require(channels % groups == 0, ErrorCode::kShapeMismatch, kind, "{} channels don't split into {} groups",
          channels, groups);
}

}  // namespace

ConvolutionLayer::ConvolutionLayer(std::string_view kind, int axes, const Dims& window, Parameters parameters)
    : kind_(kind), axes_(axes), window_(window), parameters_(std::move(parameters)) {
  require_window(kind, axes, window);
}

Tensor ConvolutionLayer::forward(const Tensor& x) {
  if (!kernel_.defined()) {
    require(is_floating(x.dtype()), ErrorCode::kDtypeMismatch, kind_,
            "the input must be floating, got {}; cast it", x.spec().str());
    ops::require_image(kind_, x.shape(), axes_);
    const auto kernel_shape = [&](const Channels& channels) {
      Dims shape = window_;
      for (const int64_t extent : channels.kernel) shape.push_back(extent);
      return Shape(shape);
    };
    const Channels channels = channels_for(x.extent(-1));
    const Shape drawn = kernel_shape(drawn_for(x.extent(-1)));
    const Initializer draw = Initializer::in_pieces(
        [&](const Shape&, Rng& rng) { return parameters_.kernel_initializer.begin(drawn, rng); });
    auto kernel = make_parameter("kernel", {x.dtype(), kernel_shape(channels)}, draw);
    if (parameters_.bias) {
      bias_ = make_parameter("bias", {x.dtype(), {channels.result}}, parameters_.bias_initializer);
    }
    kernel_ = std::move(kernel);  // last, so that a failed build is started again
  }
  const Tensor bias = bias_.defined() ? bias_.tensor() : Tensor();
  return activate(compute(x, kernel_, bias), parameters_.activation);
}

Convolution::Convolution(int axes, int64_t filters, const Dims& window, Activation activation,
                         ConvOptions options)
    : ConvolutionLayer(kConvolution[axes - 1], axes, window,
                       {activation, options.bias, options.kernel_initializer, options.bias_initializer}),
      filters_(filters),
      options_(std::move(options)) {
  require_groups(kind(), filters_, options_.groups);
}

ConvolutionLayer::Channels Convolution::channels_for(int64_t input_channels) const {
  require_split(kind(), input_channels, options_.groups);
  return {{input_channels / options_.groups, filters_}, filters_};
}

Tensor Convolution::compute(const Tensor& x, const Tensor& kernel, const Tensor& bias) const {
  return convolution(x, kernel, bias,
                     {options_.stride, options_.padding, options_.dilation, options_.groups});
}

DepthwiseConvolution::DepthwiseConvolution(int axes, const Dims& window, Activation activation,
                                           DepthwiseConvOptions options)
    : ConvolutionLayer(kDepthwise[axes - 1], axes, window,
                       {activation, options.bias, options.kernel_initializer, options.bias_initializer}),
      options_(std::move(options)) {
  require(options_.multiplier >= 1, ErrorCode::kInvalidArgument, kind(),
          "the multiplier must be >= 1, got {}", options_.multiplier);
}

ConvolutionLayer::Channels DepthwiseConvolution::channels_for(int64_t input_channels) const {
  const int64_t result = input_channels * options_.multiplier;
  return {{1, result}, result};
}

ConvolutionLayer::Channels DepthwiseConvolution::drawn_for(int64_t input_channels) const {
  return {{input_channels, options_.multiplier}, 0};
}

Tensor DepthwiseConvolution::compute(const Tensor& x, const Tensor& kernel, const Tensor& bias) const {
  const int64_t channels = kernel.shape().back() / options_.multiplier;
  return convolution(x, kernel, bias, {options_.stride, options_.padding, options_.dilation, channels});
}

ConvolutionTranspose::ConvolutionTranspose(int axes, int64_t filters, const Dims& window,
                                           Activation activation, ConvTransposeOptions options)
    : ConvolutionLayer(kTransposed[axes - 1], axes, window,
                       {activation, options.bias, options.kernel_initializer, options.bias_initializer}),
      filters_(filters),
      options_(std::move(options)) {
  require_groups(kind(), filters_, options_.groups);
}

ConvolutionLayer::Channels ConvolutionTranspose::channels_for(int64_t input_channels) const {
  require_split(kind(), input_channels, options_.groups);
  return {{filters_ / options_.groups, input_channels}, filters_};
}

Tensor ConvolutionTranspose::compute(const Tensor& x, const Tensor& kernel, const Tensor& bias) const {
  return convolution_transpose(x, kernel, bias,
                               {.stride = options_.stride,
                                .padding = options_.padding,
                                .dilation = options_.dilation,
                                .groups = options_.groups,
                                .output_padding = options_.output_padding});
}

template <PoolKind kKind, int kAxes>
Pool<kKind, kAxes>::Pool(const Dims& window, PoolingOptions options)
    : window_(window), options_(std::move(options)) {
  require_window(Pool::kind(), kAxes, window);
}

template <PoolKind kKind, int kAxes>
Tensor Pool<kKind, kAxes>::forward(const Tensor& x) {
  ops::require_image(kind(), x.shape(), kAxes);
  return kKind == PoolKind::kMax ? max_pool(x, window_, options_) : average_pool(x, window_, options_);
}

template <PoolKind kKind, int kAxes>
std::string_view Pool<kKind, kAxes>::kind() const {
  return kPool[static_cast<int>(kKind)][kAxes - 1];
}

template <PoolKind kKind, int kAxes>
Tensor GlobalPool<kKind, kAxes>::forward(const Tensor& x) {
  ops::require_image(kind(), x.shape(), kAxes);
  return kKind == PoolKind::kMax ? global_max_pool(x, keep_dims_) : global_average_pool(x, keep_dims_);
}

template <PoolKind kKind, int kAxes>
std::string_view GlobalPool<kKind, kAxes>::kind() const {
  return kGlobalPool[static_cast<int>(kKind)][kAxes - 1];
}

template <PoolKind kKind, int kAxes>
AdaptivePool<kKind, kAxes>::AdaptivePool(const Dims& size) : size_(size) {
  const bool valid = size.rank() == kAxes &&
                     std::all_of(size.begin(), size.end(), [](int64_t e) { return e >= 1 || e == -1; });
  require(valid, ErrorCode::kInvalidArgument, AdaptivePool::kind(),
          "the size must be {} with extents >= 1, or -1 to keep the input's, got {}", kForms[kAxes - 1],
          dims_str(size));
}

template <PoolKind kKind, int kAxes>
Tensor AdaptivePool<kKind, kAxes>::forward(const Tensor& x) {
  ops::require_image(kind(), x.shape(), kAxes);
  return kKind == PoolKind::kMax ? adaptive_max_pool(x, size_) : adaptive_average_pool(x, size_);
}

template <PoolKind kKind, int kAxes>
std::string_view AdaptivePool<kKind, kAxes>::kind() const {
  return kAdaptivePool[static_cast<int>(kKind)][kAxes - 1];
}

template class Pool<PoolKind::kMax, 1>;
template class Pool<PoolKind::kMax, 2>;
template class Pool<PoolKind::kMax, 3>;
template class Pool<PoolKind::kAverage, 1>;
template class Pool<PoolKind::kAverage, 2>;
template class Pool<PoolKind::kAverage, 3>;
template class GlobalPool<PoolKind::kMax, 1>;
template class GlobalPool<PoolKind::kMax, 2>;
template class GlobalPool<PoolKind::kMax, 3>;
template class GlobalPool<PoolKind::kAverage, 1>;
template class GlobalPool<PoolKind::kAverage, 2>;
template class GlobalPool<PoolKind::kAverage, 3>;
template class AdaptivePool<PoolKind::kMax, 1>;
template class AdaptivePool<PoolKind::kMax, 2>;
template class AdaptivePool<PoolKind::kMax, 3>;
template class AdaptivePool<PoolKind::kAverage, 1>;
template class AdaptivePool<PoolKind::kAverage, 2>;
template class AdaptivePool<PoolKind::kAverage, 3>;

}  // namespace isochron::nn
