#include "isochron/ops/window.h"

#include <algorithm>

namespace isochron {
namespace {

constexpr int64_t kMaxWindowNumber = int64_t{1} << 30;

/// Total padding so that ceil(input / stride) windows fit.
int64_t same_padding(int64_t input, int64_t window, int64_t stride, int64_t dilation) {
  require(stride >= 1, ErrorCode::kInvalidArgument, "padding", "the stride must be at least 1, got {}",
          stride);
  const int64_t outputs = (input + stride - 1) / stride;
  return std::max<int64_t>((outputs - 1) * stride + (window - 1) * dilation + 1 - input, 0);
}

}  // namespace

Dims Padding::resolve(int64_t height, int64_t width, const Dims& window, const Dims& stride,
                      const Dims& dilation) const {
  if (kind_ == Kind::kExplicit) return extents_;
  for (const Dims& dims : {window, stride, dilation}) {
    require(dims.rank() == 2, ErrorCode::kInvalidArgument, "padding", "two numbers (H, W) expected, got {}",
            dims_str(dims));
  }
  const int64_t vertical = same_padding(height, window[0], stride[0], dilation[0]);
  const int64_t horizontal = same_padding(width, window[1], stride[1], dilation[1]);
  return {vertical / 2, vertical - vertical / 2, horizontal / 2, horizontal - horizontal / 2};
}

namespace ops {

WindowAxis window_axis(std::string_view where, int axis, int64_t input, int64_t window, const Dims& stride,
                       const Dims& dilation, const Dims& padding) {
  require(stride.rank() == 2 && dilation.rank() == 2 && padding.rank() == 4, ErrorCode::kInvalidArgument,
          where, "stride and dilation take 2 numbers, padding 4; got {}, {}, {}", dims_str(stride),
          dims_str(dilation), dims_str(padding));
  WindowAxis result{input, window, stride[axis], dilation[axis], padding[2 * axis], padding[2 * axis + 1], 0};
  const char* name = axis == 0 ? "vertical" : "horizontal";
  for (const int64_t number : {result.window, result.stride, result.dilation}) {
    require(number >= 1 && number < kMaxWindowNumber, ErrorCode::kInvalidArgument, where,
            "the {} window, stride and dilation must be at least 1, got {}, {}, {}", name, result.window,
            result.stride, result.dilation);
  }
  for (const int64_t number : {result.before, result.after}) {
    require(number >= 0 && number < kMaxWindowNumber, ErrorCode::kInvalidArgument, where,
            "the {} padding must be 0 or more, got {} and {}", name, result.before, result.after);
  }
  const int64_t reach = (result.window - 1) * result.dilation + 1;
  const int64_t padded = input + result.before + result.after;
  require(reach <= padded, ErrorCode::kShapeMismatch, where,
          "the {} window reaches over {} elements, the padded input has {}; use a smaller window or "
          "Padding::same()",
          name, reach, padded);
  result.output = (padded - reach) / result.stride + 1;
  return result;
}

}  // namespace ops
}  // namespace isochron
