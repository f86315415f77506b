// Sliding windows for kernels, like ops/convolution/window.h but with 32-bit numbers. The numbers of a call
// are constants in the kernel's source, so that divisions are by constants.
#ifndef ISOCHRON_OPS_CUDA_WINDOW_TEXT_H_
#define ISOCHRON_OPS_CUDA_WINDOW_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

constexpr int kOutside = -1;

struct WindowAxis {
  int input, window, stride, dilation, before, output;

  /// The input element under window element `k` of output `o`, or kOutside.
  ISOCHRON_INLINE int source(int o, int k) const {
    const int i = o * stride - before + k * dilation;
    return i >= 0 && i < input ? i : kOutside;
  }
  /// The output whose window element `k` lies on input `i`, or kOutside.
  ISOCHRON_INLINE int target(int i, int k) const {
    const int at = i + before - k * dilation;
    return at >= 0 && at % stride == 0 && at / stride < output ? at / stride : kOutside;
  }
};

struct Window {
  WindowAxis depth, height, width;

  ISOCHRON_INLINE int elems() const { return depth.window * height.window * width.window; }
  ISOCHRON_INLINE int input_pixels() const { return depth.input * height.input * width.input; }
  ISOCHRON_INLINE int output_pixels() const { return depth.output * height.output * width.output; }

  /// The input pixel under window element `k` of an output pixel, or kOutside.
  ISOCHRON_INLINE int source(int pixel, int k) const {
    const int w = width.source(pixel % width.output, k % width.window);
    const int h = height.source(pixel / width.output % height.output, k / width.window % height.window);
    const int d = depth.source(pixel / width.output / height.output, k / width.window / height.window);
    return w < 0 || h < 0 || d < 0 ? kOutside : (d * height.input + h) * width.input + w;
  }
  /// The output pixel whose window element `k` lies on an input pixel, or kOutside.
  ISOCHRON_INLINE int target(int pixel, int k) const {
    const int w = width.target(pixel % width.input, k % width.window);
    const int h = height.target(pixel / width.input % height.input, k / width.window % height.window);
    const int d = depth.target(pixel / width.input / height.input, k / width.window / height.window);
    return w < 0 || h < 0 || d < 0 ? kOutside : (d * height.output + h) * width.output + w;
  }
  /// Window elements of an output pixel that lie inside the image.
  ISOCHRON_INLINE int inside(int pixel) const {
    int count = 0;
    for (int k = 0; k < elems(); ++k) count += source(pixel, k) >= 0 ? 1 : 0;
    return count;
  }
};

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
