// Windows that slide over images: what convolution and pooling share. Images are NHWC; the two numbers of a
// window, stride or dilation are for H and W.
#pragma once

#include <string_view>

#include "isochron/core/shape.h"

namespace isochron {

/// What lies around the image: nothing (`valid`), as much as makes ceil(extent / stride) outputs (`same`,
/// TensorFlow's rule: the odd element goes after), or given numbers of elements.
class Padding {
 public:
  static Padding valid() { return Padding(Kind::kExplicit, {0, 0, 0, 0}); }
  static Padding same() { return Padding(Kind::kSame, {}); }
  static Padding explicitly(int64_t top, int64_t bottom, int64_t left, int64_t right) {
    return Padding(Kind::kExplicit, {top, bottom, left, right});
  }
  /// {top, bottom, left, right} for images of `height` x `width`.
  Dims resolve(int64_t height, int64_t width, const Dims& window, const Dims& stride,
               const Dims& dilation) const;

 private:
  enum class Kind { kSame, kExplicit };
  Padding(Kind kind, Dims extents) : kind_(kind), extents_(extents) {}
  Kind kind_;
  Dims extents_;
};

namespace ops {

/// One axis of a sliding window, checked.
struct WindowAxis {
  int64_t input = 0;
  int64_t window = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t before = 0;
  int64_t after = 0;
  int64_t output = 0;

  /// The input element under window element `k` of output `o`, or -1 in the padding.
  int64_t source(int64_t o, int64_t k) const {
    const int64_t i = o * stride - before + k * dilation;
    return i >= 0 && i < input ? i : -1;
  }
  /// The output whose window element `k` lies on input `i`, or -1.
  int64_t target(int64_t i, int64_t k) const {
    const int64_t at = i + before - k * dilation;
    return at >= 0 && at % stride == 0 && at / stride < output ? at / stride : -1;
  }
};

/// Axis 0 (H) or 1 (W). `stride`, `dilation`: two numbers; `padding`: top, bottom, left, right. Throws
/// kInvalidArgument for numbers out of range, kShapeMismatch where the window exceeds the padded input.
WindowAxis window_axis(std::string_view where, int axis, int64_t input, int64_t window, const Dims& stride,
                       const Dims& dilation, const Dims& padding);

}  // namespace ops
}  // namespace isochron
