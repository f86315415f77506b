// Ops that cut, join and place blocks of elements. Axes count from the end when negative.
#pragma once

#include <cstdint>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// Elements start, start + step, ... before `stop` of each axis (the leading `starts.rank()` axes; the others
/// whole). A negative start or stop counts from the end; `kSliceEnd` means as far as the step's direction
/// goes. steps defaults to 1. Unlike NumPy nothing is clipped: throws kOutOfRange where a bound lies outside
/// the axis, kInvalidArgument for a zero step or lists of different lengths.
inline constexpr int64_t kSliceEnd = INT64_MAX;
Tensor slice(const Tensor& x, const Dims& starts, const Dims& stops, const Dims& steps = {});
/// Elements [start, start + count) of one axis.
Tensor narrow(const Tensor& x, int64_t axis, int64_t start, int64_t count);
/// Joins tensors of one dtype, equal in all axes but `axis`. Throws kShapeMismatch, kDtypeMismatch.
Tensor concatenate(const std::vector<Tensor>& tensors, int64_t axis = 0);
/// Joins equal shapes along a new axis.
Tensor stack(const std::vector<Tensor>& tensors, int64_t axis = 0);
/// `count` equal pieces along `axis`. Throws kShapeMismatch unless the extent divides.
std::vector<Tensor> split(const Tensor& x, int64_t count, int64_t axis = 0);
/// `value` before and after each axis; `before` and `after` have one entry >= 0 an axis.
Tensor pad(const Tensor& x, const Dims& before, const Dims& after, double value = 0);
/// The order along `axes` reversed; an empty list means all.
Tensor flip(const Tensor& x, const Axes& axes = {});
/// x without `axes` of extent 1; an empty list means all such.
Tensor squeeze(const Tensor& x, const Axes& axes = {});
/// x with a new axis of extent 1 at `axis` of the result.
Tensor expand_dims(const Tensor& x, int64_t axis);

}  // namespace isochron
