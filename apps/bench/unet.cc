#include "isochron/apps/bench/unet.h"

#include "isochron/ops/convolution/pooling.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::apps {
namespace {

const nn::ConvOptions kSame = {.padding = Padding::same(), .bias = false};

}  // namespace

UNetBlock::UNetBlock(int64_t width, int64_t groups)
    : first_(width, {3, 3}, nn::Activation::kNone, kSame),
      second_(width, {3, 3}, nn::Activation::kNone, kSame),
      first_norm_(groups),
      second_norm_(groups) {}

Tensor UNetBlock::forward(const Tensor& x) {
  return relu(second_norm_(second_(relu(first_norm_(first_(x))))));
}

void UNetBlock::members(nn::Members& list) {
  list("first", first_)("first_norm", first_norm_)("second", second_)("second_norm", second_norm_);
}

UNet::UNet(const std::vector<int64_t>& widths, int64_t groups, int64_t outputs) : head_(outputs, {1, 1}) {
  for (const int64_t width : widths) down_.push_back(std::make_unique<UNetBlock>(width, groups));
  for (size_t level = widths.size() - 1; level-- > 0;) {
    const nn::ConvTransposeOptions twice{.stride = {2, 2}};
    raise_.push_back(
        std::make_unique<nn::Conv2DTranspose>(widths[level], Dims{2, 2}, nn::Activation::kNone, twice));
    up_.push_back(std::make_unique<UNetBlock>(widths[level], groups));
  }
}

Tensor UNet::forward(const Tensor& x) {
  std::vector<Tensor> levels;
  Tensor y = x;
  for (const auto& block : down_) {
    if (!levels.empty()) y = max_pool2d(y, {2, 2});
    levels.push_back(y = (*block)(y));
  }
  for (size_t i = 0; i < up_.size(); ++i) {
    levels.pop_back();
    y = (*up_[i])(concatenate({levels.back(), (*raise_[i])(y)}, -1));
  }
  return head_(y);
}

void UNet::members(nn::Members& list) {
  for (size_t i = 0; i < down_.size(); ++i) list(fmt::format("down_{}", i), *down_[i]);
  for (size_t i = 0; i < up_.size(); ++i) {
    list(fmt::format("raise_{}", i), *raise_[i])(fmt::format("up_{}", i), *up_[i]);
  }
  list("head", head_);
}

}  // namespace isochron::apps
