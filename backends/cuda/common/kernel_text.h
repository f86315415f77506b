// Pieces of the text of generated kernels: addresses, types, numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/core/tensor/dtype.h"
#include "isochron/core/tensor/shape.h"
#include "isochron/graph/ir/kernel.h"
#include "isochron/ops/convolution/window.h"

namespace isochron::ops {

/// An axis, or neighboring ones that count on in one stride.
struct IndexAxis {
  int64_t extent;
  int64_t stride;
};

/// Outermost first; those of one extent are left out, neighbors that count on are joined.
std::vector<IndexAxis> joined_axes(std::span<const IndexAxis> axes);
/// Those of `shape` with `strides`, joined.
std::vector<IndexAxis> joined_axes(const Shape& shape, const Strides& strides);
/// The offset of element `index` among those that `axes` count through. `suffix`: of the index's type,
/// unsigned or "ll"; strides below 0 need the latter.
std::string offset_text(const std::string& index, const std::vector<IndexAxis>& axes,
                        std::string_view suffix = "u");

/// How a message of printf tells of a place in a tensor.
struct PlaceMessage {
  std::string format;                  // "%u, %u"
  std::vector<std::string> arguments;  // an unsigned an axis
};
/// That of element `index`, an expression of unsigned long long.
PlaceMessage place_message(std::string_view index, const Dims& extents);

/// How the prelude calls what is stored in memory, and what is computed with.
std::string_view storage_type(DType dtype);
std::string_view computed_type(DType dtype);
/// An unsigned type of the size, for elements that are moved as they are.
std::string_view moved_type(DType dtype);

/// `value` to the bit.
std::string exact_text(double value);
/// What `value` is as `dtype`, as it is computed with.
std::string number_text(double value, DType dtype);

/// A Window of window_text.h. Throws kUnsupported where it counts further than that does.
std::string window_text(const graph::KernelRequest& request, const SlidingWindow& window);

}  // namespace isochron::ops
