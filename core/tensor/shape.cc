#include "isochron/core/tensor/shape.h"

#include "isochron/core/base/checked.h"

namespace isochron {

Dims::Dims(std::span<const int64_t> values) {
  require(values.size() <= kMaxRank, ErrorCode::kInvalidArgument, "shape", "rank {} exceeds the maximum {}",
          values.size(), kMaxRank);
  std::copy(values.begin(), values.end(), values_.begin());
  rank_ = static_cast<int>(values.size());
}

void Dims::push_back(int64_t value) {
  require(rank_ < kMaxRank, ErrorCode::kInvalidArgument, "shape", "rank {} exceeds the maximum {}", rank_ + 1,
          kMaxRank);
  values_[rank_++] = value;
}

void Shape::validate() const {
  for (int64_t extent : *this) {
    if (extent < 0) {
      fail(ErrorCode::kInvalidArgument, "shape", "extents must be >= 0, got {}", dims_str(*this));
    }
  }
}

int64_t Shape::elems() const {
  int64_t count = 1;
  for (int64_t extent : *this) {
    if (__builtin_mul_overflow(count, extent, &count)) {
      fail(ErrorCode::kOverflow, "shape", "the product of {} does not fit 64 bits", str());
    }
  }
  return count;
}

std::string Shape::str() const { return dims_str(*this); }

std::string dims_str(const Dims& dims) {
  std::string text = "(";
  for (int i = 0; i < dims.rank(); ++i) text += fmt::format("{}{}", i ? ", " : "", dims[i]);
  return text + ")";
}

Dims unravel(int64_t flat, const Shape& shape) {
  Dims index = shape;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    index[axis] = flat % shape[axis];
    flat /= shape[axis];
  }
  return index;
}

int64_t ravel(const Dims& index, const Shape& shape) {
  int64_t flat = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) flat = flat * shape[axis] + index[axis];
  return flat;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = stride;
    if (i > 0) stride = checked_mul(stride, std::max<int64_t>(shape[i], 1), "strides");
  }
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view where) {
  if (a == b) return a;
  const int rank = std::max(a.rank(), b.rank());
  Shape result = a.rank() == rank ? a : b;
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank());
    const int ib = i - (rank - b.rank());
    const int64_t ea = ia < 0 ? 1 : a[ia];
    const int64_t eb = ib < 0 ? 1 : b[ib];
    if (ea != eb && ea != 1 && eb != 1) {
      fail(ErrorCode::kShapeMismatch, where,
           "shapes {} and {} do not broadcast: extents {} and {} at axis {}", a.str(), b.str(), ea, eb, i);
    }
    result[i] = ea == 1 ? eb : ea;
  }
  return result;
}

Strides broadcast_strides(const Shape& from, const Strides& strides, const Shape& to) {
  Strides result = to;
  const int lead = to.rank() - from.rank();
  for (int i = 0; i < to.rank(); ++i) {
    result[i] = (i < lead || (from[i - lead] == 1 && to[i] != 1)) ? 0 : strides[i - lead];
  }
  return result;
}

int normalize_axis(int64_t axis, int rank, std::string_view where) {
  const int64_t result = axis < 0 ? axis + rank : axis;
  require(rank > 0, ErrorCode::kOutOfRange, where, "a scalar has no axes, got axis {}", axis);
  require(result >= 0 && result < rank, ErrorCode::kOutOfRange, where, "axis {} is outside [-{}, {})", axis,
          rank, rank);
  return static_cast<int>(result);
}

Axes normalize_axes(const Axes& axes, int rank, std::string_view where) {
  Axes result;
  if (axes.empty()) {
    for (int i = 0; i < rank; ++i) result.push_back(i);
    return result;
  }
  for (int64_t axis : axes) {
    const int normalized = normalize_axis(axis, rank, where);
    require(!result.contains(normalized), ErrorCode::kInvalidArgument, where, "axis {} appears twice in {}",
            axis, dims_str(axes));
    result.push_back(normalized);
  }
  std::sort(result.begin(), result.end());
  return result;
}

Shape reduced_shape(const Shape& shape, const Axes& axes, bool keep_dims) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!axes.contains(i)) {
      result.push_back(shape[i]);
    } else if (keep_dims) {
      result.push_back(1);
    }
  }
  return result;
}

size_t TensorSpec::size_bytes() const {
  return checked_mul<size_t>(static_cast<size_t>(shape.elems()), dtype_size(dtype), "tensor size");
}

std::string TensorSpec::str() const { return fmt::format("{}{}", dtype_name(dtype), shape.str()); }

}  // namespace isochron
