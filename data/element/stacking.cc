#include "isochron/data/element/stacking.h"

#include <cstring>

#include "isochron/core/base/error.h"

namespace isochron::data {
namespace {

template <typename T>
T rounded_padding(double padding) {
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    return T(static_cast<float>(padding));
  } else {
    return static_cast<T>(padding);
  }
}

void fill(std::byte* to, size_t elems, size_t elem_bytes, const std::byte* value) {
  for (size_t i = 0; i < elems; ++i) std::memcpy(to + i * elem_bytes, value, elem_bytes);
}

/// The number of elements that one step along axis `axis` - 1 covers.
size_t inner_elems(const Shape& shape, int axis) {
  size_t elems = 1;
  for (; axis < shape.rank(); ++axis) elems *= static_cast<size_t>(shape[axis]);
  return elems;
}

struct PaddedCopy {
  const Shape& from_shape;
  const Shape& to_shape;
  size_t elem_bytes;
  const std::byte* padding;

  void copy(const std::byte* from, std::byte* to, int axis) const {
    if (axis == to_shape.rank()) {
      std::memcpy(to, from, elem_bytes);
      return;
    }
    const size_t from_step = inner_elems(from_shape, axis + 1) * elem_bytes;
    const size_t to_step = inner_elems(to_shape, axis + 1) * elem_bytes;
    const auto there = static_cast<size_t>(from_shape[axis]), wanted = static_cast<size_t>(to_shape[axis]);
    if (from_step == to_step && inner_extents_equal(axis + 1)) {
      std::memcpy(to, from, there * from_step);
    } else {
      for (size_t i = 0; i < there; ++i) copy(from + i * from_step, to + i * to_step, axis + 1);
    }
    fill(to + there * to_step, (wanted - there) * (to_step / elem_bytes), elem_bytes, padding);
  }

  bool inner_extents_equal(int axis) const {
    for (; axis < to_shape.rank(); ++axis) {
      if (from_shape[axis] != to_shape[axis]) return false;
    }
    return true;
  }
};

}  // namespace

void require_contiguous(const Element& element, int index, std::string_view where) {
  require(element[index].contiguous(), ErrorCode::kInvalidArgument, where,
          "'{}' of an element is not contiguous; return its contiguous() copy", element.name(index));
}

void copy_tensor(const Element& element, int index, std::byte* to, std::string_view where) {
  require_contiguous(element, index, where);
  const Tensor& tensor = element[index];
  if (tensor.size_bytes() > 0) std::memcpy(to, tensor.raw(), tensor.size_bytes());
}

void require_paddable(const Tensor& tensor, const Shape& shape, std::string_view name) {
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (tensor.shape()[axis] <= shape[axis]) continue;
    fail(ErrorCode::kShapeMismatch, "padding",
         "'{}' is {}, which does not fit the padded shape {}; pad to more, or cut it in a map", name,
         tensor.shape().str(), shape.str());
  }
}

void fill_with_padding(DType dtype, double padding, std::byte* to, int64_t elems) {
  dispatch_dtype(dtype, [&](auto type) {
    using T = decltype(type);
    std::fill_n(reinterpret_cast<T*>(to), elems, rounded_padding<T>(padding));
  });
}

void copy_padded(const Tensor& from, const Shape& shape, double padding, std::byte* to,
                 std::string_view name) {
  require_paddable(from, shape, name);
  if (shape.elems() == 0) return;
  dispatch_dtype(from.dtype(), [&](auto type) {
    using T = decltype(type);
    const T value = rounded_padding<T>(padding);
    PaddedCopy{from.shape(), shape, sizeof(T), reinterpret_cast<const std::byte*>(&value)}.copy(from.raw(),
                                                                                                to, 0);
  });
}

}  // namespace isochron::data
