#include "isochron/ops/shape/slicing.h"

#include "isochron/core/base/checked.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/block_view.h"
#include "isochron/ops/shape/held_numbers.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron {
namespace ops {
namespace {

// `slice` has the attributes starts, steps and the result's shape. `pad` is the reverse op, with the
// attributes starts, steps, its result's shape and the fill value. Each is the other's gradient.

/// Throws unless index starts + i * steps lies inside `whole` for every i in `part`.
void check_block(const OpCall& call, const Shape& part, const Shape& whole) {
  const Dims& starts = call.attributes.get<Dims>("starts");
  const Dims& steps = call.attributes.get<Dims>("steps");
  require(starts.rank() == whole.rank() && steps.rank() == whole.rank() && part.rank() == whole.rank(),
          ErrorCode::kInvalidArgument, call.op.name,
          "starts {}, steps {}, block {}: need one entry per axis of {}", dims_str(starts), dims_str(steps),
          part.str(), whole.str());
  for (int i = 0; i < whole.rank(); ++i) {
    require(steps[i] != 0, ErrorCode::kInvalidArgument, call.op.name, "the step of axis {} is 0", i);
    if (part[i] == 0) continue;
    const int64_t last =
        checked_add(starts[i], checked_mul<int64_t>(steps[i], part[i] - 1, call.op.name), call.op.name);
    require(starts[i] >= 0 && starts[i] < whole[i] && last >= 0 && last < whole[i], ErrorCode::kOutOfRange,
            call.op.name, "axis {}: elements {} to {} lie outside [0, {}) of {}", i, starts[i], last,
            whole[i], whole.str());
  }
}

std::vector<TensorSpec> infer_slice(const OpCall& call) {
  const Shape shape(call.attributes.get<Dims>("shape"));
  check_block(call, shape, call.inputs[0].shape);
  return {{call.inputs[0].dtype, shape}};
}

std::vector<TensorSpec> infer_pad(const OpCall& call) {
  const Shape shape(call.attributes.get<Dims>("shape"));
  check_block(call, call.inputs[0].shape, shape);
  return {{call.inputs[0].dtype, shape}};
}

Tensor apply_pad(const Tensor& x, const Dims& starts, const Dims& steps, const Shape& shape, double value) {
  static const OpDef& op = row("pad");
  return graph::apply_one(
      op, {x}, {{"starts", starts}, {"steps", steps}, {"shape", static_cast<Dims>(shape)}, {"value", value}});
}

Tensor apply_slice(const Tensor& x, const Dims& starts, const Dims& steps, const Shape& shape) {
  static const OpDef& op = row("slice");
  return graph::apply_one(op, {x},
                          {{"starts", starts}, {"steps", steps}, {"shape", static_cast<Dims>(shape)}});
}

std::vector<Tensor> slice_gradient(const GradientCall& call) {
  return {apply_pad(call.output_gradients[0], call.attributes.get<Dims>("starts"),
                    call.attributes.get<Dims>("steps"), call.inputs[0].shape(), 0)};
}

std::vector<Tensor> pad_gradient(const GradientCall& call) {
  return {apply_slice(call.output_gradients[0], call.attributes.get<Dims>("starts"),
                      call.attributes.get<Dims>("steps"), call.inputs[0].shape())};
}

/// The position in the whole of element `flat` of a block.
int64_t whole_position(const OpCall& call, int64_t flat, const Shape& part, const Shape& whole) {
  Dims index = unravel(flat, part);
  for (int i = 0; i < index.rank(); ++i) {
    index[i] = call.attributes.get<Dims>("starts")[i] + index[i] * call.attributes.get<Dims>("steps")[i];
  }
  return ravel(index, whole);
}

std::vector<std::vector<double>> slice_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                                 const std::vector<std::vector<double>>& inputs) {
  const Shape& part = outputs[0].shape;
  std::vector<double> result;
  for (int64_t i = 0; i < part.elems(); ++i) {
    result.push_back(inputs[0][static_cast<size_t>(whole_position(call, i, part, call.inputs[0].shape))]);
  }
  return {result};
}

std::vector<std::vector<double>> pad_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                               const std::vector<std::vector<double>>& inputs) {
  const Shape& whole = outputs[0].shape;
  std::vector<double> result(static_cast<size_t>(whole.elems()), call.attributes.get<double>("value"));
  for (size_t i = 0; i < inputs[0].size(); ++i) {
    const int64_t at = whole_position(call, static_cast<int64_t>(i), call.inputs[0].shape, whole);
    result[static_cast<size_t>(at)] = inputs[0][i];
  }
  return {result};
}

std::vector<TensorSpec> infer_concatenate(const OpCall& call) {
  require_same_dtype(call);
  const int64_t axis = call.attributes.get<int64_t>("axis");
  Shape shape = call.inputs[0].shape;
  require(axis >= 0 && axis < shape.rank(), ErrorCode::kOutOfRange, call.op.name, "axis {} of {}", axis,
          call.inputs[0].str());
  const int at = static_cast<int>(axis);
  for (size_t k = 1; k < call.inputs.size(); ++k) {
    Shape other = call.inputs[k].shape;
    const bool fits = other.rank() == shape.rank();
    const int64_t extent = fits ? other[at] : 0;
    if (fits) other[at] = shape[at];
    require(fits && other == shape, ErrorCode::kShapeMismatch, call.op.name,
            "inputs 0 and {} must agree but for axis {}: {} and {}", k, axis, call.inputs[0].str(),
            call.inputs[k].str());
    shape[at] = checked_add(shape[at], extent, call.op.name);
  }
  return {{call.inputs[0].dtype, shape}};
}

std::vector<Tensor> concatenate_gradient(const GradientCall& call) {
  const int64_t axis = call.attributes.get<int64_t>("axis");
  std::vector<Tensor> result(call.inputs.size());
  int64_t start = 0;
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    const int64_t extent = call.inputs[k].extent(axis);
    if (call.needed[k]) result[k] = narrow(call.output_gradients[0], axis, start, extent);
    start += extent;
  }
  return result;
}

std::vector<std::vector<double>> concatenate_reference(const OpCall& call,
                                                       std::span<const TensorSpec> outputs,
                                                       const std::vector<std::vector<double>>& inputs) {
  const int axis = static_cast<int>(call.attributes.get<int64_t>("axis"));
  std::vector<double> result;
  for (int64_t i = 0; i < outputs[0].shape.elems(); ++i) {
    Dims index = unravel(i, outputs[0].shape);
    size_t k = 0;
    while (index[axis] >= call.inputs[k].shape[axis]) index[axis] -= call.inputs[k++].shape[axis];
    result.push_back(inputs[k][static_cast<size_t>(ravel(index, call.inputs[k].shape))]);
  }
  return {result};
}

graph::Attributes block(Dims starts, Dims steps, Dims shape) {
  return {{"starts", starts}, {"steps", steps}, {"shape", shape}};
}

graph::Attributes filled_block(Dims starts, Dims steps, Dims shape, double value) {
  graph::Attributes attributes = block(starts, steps, shape);
  attributes.set("value", value);
  return attributes;
}

void add_slice(graph::Registry& registry) {
  OpDef op;
  op.name = "slice";
  op.summary = "a block of elements at starts + i * steps";
  op.infer = infer_slice;
  op.gradient = slice_gradient;
  op.precision.rule = graph::PrecisionRule::kMoves;
  op.reference = slice_reference;
  op.dtypes = any_dtype();
  op.samples = {{{{{7}}}, block({1}, {2}, {3})},
                {{{{4, 6}}}, block({1, 2}, {1, 1}, {2, 3})},
                {{{{4, 6}}}, block({3, 5}, {-1, -2}, {4, 3})},
                {{{{3, 4, 5}}}, block({0, 3, 1}, {1, -1, 2}, {3, 2, 2})},
                {{{{2, 3}}}, block({0, 1}, {1, 1}, {2, 0})},
                {{{{}}}, block({}, {}, {})},
                {{{{90, 800}}}, block({10, 3}, {1, 1}, {80, 790})}};
  op.errors = {{{{DType::kF32, {4}}}, block({2}, {1}, {3}), ErrorCode::kOutOfRange},
               {{{DType::kF32, {4}}}, block({1}, {-1}, {3}), ErrorCode::kOutOfRange},
               {{{DType::kF32, {4}}}, block({1}, {0}, {3}), ErrorCode::kInvalidArgument},
               {{{DType::kF32, {4, 4}}}, block({1}, {1}, {3}), ErrorCode::kInvalidArgument},
               {{{DType::kF32, {4}}}, block({1}, {INT64_MAX}, {3}), ErrorCode::kOverflow}};
  registry.add(std::move(op));
}

void add_pad(graph::Registry& registry) {
  OpDef op;
  op.name = "pad";
  op.summary = "the elements at starts + i * steps of an otherwise constant tensor";
  op.infer = infer_pad;
  op.gradient = pad_gradient;
  op.precision.rule = graph::PrecisionRule::kMoves;
  op.reference = pad_reference;
  op.dtypes = any_dtype();
  op.samples = {{{{{3}}}, filled_block({2}, {1}, {6}, 0)},
                {{{{2, 3}}}, filled_block({1, 2}, {1, 1}, {4, 6}, 1)},
                {{{{4, 3}}}, filled_block({3, 5}, {-1, -2}, {4, 6}, 0)},
                {{{{2, 0}}}, filled_block({0, 1}, {1, 1}, {2, 3}, 1)},
                {{{{}}}, filled_block({}, {}, {}, 0)},
                {{{{80, 790}}}, filled_block({10, 3}, {1, 1}, {90, 800}, 0)}};
  op.errors = {{{{DType::kF32, {3}}}, filled_block({2}, {1}, {4}, 0), ErrorCode::kOutOfRange},
               {{{DType::kF32, {3}}}, filled_block({-1}, {1}, {4}, 0), ErrorCode::kOutOfRange},
               {{{DType::kF32, {3}}}, filled_block({1}, {0}, {4}, 0), ErrorCode::kInvalidArgument},
               {{{DType::kF32, {3, 3}}}, filled_block({1}, {1}, {4}, 0), ErrorCode::kInvalidArgument}};
  registry.add(std::move(op));
}

void add_concatenate(graph::Registry& registry) {
  OpDef op;
  op.name = "concatenate";
  op.summary = "tensors side by side along an axis";
  op.max_inputs = -1;
  op.infer = infer_concatenate;
  op.gradient = concatenate_gradient;
  op.precision.rule = graph::PrecisionRule::kMoves;
  op.reference = concatenate_reference;
  op.dtypes = any_dtype();
  const auto axis = [](int64_t i) { return graph::Attributes{{"axis", i}}; };
  op.samples = {{{{{3}}, {{2}}}, axis(0)},
                {{{{2, 3}}, {{2, 1}}, {{2, 4}}}, axis(1)},
                {{{{2, 3, 2}}, {{1, 3, 2}}}, axis(0)},
                {{{{2, 3, 2}}, {{2, 0, 2}}, {{2, 2, 2}}}, axis(1)},
                {{{{4}}}, axis(0)},
                {{{{90, 500}}, {{90, 300}}}, axis(1)}};
  op.errors = {{{{DType::kF32, {2, 3}}, {DType::kF32, {3, 3}}}, axis(1), ErrorCode::kShapeMismatch},
               {{{DType::kF32, {2, 3}}, {DType::kF32, {2}}}, axis(1), ErrorCode::kShapeMismatch},
               {{{DType::kF32, {2}}, {DType::kF64, {2}}}, axis(0), ErrorCode::kDtypeMismatch},
               {{{DType::kF32, {2}}, {DType::kF32, {2}}}, axis(1), ErrorCode::kOutOfRange}};
  registry.add(std::move(op));
}

/// The first index of a slice of an axis with `extent` elements, and the number of its elements; see `slice`.
std::pair<int64_t, int64_t> resolve_range(int axis, int64_t start, int64_t stop, int64_t step,
                                          int64_t extent) {
  require(step != 0 && step != INT64_MIN, ErrorCode::kInvalidArgument, "slice", "axis {}: the step is {}",
          axis, step);
  const auto from_end = [extent](int64_t bound) { return bound < 0 ? bound + extent : bound; };
  const int64_t first = from_end(start);
  const int64_t end = stop == kSliceEnd ? (step > 0 ? extent : -1) : from_end(stop);
  const int64_t low = step > 0 ? 0 : -1;
  const bool first_inside = step > 0 ? first >= 0 && first <= extent : first >= -1 && first < extent;
  const bool end_inside = end >= low && (stop == kSliceEnd || end <= extent) && (stop < 0 ? end >= 0 : true);
  require(first_inside && end_inside, ErrorCode::kOutOfRange, "slice",
          "axis {}: {}:{} reaches outside its {} elements; bounds are not clipped", axis, start, stop,
          extent);
  const int64_t distance = step > 0 ? end - first : first - end;
  const int64_t stride = step > 0 ? step : -step;
  return {first, distance <= 0 ? 0 : (distance - 1) / stride + 1};
}

}  // namespace

void register_slicing(graph::Registry& registry) {
  add_slice(registry);
  add_pad(registry);
  add_concatenate(registry);
}

}  // namespace ops

Tensor slice(const Tensor& x, const Dims& starts, const Dims& stops, const Dims& steps) {
  ops::require_defined(x, "slice");
  require(starts.rank() == stops.rank() && starts.rank() <= x.rank() &&
              (steps.empty() || steps.rank() == starts.rank()),
          ErrorCode::kInvalidArgument, "slice",
          "expected as many starts as stops (and steps, if any), one per axis of {} at most; got starts {}, "
          "stops {}, steps {}",
          x.spec().str(), dims_str(starts), dims_str(stops), dims_str(steps));
  Dims first = x.shape();
  Dims step = x.shape();
  Shape shape = x.shape();
  for (int i = 0; i < x.rank(); ++i) {
    first[i] = 0;
    step[i] = 1;
    if (i >= starts.rank()) continue;
    if (!steps.empty()) step[i] = steps[i];
    std::tie(first[i], shape[i]) = ops::resolve_range(i, starts[i], stops[i], step[i], x.shape()[i]);
  }
  return ops::apply_slice(x, first, step, shape);
}

Tensor narrow(const Tensor& x, int64_t axis, int64_t start, int64_t count) {
  ops::require_defined(x, "narrow");
  Dims starts = x.shape();
  Dims steps = x.shape();
  std::fill(starts.begin(), starts.end(), 0);
  std::fill(steps.begin(), steps.end(), 1);
  Shape shape = x.shape();
  const int at = normalize_axis(axis, x.rank(), "narrow");
  if (start < 0) start += shape[at];
  require(count >= 0 && start >= 0 && start <= shape[at] - count, ErrorCode::kOutOfRange, "narrow",
          "axis {}: {} elements from {} on are not within [0, {}) of {}; bounds are not clipped", axis, count,
          start, shape[at], x.spec().str());
  starts[at] = start;
  shape[at] = count;
  return ops::apply_slice(x, starts, steps, shape);
}

Tensor concatenate(const std::vector<Tensor>& tensors, int64_t axis) {
  static const graph::OpDef& op = ops::row("concatenate");
  require(!tensors.empty() && tensors[0].defined(), ErrorCode::kInvalidArgument, "concatenate", "{}",
          tensors.empty() ? "needs at least one tensor" : "the first tensor is undefined");
  const int64_t at = normalize_axis(axis, tensors[0].rank(), "concatenate");
  return graph::apply(op, tensors, {{"axis", at}})[0];
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t axis) {
  const ErrorScope scope("stack");
  require(!tensors.empty(), ErrorCode::kInvalidArgument, "stack", "needs at least one tensor");
  std::vector<Tensor> expanded;
  for (const Tensor& tensor : tensors) {
    ops::require_defined(tensor, "stack");
    require(tensor.shape() == tensors[0].shape(), ErrorCode::kShapeMismatch, "stack",
            "all tensors must have one shape: {} and {}", tensors[0].spec().str(), tensor.spec().str());
    expanded.push_back(expand_dims(tensor, axis));
  }
  return concatenate(expanded, axis);
}

std::vector<Tensor> split(const Tensor& x, int64_t count, int64_t axis) {
  const ErrorScope scope("split");
  ops::require_defined(x, "split");
  const int64_t extent = x.extent(axis);
  require(count > 0 && extent % count == 0 && count <= std::max<int64_t>(extent, 1),
          ErrorCode::kShapeMismatch, "split", "axis {} of {} does not divide into {} pieces", axis,
          x.spec().str(), count);
  std::vector<Tensor> pieces;
  for (int64_t i = 0; i < count; ++i) pieces.push_back(narrow(x, axis, i * (extent / count), extent / count));
  return pieces;
}

Tensor select(const Tensor& x, int64_t index, int64_t axis) {
  const ErrorScope scope("select");
  ops::require_defined(x, "select");
  const int at = normalize_axis(axis, x.rank(), "select");
  return squeeze(narrow(x, at, index, 1), {at});
}

std::vector<Tensor> unstack(const Tensor& x, int64_t axis) {
  const ErrorScope scope("unstack");
  ops::require_defined(x, "unstack");
  std::vector<Tensor> slices;
  for (int64_t i = 0; i < x.extent(axis); ++i) slices.push_back(select(x, i, axis));
  return slices;
}

Tensor repeat_interleave(const Tensor& x, int64_t count, int64_t axis) {
  const ErrorScope scope("repeat_interleave");
  ops::require_defined(x, "repeat_interleave");
  require(count >= 0, ErrorCode::kInvalidArgument, "repeat_interleave", "the count must be >= 0, got {}",
          count);
  const int at = normalize_axis(axis, x.rank(), "repeat_interleave");
  int64_t before = 1, after = 1;
  for (int i = 0; i < x.rank(); ++i) {
    if (i <= at) before *= x.shape()[i];
    if (i > at) after *= x.shape()[i];
  }
  Dims shape = x.shape();
  shape[at] = checked_mul(shape[at], count, "repeat_interleave");
  return reshape(broadcast_to(reshape(x, {before, 1, after}), Shape({before, count, after})), shape);
}

Tensor diff(const Tensor& x, int64_t axis) {
  const ErrorScope scope("diff");
  ops::require_defined(x, "diff");
  const int64_t extent = x.extent(axis);
  require(extent >= 1, ErrorCode::kShapeMismatch, "diff", "axis {} of {} is empty", axis, x.spec().str());
  return narrow(x, axis, 1, extent - 1) - narrow(x, axis, 0, extent - 1);
}

Tensor pad(const Tensor& x, const Dims& before, const Dims& after, double value) {
  ops::require_defined(x, "pad");
  require(before.rank() == x.rank() && after.rank() == x.rank(), ErrorCode::kInvalidArgument, "pad",
          "before {}, after {}: need one entry per axis of {}", dims_str(before), dims_str(after),
          x.spec().str());
  ops::require_uncut(value, x.dtype(), "pad");
  ops::require_held(value, x.dtype(), "pad");
  Shape shape = x.shape();
  Dims steps = x.shape();
  for (int i = 0; i < x.rank(); ++i) {
    require(before[i] >= 0 && after[i] >= 0, ErrorCode::kInvalidArgument, "pad",
            "axis {}: {} before and {} after; use slice to remove elements", i, before[i], after[i]);
    shape[i] = checked_add(shape[i], checked_add(before[i], after[i], "pad"), "pad");
    steps[i] = 1;
  }
  return ops::apply_pad(x, before, steps, shape, value);
}

Tensor flip(const Tensor& x, const Axes& axes) {
  ops::require_defined(x, "flip");
  const Axes reversed = normalize_axes(axes, x.rank(), "flip");
  Dims starts = x.shape();
  Dims steps = x.shape();
  for (int i = 0; i < x.rank(); ++i) {
    const bool back = reversed.contains(i);
    starts[i] = back ? x.shape()[i] - 1 : 0;
    steps[i] = back ? -1 : 1;
  }
  return ops::apply_slice(x, starts, steps, x.shape());
}

Tensor roll(const Tensor& x, const Dims& shifts, const Axes& axes) {
  ops::require_defined(x, "roll");
  require(shifts.rank() == axes.rank(), ErrorCode::kInvalidArgument, "roll",
          "shifts {}, axes {}: need one shift an axis", dims_str(shifts), dims_str(axes));
  Tensor result = x;
  for (int i = 0; i < axes.rank(); ++i) {
    const int axis = normalize_axis(axes[i], x.rank(), "roll");
    const int64_t extent = x.shape()[axis];
    const int64_t shift = extent == 0 ? 0 : (shifts[i] % extent + extent) % extent;
    if (shift == 0) continue;
    result = concatenate(
        {narrow(result, axis, extent - shift, shift), narrow(result, axis, 0, extent - shift)}, axis);
  }
  return result;
}

Tensor tile(const Tensor& x, const Dims& counts) {
  ops::require_defined(x, "tile");
  const int rank = std::max(x.rank(), counts.rank());
  Dims shape, repeats;
  int64_t elems = x.elems();
  for (int i = 0; i < rank; ++i) {
    const int own = i - (rank - x.rank()), listed = i - (rank - counts.rank());
    shape.push_back(own < 0 ? 1 : x.shape()[own]);
    repeats.push_back(listed < 0 ? 1 : counts[listed]);
    require(repeats[i] >= 0, ErrorCode::kInvalidArgument, "tile", "counts {}: must be >= 0",
            dims_str(counts));
    elems = checked_mul(elems, repeats[i], "tile");
  }
  Tensor result = reshape(x, shape);
  for (int i = 0; i < rank; ++i) {
    if (repeats[i] == 1) continue;
    // View x as (before, 1, from the axis on) and repeat the middle axis.
    int64_t before = 1, from_axis = 1;
    for (int j = 0; j < rank; ++j) (j < i ? before : from_axis) *= shape[j];
    shape[i] = checked_mul(shape[i], repeats[i], "tile");
    result = reshape(broadcast_to(reshape(result, {before, 1, from_axis}), {before, repeats[i], from_axis}),
                     shape);
  }
  return result;
}

Tensor squeeze(const Tensor& x, const Axes& axes) {
  ops::require_defined(x, "squeeze");
  const Axes removed = normalize_axes(axes, x.rank(), "squeeze");
  Dims shape;
  for (int i = 0; i < x.rank(); ++i) {
    const bool remove = removed.contains(i) && x.shape()[i] == 1;
    require(remove || axes.empty() || !removed.contains(i), ErrorCode::kShapeMismatch, "squeeze",
            "axis {} of {} must have extent 1 to be squeezed", i, x.spec().str());
    if (!remove) shape.push_back(x.shape()[i]);
  }
  return reshape(x, shape);
}

Tensor expand_dims(const Tensor& x, int64_t axis) {
  ops::require_defined(x, "expand_dims");
  const int at = normalize_axis(axis, x.rank() + 1, "expand_dims");
  Dims shape;
  for (int i = 0; i <= x.rank(); ++i) {
    if (i == at) shape.push_back(1);
    if (i < x.rank()) shape.push_back(x.shape()[i]);
  }
  return reshape(x, shape);
}

}  // namespace isochron
