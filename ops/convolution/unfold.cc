#include "isochron/ops/convolution/unfold.h"

#include "isochron/ops/convolution/window.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {

Tensor unfold(const Tensor& x, const Dims& window, const UnfoldOptions& options) {
  const ErrorScope scope("unfold");
  ops::require_defined(x, "unfold");
  ops::require_image("unfold", x.shape(), 0);
  const int axes = x.rank() - 2;
  const Dims stride = ops::ones_if_empty(options.stride, axes);
  const Dims dilation = ops::ones_if_empty(options.dilation, axes);
  const Dims padding = options.padding.resolve(ops::spatial_extents(x.shape()), window, stride, dilation);
  const Shape outputs = ops::sliding_window("unfold", x.shape(), window, stride, dilation, padding)
                            .output_shape(x.extent(0), x.extent(-1));
  Dims before = x.shape(), after = before;
  bool padded = false;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool spatial = axis >= 1 && axis <= axes;
    before[axis] = spatial ? padding[2 * axis - 2] : 0;
    after[axis] = spatial ? padding[2 * axis - 1] : 0;
    padded = padded || before[axis] > 0 || after[axis] > 0;
  }
  Tensor result = padded ? pad(x, before, after) : x;
  // Processes one axis after the other, beginning with the last, so that the elements of the last axis become
  // the innermost.
  for (int axis = axes; axis >= 1; --axis) {
    Dims starts, stops, steps;
    for (int i = 0; i < axis; ++i) {
      starts.push_back(0);
      stops.push_back(kSliceEnd);
      steps.push_back(1);
    }
    starts.push_back(0);
    stops.push_back(0);
    steps.push_back(stride[axis - 1]);
    std::vector<Tensor> parts;
    for (int64_t k = 0; k < window[axis - 1]; ++k) {
      starts[axis] = k * dilation[axis - 1];
      stops[axis] = starts[axis] + (outputs[axis] - 1) * stride[axis - 1] + 1;
      parts.push_back(slice(result, starts, stops, steps));
    }
    result = concatenate(parts, -1);
  }
  return result;
}

}  // namespace isochron
