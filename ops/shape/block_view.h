// The location of the elements at starts + i * steps of a tensor, which `slice` reads and `pad` writes.
#pragma once

#include <cstdint>

#include "isochron/core/tensor/shape.h"
#include "isochron/graph/ir/op.h"

namespace isochron::ops {

/// Element i (a vector of indices) of the part is element offset + strides . i of the whole.
struct BlockView {
  Strides strides;
  int64_t offset = 0;
};

/// The view given by the attributes "starts" and "steps". Strides are 0 along axes on which the part has at
/// most one element.
inline BlockView block_view(const graph::Attributes& attributes, const Shape& part, const Shape& whole) {
  const Dims& starts = attributes.get<Dims>("starts");
  const Dims& steps = attributes.get<Dims>("steps");
  BlockView view{contiguous_strides(whole)};
  for (int i = 0; i < part.rank(); ++i) {
    int64_t& stride = view.strides[i];
    view.offset += part[i] > 0 ? starts[i] * stride : 0;
    stride = part[i] > 1 ? stride * steps[i] : 0;  // huge steps: one element, stride unused
  }
  return view;
}

}  // namespace isochron::ops
