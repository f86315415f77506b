// A tensor seen around one of its axes.
#pragma once

#include <cstdint>

#include "isochron/core/tensor/shape.h"
#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// (outer, extent, inner): the elements before, along and behind the axis.
struct AxisView {
  int64_t outer = 1;
  int64_t extent = 1;
  int64_t inner = 1;
  AxisView(const Shape& shape, int axis) : extent(shape[axis]) {
    for (int i = 0; i < axis; ++i) outer *= shape[i];
    for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  }
};

inline int axis_of(const graph::KernelRequest& request) {
  return static_cast<int>(request.attributes.get<int64_t>("axis"));
}

}  // namespace isochron::ops
