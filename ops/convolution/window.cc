#include "isochron/ops/convolution/window.h"

#include <algorithm>

#include "isochron/core/base/checked.h"
#include "isochron/ops/convolution/padding.h"

namespace isochron {
namespace {

void require_window_numbers(std::string_view where, int axis, int64_t window, int64_t stride,
                            int64_t dilation) {
  for (const int64_t number : {window, stride, dilation}) {
    require(number >= 1 && number < kMaxWindowNumber, ErrorCode::kInvalidArgument, where,
            "window, stride and dilation along spatial axis {} must be at least 1 and less than {}, got {}, "
            "{}, {}",
            axis, kMaxWindowNumber, window, stride, dilation);
  }
  // The product is below 2^60, because both numbers are limited.
  require((window - 1) * dilation < kMaxWindowReach, ErrorCode::kUnsupported, where,
          "the window along spatial axis {} reaches over {} elements: {} of them, {} apart; at most {} are "
          "supported, use a smaller dilation or window",
          axis, (window - 1) * dilation + 1, window, dilation, kMaxWindowReach);
}

/// The total padding with which ceil(input / stride) windows fit.
int64_t same_padding(int64_t input, int64_t window, int64_t stride, int64_t dilation) {
  const int64_t outputs = input / stride + (input % stride != 0 ? 1 : 0);
  return std::max<int64_t>((outputs - 1) * stride - input + (window - 1) * dilation + 1, 0);
}

}  // namespace

Dims Padding::resolve(const Dims& extents, const Dims& window, const Dims& stride,
                      const Dims& dilation) const {
  if (kind_ == Kind::kExplicit) return extents_;
  const int axes = extents.rank();
  for (const Dims& dims : {window, stride, dilation}) {
    require(dims.rank() == axes, ErrorCode::kInvalidArgument, "padding",
            "window, stride and dilation take {} numbers, one per spatial axis, got {}", axes,
            dims_str(dims));
  }
  require(kind_ != Kind::kCausal || axes == 1, ErrorCode::kInvalidArgument, "padding",
          "causal padding is along one axis, this image has {}; use Padding::explicitly", axes);
  Dims result;
  for (int axis = 0; axis < axes; ++axis) {
    require_window_numbers("padding", axis, window[axis], stride[axis], dilation[axis]);
    int64_t before = 0;
    int64_t after = 0;
    if (kind_ == Kind::kSame) {
      const int64_t total = same_padding(extents[axis], window[axis], stride[axis], dilation[axis]);
      before = total / 2;
      after = total - before;
    } else if (kind_ == Kind::kCausal) {
      before = (window[axis] - 1) * dilation[axis];
    }
    result.push_back(before);
    result.push_back(after);
  }
  return result;
}

namespace ops {
namespace {

WindowAxis checked(std::string_view where, int number, WindowAxis axis) {
  require_window_numbers(where, number, axis.window, axis.stride, axis.dilation);
  for (const int64_t value : {axis.before, axis.after}) {
    require(value >= 0 && value <= kMaxWindowReach, ErrorCode::kInvalidArgument, where,
            "the padding along spatial axis {} must be 0 or more and at most {}, got {} and {}", number,
            kMaxWindowReach, axis.before, axis.after);
  }
  const int64_t padded = checked_add(axis.input, axis.before + axis.after, where);
  require(axis.reach() <= padded, ErrorCode::kShapeMismatch, where,
          "the window along spatial axis {} reaches over {} elements, the padded input has {}; use a smaller "
          "window or Padding::same()",
          number, axis.reach(), padded);
  axis.output = (padded - axis.reach()) / axis.stride + 1;
  return axis;
}

}  // namespace

Shape SlidingWindow::output_shape(int64_t batch, int64_t channels) const {
  Dims shape{batch};
  if (axes >= 3) shape.push_back(depth.output);
  if (axes >= 2) shape.push_back(height.output);
  shape.push_back(width.output);
  shape.push_back(channels);
  return Shape(shape);
}

SlidingWindow sliding_window(std::string_view where, const Dims& x, const Dims& window, const Dims& stride,
                             const Dims& dilation, const Dims& padding) {
  require_image(where, Shape(x), 0);
  const int axes = x.rank() - 2;
  require(
      window.rank() == axes && stride.rank() == axes && dilation.rank() == axes && padding.rank() == 2 * axes,
      ErrorCode::kInvalidArgument, where,
      "with {} spatial axes, window, stride and dilation take {} numbers and the padding {}; got {}, {}, "
      "{}, {}",
      axes, axes, 2 * axes, dims_str(window), dims_str(stride), dims_str(dilation), dims_str(padding));
  SlidingWindow result;
  result.axes = axes;
  WindowAxis* const all[] = {&result.depth, &result.height, &result.width};
  for (int i = 0; i < axes; ++i) {
    *all[kMaxWindowAxes - axes + i] = checked(where, i,
                                              {.input = x[i + 1],
                                               .window = window[i],
                                               .stride = stride[i],
                                               .dilation = dilation[i],
                                               .before = padding[2 * i],
                                               .after = padding[2 * i + 1]});
  }
  return result;
}

Dims spatial_extents(const Dims& x) { return Dims(x.span().subspan(1, static_cast<size_t>(x.rank() - 2))); }

Dims ones_if_empty(const Dims& numbers, int axes) {
  Dims result = numbers;
  if (numbers.empty()) {
    for (int i = 0; i < axes; ++i) result.push_back(1);
  }
  return result;
}

void require_image(std::string_view where, const Shape& shape, int axes) {
  constexpr std::string_view kForms[] = {"(N, W, C), (N, H, W, C) or (N, D, H, W, C)", "(N, W, C)",
                                         "(N, H, W, C)", "(N, D, H, W, C)"};
  const int found = shape.rank() - 2;
  require(axes == 0 ? found >= 1 && found <= kMaxWindowAxes : found == axes, ErrorCode::kShapeMismatch, where,
          "images are {}, got {}", kForms[axes], shape.str());
}

}  // namespace ops
}  // namespace isochron
