// Pieces of source text for generated kernels: addresses, types, numbers.
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

/// An axis, or several neighboring axes that have a common stride.
struct IndexAxis {
  int64_t extent;
  int64_t stride;
};

/// Axes, outermost first. Axes of extent 1 are left out, and neighbors with a common stride are merged.
std::vector<IndexAxis> joined_axes(std::span<const IndexAxis> axes);
/// The merged axes of `shape` with `strides`.
std::vector<IndexAxis> joined_axes(const Shape& shape, const Strides& strides);
/// An expression for the offset of element `index` of `axes`. `suffix`: that of the index's type; negative
/// strides need "ll".
std::string offset_text(const std::string& index, const std::vector<IndexAxis>& axes,
                        std::string_view suffix = "u");

/// The parts of a printf message that show a position in a tensor.
struct PlaceMessage {
  std::string format;                  // "%u, %u"
  std::vector<std::string> arguments;  // one unsigned per axis
};
/// The parts for element `index`, an expression of type unsigned long long.
PlaceMessage place_message(std::string_view index, const Dims& extents);

/// The prelude's names for the type stored in memory, and for the type of computation.
std::string_view storage_type(DType dtype);
std::string_view computed_type(DType dtype);
/// An unsigned type of that size, for elements that are only moved.
std::string_view moved_type(DType dtype);

/// `value`, exact to the bit.
std::string exact_text(double value);
/// `value` converted to `dtype`, in the type of computation.
std::string number_text(double value, DType dtype);

/// The text of a Window (window_text.h). Throws kUnsupported if its numbers exceed 32 bits.
std::string window_text(const graph::KernelRequest& request, const SlidingWindow& window);

}  // namespace isochron::ops
