// Windows that slide over one, two or three spatial axes: what convolution and pooling share. Tensors are
// (N, spatial..., C): (N, W, C), (N, H, W, C) or (N, D, H, W, C); the numbers of a window, stride or dilation
// are for the spatial axes in that order.
#pragma once

#include <algorithm>
#include <string_view>

#include "isochron/core/tensor/shape.h"

namespace isochron {

inline constexpr int kMaxWindowAxes = 3;
/// Upper limits, so that kernels whose running time depends on these numbers terminate. Windows, strides and
/// dilations are below kMaxWindowNumber. A window, including its dilation, spans at most kMaxWindowReach
/// elements, and so does the padding on either side.
inline constexpr int64_t kMaxWindowNumber = int64_t{1} << 30;
inline constexpr int64_t kMaxWindowReach = int64_t{1} << 24;

namespace ops {

/// One axis of a sliding window, checked.
struct WindowAxis {
  int64_t input = 1;
  int64_t window = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t before = 0;
  int64_t after = 0;
  int64_t output = 1;

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
  /// The number of input elements that one window spans, gaps included.
  int64_t reach() const { return (window - 1) * dilation + 1; }
  /// The windows of outputs [first_whole(), whole_end()) lie completely inside the input.
  int64_t first_whole() const { return (before + stride - 1) / stride; }
  int64_t whole_end() const {
    const int64_t last =
        input + before - reach();  // last start of a whole window, counted from the start of the padding
    return last < 0 ? 0 : std::min(output, last / stride + 1);
  }
  /// A range of window elements, [begin, end).
  struct Part {
    int64_t begin;
    int64_t end;
  };
  /// The elements of the window of output `o` that lie inside the input.
  Part sources(int64_t o) const {
    const int64_t first = o * stride - before;
    const int64_t end = std::min(window, steps(input - 1 - first) + 1);
    return {std::min(first >= 0 ? 0 : steps(dilation - 1 - first), end), end};
  }
  /// A range that contains all window elements that lie on input `i` for some output.
  Part targets(int64_t i) const {
    const int64_t end = std::min(window, steps(i + before) + 1);
    const int64_t beyond =
        i + before - (output - 1) * stride;  // distance of i from the start of the last window
    return {std::min(beyond <= 0 ? 0 : steps(beyond + dilation - 1), end), end};
  }
  /// The number of elements in sources(o).
  int64_t inside(int64_t o) const {
    const Part part = sources(o);
    return part.end - part.begin;
  }

 private:
  /// distance / dilation, rounded down; -1 if the distance is negative.
  int64_t steps(int64_t distance) const {
    if (distance < 0) return -1;
    return dilation == 1 ? distance : distance / dilation;
  }
};

/// A checked window over three axes, so that one kernel also serves calls with fewer axes: missing axes are
/// leading ones and have extent 1. A pixel is one position along all three axes, counted row-major.
struct SlidingWindow {
  int axes = 0;  // spatial axes of the call
  WindowAxis depth;
  WindowAxis height;
  WindowAxis width;

  /// Whether the call has one or two axes, so that depth has extent 1.
  bool planar() const { return axes <= 2; }
  int64_t input_pixels() const { return depth.input * height.input * width.input; }
  int64_t output_pixels() const { return depth.output * height.output * width.output; }
  int64_t window_elems() const { return depth.window * height.window * width.window; }
  int64_t input_rows() const { return depth.input * height.input; }
  int64_t output_rows() const { return depth.output * height.output; }
  /// (batch, spatial..., channels) of the result.
  Shape output_shape(int64_t batch, int64_t channels) const;

  /// The number of elements that each_source visits.
  int64_t inside(int64_t row, int64_t column) const {
    return depth.inside(row / height.output) * height.inside(row % height.output) * width.inside(column);
  }
  /// Calls visit(input pixel, window element) for each element of an output pixel's window that lies inside
  /// the image, in order. `row` is the index over the output's depth and height.
  template <typename Visit>
  void each_source(int64_t row, int64_t column, Visit visit) const {
    const int64_t od = row / height.output;
    const int64_t oh = row % height.output;
    const WindowAxis::Part in_depth = depth.sources(od), in_height = height.sources(oh);
    const WindowAxis::Part in_width = width.sources(column);
    for (int64_t kd = in_depth.begin; kd < in_depth.end; ++kd) {
      const int64_t id = od * depth.stride - depth.before + kd * depth.dilation;
      for (int64_t kh = in_height.begin; kh < in_height.end; ++kh) {
        const int64_t ih = oh * height.stride - height.before + kh * height.dilation;
        for (int64_t kw = in_width.begin; kw < in_width.end; ++kw) {
          const int64_t iw = column * width.stride - width.before + kw * width.dilation;
          visit((id * height.input + ih) * width.input + iw, (kd * height.window + kh) * width.window + kw);
        }
      }
    }
  }
  /// Calls visit(output pixel, window element) for the outputs whose windows contain an input pixel. `row` is
  /// the index over the input's depth and height.
  template <typename Visit>
  void each_target(int64_t row, int64_t column, Visit visit) const {
    const int64_t id = row / height.input;
    const int64_t ih = row % height.input;
    const WindowAxis::Part in_depth = depth.targets(id), in_height = height.targets(ih);
    const WindowAxis::Part in_width = width.targets(column);
    for (int64_t kd = in_depth.begin; kd < in_depth.end; ++kd) {
      const int64_t od = depth.target(id, kd);
      if (od < 0) continue;
      for (int64_t kh = in_height.begin; kh < in_height.end; ++kh) {
        const int64_t oh = height.target(ih, kh);
        if (oh < 0) continue;
        for (int64_t kw = in_width.begin; kw < in_width.end; ++kw) {
          const int64_t ow = width.target(column, kw);
          if (ow < 0) continue;
          visit((od * height.output + oh) * width.output + ow, (kd * height.window + kh) * width.window + kw);
        }
      }
    }
  }
};

/// The window of a call on images `x`, (N, spatial..., C). `window`, `stride`, `dilation`: one number per
/// spatial axis; `padding`: {before, after} of each axis in turn. Throws kShapeMismatch unless there are 1 to
/// 3 spatial axes, kInvalidArgument for lists of another length or numbers out of range, kUnsupported for a
/// window that spans too many elements, kShapeMismatch if it exceeds the padded input.
SlidingWindow sliding_window(std::string_view where, const Dims& x, const Dims& window, const Dims& stride,
                             const Dims& dilation, const Dims& padding);

/// The spatial extents of (N, spatial..., C).
Dims spatial_extents(const Dims& x);
/// `numbers`, or, if it is empty, a list of `axes` ones.
Dims ones_if_empty(const Dims& numbers, int axes);
/// Throws kShapeMismatch naming `where` unless `shape` is (N, spatial..., C) with `axes` spatial axes (1 to 3
/// if `axes` is 0).
void require_image(std::string_view where, const Shape& shape, int axes);

}  // namespace ops
}  // namespace isochron
