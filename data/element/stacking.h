// Copies tensors of elements to memory, with padding if the destination has larger extents.
#pragma once

#include <string_view>

#include "isochron/data/element/element.h"

namespace isochron::data {

/// Throws kInvalidArgument for a strided tensor; `where` names the stage that requires contiguous bytes.
void require_contiguous(const Element& element, int index, std::string_view where);
/// Copies the bytes of tensor `index` to `to`. Throws like `require_contiguous`.
void copy_tensor(const Element& element, int index, std::byte* to, std::string_view where);

/// Throws kShapeMismatch if `tensor` is larger than `shape` on any axis. `name` names the tensor in the
/// error.
void require_paddable(const Tensor& tensor, const Shape& shape, std::string_view name);

/// Writes `padding`, rounded to `dtype`, `elems` times to `to`.
void fill_with_padding(DType dtype, double padding, std::byte* to, int64_t elems);
/// Writes `from` (contiguous) to the front of each axis of a contiguous block of `shape` at `to`, and
/// `padding`, rounded to its dtype, to the rest. Throws like `require_paddable`.
void copy_padded(const Tensor& from, const Shape& shape, double padding, std::byte* to,
                 std::string_view name);

}  // namespace isochron::data
