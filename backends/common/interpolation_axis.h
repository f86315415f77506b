// The axis that a call of `interpolate` or its transpose works along.
#pragma once

#include "isochron/backends/common/axis_view.h"
#include "isochron/ops/shape/interpolation_attributes.h"
#include "isochron/ops/shape/interpolation_weights.h"

namespace isochron::ops {

/// The axis of a call of `interpolate` or, if `transposed`, of its transpose, where the axis' elements are in
/// the result.
inline element::InterpolationAxis interpolation_axis(const graph::KernelRequest& request, bool transposed) {
  const int axis = axis_of(request);
  const int64_t in = request.inputs[0].shape[axis], out = request.outputs[0].shape[axis];
  const ResizeOptions options = resize_options(request.attributes, request.op.name);
  return {transposed ? out : in,
          transposed ? in : out,
          options.interpolation == Interpolation::kNearest,
          options.interpolation == Interpolation::kCubic,
          options.interpolation == Interpolation::kArea,
          options.align_corners,
          options.antialias};
}

}  // namespace isochron::ops
