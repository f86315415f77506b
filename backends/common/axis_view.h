// A tensor viewed as three axes: one chosen axis, and the axes before and after it.
#pragma once

#include <cstdint>

#include "isochron/core/tensor/shape.h"
#include "isochron/graph/ir/kernel.h"

namespace isochron::ops {

/// (outer, extent, inner): the number of elements over the axes before it, along it, and over the axes after
/// it.
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
