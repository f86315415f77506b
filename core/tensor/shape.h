// Shapes and strides: up to rank 8, stored inline so that handling a shape never allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "isochron/core/tensor/dtype.h"

namespace isochron {

inline constexpr int kMaxRank = 8;

/// A fixed-capacity list of up to 8 integers: the common base of shapes, strides and axis lists.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> values)
      : Dims(std::span<const int64_t>(values.begin(), values.size())) {}
  /// Throws kInvalidArgument beyond rank 8.
  explicit Dims(std::span<const int64_t> values);

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  int64_t operator[](int axis) const { return values_[axis]; }
  int64_t& operator[](int axis) { return values_[axis]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + rank_; }
  int64_t* begin() { return values_.data(); }
  int64_t* end() { return values_.data() + rank_; }
  int64_t back() const { return values_[rank_ - 1]; }
  std::span<const int64_t> span() const { return {values_.data(), static_cast<size_t>(rank_)}; }
  /// Throws kInvalidArgument beyond rank 8.
  void push_back(int64_t value);
  bool contains(int64_t value) const { return std::find(begin(), end(), value) != end(); }
  friend bool operator==(const Dims& a, const Dims& b) {
    return a.rank_ == b.rank_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  std::array<int64_t, kMaxRank> values_{};
  int rank_ = 0;
};

using Strides = Dims;  // in elements, may be 0 (broadcast) or negative
using Axes = Dims;

/// The extents of a tensor. Every extent is >= 0; rank 0 is a scalar with one element.
class Shape : public Dims {
 public:
  Shape() = default;
  /// Throws kInvalidArgument for a negative extent or a rank beyond 8.
  Shape(std::initializer_list<int64_t> extents) : Dims(extents) { validate(); }
  explicit Shape(std::span<const int64_t> extents) : Dims(extents) { validate(); }
  explicit Shape(const Dims& dims) : Dims(dims) { validate(); }

  /// Number of elements. Throws kOverflow.
  int64_t elems() const;
  /// "(32, 100)"; "()" for a scalar.
  std::string str() const;

 private:
  void validate() const;
};

std::string dims_str(const Dims& dims);

/// Convert between a row-major index and a flat position.
Dims unravel(int64_t flat, const Shape& shape);
int64_t ravel(const Dims& index, const Shape& shape);

/// Row-major strides in elements; an empty axis counts as one. Throws kOverflow.
Strides contiguous_strides(const Shape& shape);

/// The shape that `a` and `b` broadcast to under NumPy's rule. Throws kShapeMismatch naming `where`.
Shape broadcast_shapes(const Shape& a, const Shape& b, std::string_view where);

/// The strides with which a tensor of shape `from` and strides `strides` is read as shape `to`; broadcast
/// axes get 0. Precondition: `from` broadcasts to `to`.
Strides broadcast_strides(const Shape& from, const Strides& strides, const Shape& to);

/// Returns `axis` in [0, rank); a negative axis counts from the end. Throws kOutOfRange.
int normalize_axis(int64_t axis, int rank, std::string_view where);

/// Returns the axes normalized and sorted; an empty list means all axes. Throws kOutOfRange, and
/// kInvalidArgument for a repeated axis.
Axes normalize_axes(const Axes& axes, int rank, std::string_view where);

/// The shape after reducing normalized `axes`; with `keep_dims`, these axes stay with extent 1.
Shape reduced_shape(const Shape& shape, const Axes& axes, bool keep_dims);

/// Dtype and shape: all that planning needs to know of a tensor.
struct TensorSpec {
  DType dtype = DType::kF32;
  Shape shape;
  /// Bytes of a contiguous buffer. Throws kOverflow.
  size_t size_bytes() const;
  /// "f32(32, 100)".
  std::string str() const;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

}  // namespace isochron
