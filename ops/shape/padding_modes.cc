// Each padded axis is one concatenation of the tensor and slices of it. The slices have step 1, because the
// backward pass can then join their gradients in one copy.
#include "isochron/ops/shape/padding_modes.h"

#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {
namespace {

/// Slice `index` of `axis`, `count` times.
Tensor repeated(const Tensor& x, int axis, int64_t index, int64_t count) {
  Shape shape = x.shape();
  shape[axis] = count;
  return broadcast_to(narrow(x, axis, index, 1), shape);
}

/// The `count` elements that come before `axis`, or after it.
Tensor added_elements(const Tensor& x, int axis, int64_t count, PaddingMode mode, bool before) {
  const int64_t extent = x.extent(axis);
  switch (mode) {
    case PaddingMode::kReflect:
      return flip(narrow(x, axis, before ? 1 : extent - 1 - count, count), {axis});
    case PaddingMode::kReplicate:
      return repeated(x, axis, before ? 0 : extent - 1, count);
    case PaddingMode::kCircular:
      return narrow(x, axis, before ? extent - count : 0, count);
  }
  fail(ErrorCode::kInvalidArgument, "pad", "no mode has the number {}", static_cast<int>(mode));
}

/// Throws kShapeMismatch unless `axis` of x has enough elements to add `count` on one side.
void require_enough(const Tensor& x, int axis, int64_t count, PaddingMode mode) {
  if (count == 0) return;
  const int64_t extent = x.extent(axis);
  constexpr const char* kText = "axis {} of {} can't be padded by {} elements on one side; {}";
  switch (mode) {
    case PaddingMode::kReflect:
      return require(count < extent, ErrorCode::kShapeMismatch, "pad", kText, axis, x.spec().str(), count,
                     "kReflect needs fewer than the extent");
    case PaddingMode::kReplicate:
      return require(extent > 0, ErrorCode::kShapeMismatch, "pad", kText, axis, x.spec().str(), count,
                     "kReplicate needs an element to repeat");
    case PaddingMode::kCircular:
      return require(count <= extent, ErrorCode::kShapeMismatch, "pad", kText, axis, x.spec().str(), count,
                     "kCircular needs at most the extent");
  }
}

}  // namespace

Tensor pad(const Tensor& x, const Dims& before, const Dims& after, PaddingMode mode) {
  const ErrorScope scope("pad");
  ops::require_defined(x, "pad");
  require(before.rank() == x.rank() && after.rank() == x.rank(), ErrorCode::kInvalidArgument, "pad",
          "before {}, after {}: need one entry per axis of {}", dims_str(before), dims_str(after),
          x.spec().str());
  for (int i = 0; i < x.rank(); ++i) {
    require(before[i] >= 0 && after[i] >= 0, ErrorCode::kInvalidArgument, "pad",
            "axis {}: {} before and {} after; use slice to remove elements", i, before[i], after[i]);
    require_enough(x, i, before[i], mode);
    require_enough(x, i, after[i], mode);
  }
  Tensor result = x;
  for (int i = 0; i < x.rank(); ++i) {
    if (before[i] == 0 && after[i] == 0) continue;
    std::vector<Tensor> parts;
    if (before[i] > 0) parts.push_back(added_elements(result, i, before[i], mode, true));
    parts.push_back(result);
    if (after[i] > 0) parts.push_back(added_elements(result, i, after[i], mode, false));
    result = concatenate(parts, i);
  }
  return result;
}

}  // namespace isochron
