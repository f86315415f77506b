// Functions that create tensors: from numbers, from vectors, filled. All return eager tensors, even inside a
// capture. The capture binds these tensors by reference (numbers and fills are constants there, listed in the
// capture's report).
#pragma once

#include <span>
#include <type_traits>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// A constant scalar of shape (): `number` converted to `dtype`; integer dtypes drop fractions. Throws
/// kOutOfRange for a number that an integer dtype can't represent, and for a finite number that would be
/// infinite in a floating dtype.
Tensor scalar(double number, DType dtype = DType::kF32);
/// All elements are `number`, converted as by `scalar`. Not a constant, so it may be assigned. Throws like
/// `scalar`.
Tensor full(const Shape& shape, double number, DType dtype = DType::kF32);
Tensor zeros(const Shape& shape, DType dtype = DType::kF32);
Tensor ones(const Shape& shape, DType dtype = DType::kF32);
/// Zeros or ones of the shape and dtype of `tensor`, on its device.
Tensor zeros_like(const Tensor& tensor);
Tensor ones_like(const Tensor& tensor);
/// 0, 1, ..., count - 1. Throws kInvalidArgument for a negative count, kOutOfRange if `dtype` can't represent
/// the last number (see `scalar`).
Tensor arange(int64_t count, DType dtype = DType::kI64);
/// `count` numbers at equal distances from `start` to `stop`, both included; `start` alone if `count` is 1.
/// Computed in f64 and rounded to `dtype`; integer dtypes drop fractions. Throws kInvalidArgument for a
/// negative count or ends that aren't finite, kOutOfRange for an end that `dtype` can't represent.
Tensor linspace(double start, double stop, int64_t count, DType dtype = DType::kF32);
/// A copy of `values` in row-major order, converted to `dtype`; integer dtypes drop fractions. Throws
/// kShapeMismatch if the counts differ, and kOutOfRange like `scalar`.
Tensor from_vector(const Shape& shape, const std::vector<double>& values, DType dtype = DType::kF32);
/// A copy of `values`, with the dtype of T. Throws kShapeMismatch if the counts differ.
template <typename T>
Tensor from_span(const Shape& shape, std::span<const T> values);
template <typename T>
Tensor from_vector(const Shape& shape, const std::vector<T>& values) {
  static_assert(!std::is_same_v<T, bool>,
                "std::vector<bool> has no array of elements; use std::vector<uint8_t>");
  const ErrorScope scope("from_vector");
  return from_span<T>(shape, values);
}

/// Returns a constant with the content of `tensor`, on its device. Graphs may fold it, and it can't be
/// assigned. Throws kInvalidArgument for a strided tensor, kCaptureViolation for a value of a graph.
Tensor constant(const Tensor& tensor);

namespace internal {
Tensor copy_in(const TensorSpec& spec, const void* data, size_t count);
}
template <typename T>
Tensor from_span(const Shape& shape, std::span<const T> values) {
  return internal::copy_in({dtype_of<T>, shape}, values.data(), values.size());
}

}  // namespace isochron
