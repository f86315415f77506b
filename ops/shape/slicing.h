// Ops that cut, join and place blocks of elements. Axes count from the end when negative.
#pragma once

#include <cstdint>
#include <vector>

#include "isochron/core/tensor/tensor.h"

namespace isochron {

/// For each of the leading `starts.rank()` axes, the elements start, start + step, ... before `stop`; for the
/// other axes, all elements. A negative start or stop counts from the end; `kSliceEnd` means up to the end in
/// the direction of the step. steps defaults to 1. Unlike in NumPy, bounds are not clipped: throws
/// kOutOfRange if a bound lies outside the axis, kInvalidArgument for a zero step or lists of different
/// lengths.
inline constexpr int64_t kSliceEnd = INT64_MAX;
Tensor slice(const Tensor& x, const Dims& starts, const Dims& stops, const Dims& steps = {});
/// Elements [start, start + count) of one axis; a negative start counts from the end. Throws kOutOfRange for
/// the axis and the bounds.
Tensor narrow(const Tensor& x, int64_t axis, int64_t start, int64_t count);
/// Joins tensors of one dtype, equal in all axes but `axis` (PyTorch's cat). Throws kShapeMismatch,
/// kDtypeMismatch, kOutOfRange for the axis, kInvalidArgument for an empty list.
Tensor concatenate(const std::vector<Tensor>& tensors, int64_t axis = 0);
/// Joins tensors of equal shape along a new axis. Throws like `concatenate`.
Tensor stack(const std::vector<Tensor>& tensors, int64_t axis = 0);
/// `count` equal pieces along `axis` (PyTorch's chunk). Throws kOutOfRange for the axis, kShapeMismatch
/// unless `count` divides the extent.
std::vector<Tensor> split(const Tensor& x, int64_t count, int64_t axis = 0);
/// The slices of `axis`, without that axis (PyTorch's unbind). Throws kOutOfRange for the axis.
std::vector<Tensor> unstack(const Tensor& x, int64_t axis = 0);
/// Slice `index` of `axis`, without that axis: x[index] in PyTorch. A negative index counts from the end.
/// Throws kOutOfRange.
Tensor select(const Tensor& x, int64_t index, int64_t axis = 0);
/// Adds before[i] elements of `value` before axis i and after[i] after it. Throws kInvalidArgument unless
/// both lists have one entry >= 0 per axis; kDtypeMismatch or kOutOfRange for a value that x's dtype can't
/// hold. padding_modes.h pads with elements of x.
Tensor pad(const Tensor& x, const Dims& before, const Dims& after, double value = 0);
/// Reverses the order along `axes`; an empty list means all. Throws kOutOfRange, kInvalidArgument for a
/// repeated axis.
Tensor flip(const Tensor& x, const Axes& axes = {});
/// Moves elements by shifts[i] places along axes[i]; elements that leave at one end reenter at the other.
/// Negative shifts move towards the front. Throws kOutOfRange for an axis, kInvalidArgument for lists of
/// different lengths. An axis may be listed more than once.
Tensor roll(const Tensor& x, const Dims& shifts, const Axes& axes);
/// x repeated counts[i] times along axis i (NumPy's and PyTorch's tile). If the list and x's shape differ in
/// length, the shorter one is extended by leading ones. Throws kInvalidArgument for a negative count or a
/// rank beyond 8.
Tensor tile(const Tensor& x, const Dims& counts);
/// Repeats each slice along `axis` `count` times in a row. Throws kOutOfRange for the axis, kInvalidArgument
/// for a negative count.
Tensor repeat_interleave(const Tensor& x, int64_t count, int64_t axis = 0);
/// Differences of neighbors along `axis`, x[i + 1] - x[i]; the result has one element fewer. Throws
/// kOutOfRange for the axis, kShapeMismatch if it is empty.
Tensor diff(const Tensor& x, int64_t axis = -1);
/// x without `axes`, which must have extent 1; an empty list means all axes of extent 1. Throws
/// kShapeMismatch, kOutOfRange, kInvalidArgument for a repeated axis.
Tensor squeeze(const Tensor& x, const Axes& axes = {});
/// x with a new axis of extent 1 at `axis` of the result (PyTorch's unsqueeze). Throws kOutOfRange.
Tensor expand_dims(const Tensor& x, int64_t axis);

}  // namespace isochron
