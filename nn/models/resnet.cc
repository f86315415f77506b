#include "isochron/nn/models/resnet.h"

#include <algorithm>
#include <map>

#include "isochron/ops/elementwise/elementwise.h"

namespace isochron::nn {
namespace {

ConvOptions convolution_options(int64_t window, int64_t stride) {
  const int64_t around = (window - 1) / 2;
  return {.stride = {stride, stride},
          .padding = Padding::explicitly(around, around, around, around),
          .bias = false,
          .kernel_initializer = init::he_normal()};
}

const ResNetOptions& checked_options(const ResNetOptions& options) {
  const auto positive = [](const std::vector<int64_t>& numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](int64_t n) { return n >= 1; });
  };
  require(!options.blocks.empty() && options.blocks.size() == options.widths.size() &&
              positive(options.blocks) && positive(options.widths) && options.classes >= 1,
          ErrorCode::kInvalidArgument, "resnet",
          "needs as many widths as stages, and all numbers >= 1; got {} and {}", options.widths.size(),
          options.blocks.size());
  return options;
}

}  // namespace

NormalizedConv::NormalizedConv(int64_t filters, int64_t window, int64_t stride, Activation activation,
                               const BatchNormOptions& norm)
    : convolution_(filters, {window, window}, Activation::kNone, convolution_options(window, stride)),
      norm_(norm),
      activation_(activation) {}

ResidualBlock::ResidualBlock(int64_t inputs, int64_t width, int64_t stride, const ResNetOptions& options) {
  const auto add = [&](int64_t filters, int64_t window, int64_t step, Activation activation) {
    path_.push_back(std::make_unique<NormalizedConv>(filters, window, step, activation, options.norm));
  };
  if (options.bottleneck) {
    add(width, 1, 1, Activation::kRelu);
    add(width, 3, stride, Activation::kRelu);
    add(4 * width, 1, 1, Activation::kNone);
  } else {
    add(width, 3, stride, Activation::kRelu);
    add(width, 3, 1, Activation::kNone);
  }
  if (stride != 1 || inputs != outputs(width, options)) {
    shortcut_ =
        std::make_unique<NormalizedConv>(outputs(width, options), 1, stride, Activation::kNone, options.norm);
  }
}

Tensor ResidualBlock::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& part : path_) y = (*part)(y);
  return relu(y + (shortcut_ ? (*shortcut_)(x) : x));
}

void ResidualBlock::members(Members& list) {
  for (size_t i = 0; i < path_.size(); ++i) list(fmt::format("path_{}", i), *path_[i]);
  if (shortcut_) list("shortcut", *shortcut_);
}

ResNet::ResNet(const ResNetOptions& options)
    : options_(checked_options(options)),
      stem_(options.widths[0], options.small_images ? 3 : 7, options.small_images ? 1 : 2, Activation::kRelu,
            options.norm),
      classifier_(options.classes) {
  int64_t channels = options.widths[0];
  for (size_t stage = 0; stage < options.blocks.size(); ++stage) {
    for (int64_t i = 0; i < options.blocks[stage]; ++i) {
      const int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      blocks_.push_back(std::make_unique<ResidualBlock>(channels, options.widths[stage], stride, options));
      channels = ResidualBlock::outputs(options.widths[stage], options);
    }
  }
}

Tensor ResNet::forward(const Tensor& x) {
  Tensor y = stem_(x);
  if (!options_.small_images) {
    y = max_pool2d(y, {3, 3}, {.stride = {2, 2}, .padding = Padding::explicitly(1, 1, 1, 1)});
  }
  for (const auto& block : blocks_) y = (*block)(y);
  return classifier_(global_average_pool(y));
}

void ResNet::members(Members& list) {
  list("stem", stem_);
  for (size_t i = 0; i < blocks_.size(); ++i) list(fmt::format("block_{}", i), *blocks_[i]);
  list("classifier", classifier_);
}

std::function<std::string(const std::string&)> torchvision_names(const ResNetOptions& options) {
  std::map<std::string, std::string> layers = {
      {"stem.convolution", "conv1"}, {"stem.norm", "bn1"}, {"classifier", "fc"}};
  size_t block = 0;
  for (size_t stage = 0; stage < options.blocks.size(); ++stage) {
    for (int64_t i = 0; i < options.blocks[stage]; ++i) {
      const std::string ours = fmt::format("block_{}.", block++);
      const std::string theirs = fmt::format("layer{}.{}.", stage + 1, i);
      for (int part = 0; part < (options.bottleneck ? 3 : 2); ++part) {
        layers[fmt::format("{}path_{}.convolution", ours, part)] = fmt::format("{}conv{}", theirs, part + 1);
        layers[fmt::format("{}path_{}.norm", ours, part)] = fmt::format("{}bn{}", theirs, part + 1);
      }
      layers[ours + "shortcut.convolution"] = theirs + "downsample.0";
      layers[ours + "shortcut.norm"] = theirs + "downsample.1";
    }
  }
  return [layers = std::move(layers)](const std::string& name) {
    const size_t dot = name.rfind('.');
    const auto found = layers.find(name.substr(0, dot));
    require(found != layers.end() && dot != std::string::npos, ErrorCode::kInvalidArgument,
            "torchvision_names", "'{}' is not a tensor of this network under Convention::kPyTorch", name);
    return found->second + name.substr(dot);
  };
}

ResNet resnet20(int64_t classes, const BatchNormOptions& norm) {
  return ResNet({.blocks = {3, 3, 3}, .widths = {16, 32, 64}, .classes = classes, .norm = norm});
}

ResNet resnet50(int64_t classes, const BatchNormOptions& norm) {
  return ResNet({.blocks = {3, 4, 6, 3},
                 .widths = {64, 128, 256, 512},
                 .bottleneck = true,
                 .small_images = false,
                 .classes = classes,
                 .norm = norm});
}

}  // namespace isochron::nn
