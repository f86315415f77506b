#include "isochron/nn/models/models.h"

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron::nn {
namespace {

Conv1D causal(const TemporalConvolutionOptions& options, int64_t dilation) {
  return Conv1D(
      options.filters, {options.window}, Activation::kRelu,
      {.padding = Padding::causal(), .dilation = {dilation}, .kernel_initializer = init::he_normal()});
}

}  // namespace

Sequential mlp(const std::vector<int64_t>& widths, Activation activation) {
  require(!widths.empty(), ErrorCode::kInvalidArgument, "mlp", "needs at least one width");
  Sequential model;
  for (size_t i = 0; i < widths.size(); ++i) {
    model.append(Dense(widths[i], i + 1 < widths.size() ? activation : Activation::kNone));
  }
  return model;
}

Sequential lenet(int64_t classes) {
  return Sequential(Conv2D(6, {5, 5}, Activation::kRelu, {.padding = Padding::same()}), MaxPool2D({2, 2}),
                    Conv2D(16, {5, 5}, Activation::kRelu), MaxPool2D({2, 2}), Flatten(),
                    Dense(120, Activation::kRelu), Dense(84, Activation::kRelu), Dense(classes));
}

Sequential lstm_forecaster(int64_t units, int64_t layers, int64_t outputs) {
  return Sequential(LSTM(units, {.layers = layers}), Dense(outputs));
}

Sequential gru_forecaster(int64_t units, int64_t layers, int64_t outputs) {
  return Sequential(GRU(units, {.layers = layers}), Dense(outputs));
}

TemporalBlock::TemporalBlock(const TemporalConvolutionOptions& options, int64_t dilation, bool widens)
    : first_(causal(options, dilation)), second_(causal(options, dilation)), dropout_(options.dropout) {
  if (widens) shortcut_ = std::make_unique<Conv1D>(options.filters, Dims{1});
}

Tensor TemporalBlock::forward(const Tensor& x) {
  const Tensor y = dropout_(second_(dropout_(first_(x))));
  return relu(y + (shortcut_ ? (*shortcut_)(x) : x));
}

void TemporalBlock::members(Members& list) {
  list("first", first_)("second", second_);
  if (shortcut_) list("shortcut", *shortcut_);
}

TemporalConvolutionForecaster::TemporalConvolutionForecaster(const TemporalConvolutionOptions& options)
    : out_(options.outputs) {
  constexpr int64_t kMaxBlocks = 24;
  require(options.filters >= 1 && options.window >= 1 && options.blocks >= 1 && options.blocks <= kMaxBlocks,
          ErrorCode::kInvalidArgument, "temporal_convolution_forecaster",
          "filters, window and blocks must be >= 1, and blocks at most {}; got {}, {} and {}", kMaxBlocks,
          options.filters, options.window, options.blocks);
  for (int64_t i = 0; i < options.blocks; ++i) {
    blocks_.push_back(std::make_unique<TemporalBlock>(options, int64_t{1} << i, i == 0));
  }
}

Tensor TemporalConvolutionForecaster::forward(const Tensor& x) {
  require(x.rank() == 3 && x.extent(1) >= 1, ErrorCode::kShapeMismatch, kind(),
          "expected (samples, steps, channels), got {}", x.spec().str());
  Tensor y = x;
  for (const auto& block : blocks_) y = (*block)(y);
  return out_(squeeze(narrow(y, 1, y.extent(1) - 1, 1), {1}));
}

void TemporalConvolutionForecaster::members(Members& list) {
  for (size_t i = 0; i < blocks_.size(); ++i) list(fmt::format("block_{}", i), *blocks_[i]);
  list("out", out_);
}

}  // namespace isochron::nn
