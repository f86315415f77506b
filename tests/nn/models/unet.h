// A small U-Net (Ronneberger, Fischer, Brox: "U-Net: Convolutional Networks for Biomedical Image
// Segmentation", MICCAI 2015) with group normalization, written as users would write it: lists of blocks with
// two inputs. Its members have the same names as those of UNet in tests/golden/make_models_torch.py.
#pragma once

#include <vector>

#include "isochron/nn/layers/layers.h"
#include "isochron/nn/layers/normalization.h"
#include "isochron/nn/module/module_list.h"
#include "isochron/ops/convolution/pooling.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::nn {

/// Two 3x3 convolutions, each with group normalization and silu.
class TwoConvolutions : public Module {
 public:
  TwoConvolutions(int64_t filters, int64_t groups)
      : first_(convolution(filters)),
        first_norm_(groups),
        second_(convolution(filters)),
        second_norm_(groups) {}
  Tensor forward(const Tensor& x) override {
    return silu(second_norm_(second_(silu(first_norm_(first_(x))))));
  }
  void members(Members& list) override {
    list("first", first_)("first_norm", first_norm_)("second", second_)("second_norm", second_norm_);
  }

 private:
  static Conv2D convolution(int64_t filters) {
    return Conv2D(filters, {3, 3}, Activation::kNone, {.padding = Padding::same(), .bias = false});
  }
  Conv2D first_;
  GroupNorm first_norm_;
  Conv2D second_;
  GroupNorm second_norm_;
};

/// Upsamples by two and concatenates `skip`, the features of the contracting path at this size. x: (N, H, W,
/// C), skip: (N, 2H, 2W, filters).
class UpBlock : public Module {
 public:
  UpBlock(int64_t filters, int64_t groups)
      : larger_(filters, {2, 2}, Activation::kNone, {.stride = {2, 2}}), convolutions_(filters, groups) {}
  Tensor forward(const Tensor& x, const Tensor& skip) override {
    return convolutions_(concatenate({skip, larger_(x)}, -1));
  }
  void members(Members& list) override { list("larger", larger_)("convolutions", convolutions_); }

 private:
  Conv2DTranspose larger_;
  TwoConvolutions convolutions_;
};

/// x: (N, H, W, C), H and W multiples of 2^(widths - 1); result (N, H, W, classes), logits.
class UNet : public Module {
 public:
  UNet(const std::vector<int64_t>& widths, int64_t groups, int64_t classes)
      : middle_(widths.back(), groups), out_(classes, {1, 1}) {
    for (size_t i = 0; i + 1 < widths.size(); ++i) {
      down_.append(TwoConvolutions(widths[i], groups));
      up_.append(UpBlock(widths[widths.size() - 2 - i], groups));
    }
  }
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> skips;
    Tensor y = x;
    for (Module& block : down_) {
      skips.push_back(block(y));
      y = max_pool(skips.back(), {2, 2});
    }
    y = middle_(y);
    for (Module& block : up_) {
      y = block(y, skips.back());
      skips.pop_back();
    }
    return out_(y);
  }
  void members(Members& list) override { list("down", down_)("middle", middle_)("up", up_)("out", out_); }
  std::string_view kind() const override { return "unet"; }

 private:
  ModuleList down_;
  TwoConvolutions middle_;
  ModuleList up_;
  Conv2D out_;
};

}  // namespace isochron::nn
