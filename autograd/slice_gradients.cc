#include "isochron/autograd/slice_gradients.h"

#include <algorithm>
#include <utility>

#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {

std::optional<SliceGradient> slice_gradient(const graph::OpDef& op, const graph::Attributes& attributes,
                                            std::span<const Tensor> inputs,
                                            std::span<const Tensor> output_gradients) {
  static const graph::OpDef& slice = ops::row("slice");
  if (&op != &slice) return std::nullopt;
  const Shape &whole = inputs[0].shape(), &part = output_gradients[0].shape();
  const Dims& steps = attributes.get<Dims>("steps");
  if (std::ranges::any_of(steps, [](int64_t step) { return step != 1; })) return std::nullopt;
  std::optional<int> cut;
  for (int axis = 0; axis < whole.rank(); ++axis) {
    if (part[axis] == whole[axis]) continue;
    if (cut) return std::nullopt;
    cut = axis;
  }
  if (!cut) return std::nullopt;
  return SliceGradient{*cut, attributes.get<Dims>("starts")[*cut], output_gradients[0]};
}

Tensor joined(std::vector<SliceGradient> slices, const Shape& whole) {
  std::ranges::stable_sort(slices, {},
                           [](const SliceGradient& one) { return std::pair(one.axis, one.start); });
  const Tensor zero = to_device(scalar(0, slices[0].gradient.dtype()), slices[0].gradient.device());
  const auto zeros_of = [&](int axis, int64_t extent) {
    Shape shape = whole;
    shape[axis] = extent;
    return broadcast_to(zero, shape);
  };
  Tensor total;
  while (!slices.empty()) {
    std::vector<SliceGradient> overlapping;
    std::vector<Tensor> parts;
    const int axis = slices[0].axis;
    int64_t end = 0;
    for (SliceGradient& slice : slices) {
      if (slice.axis != axis || slice.start < end) {
        overlapping.push_back(std::move(slice));
        continue;
      }
      if (slice.start > end) parts.push_back(zeros_of(axis, slice.start - end));
      end = slice.end();
      parts.push_back(slice.gradient);
    }
    if (end < whole[axis]) parts.push_back(zeros_of(axis, whole[axis] - end));
    const Tensor more = parts.size() == 1 ? parts[0] : concatenate(parts, axis);
    total = total.defined() ? total + more : more;
    slices = std::move(overlapping);
  }
  return total;
}

}  // namespace isochron
