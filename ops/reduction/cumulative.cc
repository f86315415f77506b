#include "isochron/ops/reduction/cumulative.h"

#include <cmath>
#include <limits>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/along_axis.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {
namespace ops {
namespace {

int64_t axis_of(const GradientCall& call) { return call.attributes.get<int64_t>("axis"); }
bool reverse_of(const GradientCall& call) { return call.attributes.get<bool>("reverse"); }

std::vector<TensorSpec> infer_numbers(const OpCall& call) {
  require(call.inputs[0].dtype != DType::kBool, ErrorCode::kDtypeMismatch, call.op.name,
          "is not defined on bool; cast to a number first");
  checked_axis(call, call.inputs[0].shape);
  return {call.inputs[0]};
}

std::vector<TensorSpec> infer_floating(const OpCall& call) {
  require_floating(call);
  return infer_numbers(call);
}

std::vector<TensorSpec> infer_extreme(const OpCall& call) {
  infer_numbers(call);
  return {call.inputs[0], {DType::kI64, call.inputs[0].shape}};
}

std::vector<TensorSpec> infer_recurrence(const OpCall& call) {
  require_same_dtype(call);
  require_same_shape(call, 0, 1);
  return infer_floating(call);
}

/// result[k] = x[k + 1] along `axis`, or x[k - 1] if `backward`; `fill` at the end without a neighbor.
Tensor neighbor(const Tensor& x, int64_t axis, bool backward, double fill) {
  const int at = normalize_axis(axis, x.rank(), "cumulative");
  const int64_t extent = x.shape()[at];
  if (extent == 0) return x;
  Dims before = x.shape();
  std::fill(before.begin(), before.end(), 0);
  Dims after = before;
  (backward ? before : after)[at] = 1;
  return pad(narrow(x, at, backward ? 0 : 1, extent - 1), before, after, fill);
}

std::vector<Tensor> cumulative_sum_gradient(const GradientCall& call) {
  return {cumulative_sum(call.output_gradients[0], axis_of(call),
                         {call.attributes.get<bool>("exclusive"), !reverse_of(call)})};
}

/// For y_j = x_0 ... x_j, dx_k = (x_0 ... x_{k-1}) sum_{j >= k} g_j x_{k+1} ... x_j. The sum is computed by a
/// recurrence from the end, which avoids dividing by an x that may be 0.
std::vector<Tensor> product_gradient(const GradientCall& call) {
  const int64_t axis = axis_of(call);
  const bool reverse = reverse_of(call);
  const Tensor& x = call.inputs[0];
  const Tensor& g = call.output_gradients[0];
  if (call.attributes.get<bool>("exclusive")) {
    return {call.outputs[0] * neighbor(linear_recurrence(x, g, axis, !reverse), axis, reverse, 0)};
  }
  const Tensor before = cumulative_product(x, axis, {true, reverse});
  return {before * linear_recurrence(neighbor(x, axis, reverse, 0), g, axis, !reverse)};
}

/// a - b, or 0 if they are equal, even if they are infinite.
Tensor difference(const Tensor& a, const Tensor& b) {
  return where(equal(a, b), scalar(0, a.dtype()), a - b);
}

/// dx_k = e^(x_k - y_k) s_k with s_k = sum_{j >= k} g_j e^(y_k - y_j), computed by a recurrence. No exponent
/// is positive. If x_k is -infinity, dx_k is 0, even if y_k is -infinity too.
std::vector<Tensor> cumulative_log_sum_gradient(const GradientCall& call) {
  const Tensor& y = call.outputs[0];
  const int64_t axis = axis_of(call);
  const bool reverse = reverse_of(call);
  const Tensor& x = call.inputs[0];
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Tensor next = neighbor(y, axis, reverse, kInfinity);
  const Tensor sums = linear_recurrence(exp(difference(y, next)), call.output_gradients[0], axis, !reverse);
  const Tensor share = where(equal(x, -kInfinity), 0.0, exp(difference(x, y)));
  return {share * sums};
}

std::vector<Tensor> cumulative_extreme_gradient(const GradientCall& call) {
  return {put_add_along_axis(call.output_gradients[0], call.outputs[1], call.inputs[0].extent(axis_of(call)),
                             axis_of(call))};
}

std::vector<Tensor> recurrence_gradient(const GradientCall& call) {
  const int64_t axis = axis_of(call);
  const bool reverse = reverse_of(call);
  const Tensor terms =
      linear_recurrence(neighbor(call.inputs[0], axis, reverse, 0), call.output_gradients[0], axis, !reverse);
  return {terms * neighbor(call.outputs[0], axis, !reverse, 0), terms};
}

/// Calls `visit(element, previous)` along every line in scan order; `previous` is -1 for the first element.
template <typename Visit>
void walk(const OpCall& call, Visit visit) {
  const Shape& shape = call.inputs[0].shape;
  const int axis = static_cast<int>(call.attributes.get<int64_t>("axis"));
  const bool reverse = call.attributes.get<bool>("reverse");
  const int64_t stride = contiguous_strides(shape)[axis];
  for (int64_t n = 0; n < shape.elems(); ++n) {
    const int64_t i = reverse ? shape.elems() - 1 - n : n;
    const int64_t k = i / stride % shape[axis];
    const bool first = k == (reverse ? shape[axis] - 1 : 0);
    visit(static_cast<size_t>(i), first ? -1 : (reverse ? i + stride : i - stride));
  }
}

template <double (*kStep)(double, double), int kStart>
std::vector<std::vector<double>> scan_reference(const OpCall& call, std::span<const TensorSpec>,
                                                const std::vector<std::vector<double>>& inputs) {
  std::vector<double> inclusive(inputs[0].size());
  std::vector<double> exclusive(inputs[0].size());
  walk(call, [&](size_t i, int64_t previous) {
    exclusive[i] = previous < 0 ? kStart : inclusive[static_cast<size_t>(previous)];
    inclusive[i] = kStep(exclusive[i], inputs[0][i]);
  });
  return {call.attributes.get<bool>("exclusive") ? exclusive : inclusive};
}
double plus(double a, double b) { return a + b; }
double times(double a, double b) { return a * b; }

std::vector<std::vector<double>> log_sum_reference(const OpCall& call, std::span<const TensorSpec>,
                                                   const std::vector<std::vector<double>>& inputs) {
  std::vector<double> sums(inputs[0].size());
  walk(call, [&](size_t i, int64_t previous) {
    sums[i] = std::exp(inputs[0][i]) + (previous < 0 ? 0 : sums[static_cast<size_t>(previous)]);
  });
  for (double& sum : sums) sum = std::log(sum);
  return {sums};
}

template <bool kLargest>
std::vector<std::vector<double>> extreme_reference(const OpCall& call, std::span<const TensorSpec>,
                                                   const std::vector<std::vector<double>>& inputs) {
  const int axis = static_cast<int>(call.attributes.get<int64_t>("axis"));
  std::vector<double> best = inputs[0];
  std::vector<double> positions(best.size());
  walk(call, [&](size_t i, int64_t previous) {
    const size_t before = static_cast<size_t>(previous);
    const bool keeps = previous >= 0 && (kLargest ? best[i] < best[before] : best[i] > best[before]);
    if (keeps) best[i] = best[before];
    positions[i] = keeps ? positions[before]
                         : static_cast<double>(unravel(static_cast<int64_t>(i), call.inputs[0].shape)[axis]);
  });
  return {best, positions};
}

std::vector<std::vector<double>> recurrence_reference(const OpCall& call, std::span<const TensorSpec>,
                                                      const std::vector<std::vector<double>>& inputs) {
  std::vector<double> result(inputs[0].size());
  walk(call, [&](size_t i, int64_t previous) {
    const double carried = previous < 0 ? 0 : result[static_cast<size_t>(previous)];
    result[i] = inputs[0][i] * carried + inputs[1][i];
  });
  return {result};
}

double flops(const OpCall& call) { return 2.0 * static_cast<double>(call.inputs[0].shape.elems()); }

constexpr std::initializer_list<DType> kFloats = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
constexpr std::initializer_list<DType> kNumbers = {DType::kF64,  DType::kF32, DType::kF16,
                                                   DType::kBF16, DType::kI64, DType::kI32};

/// An op whose samples have values in [low, high], for each axis and both directions.
OpDef axis_row(std::string name, std::string summary, double low, double high, int inputs, bool exclusive) {
  OpDef op;
  op.name = std::move(name);
  op.summary = std::move(summary);
  op.min_inputs = op.max_inputs = inputs;
  op.flops = flops;
  op.tolerance = 2;
  const auto attributes = [exclusive](int64_t axis, int variant) {
    Attributes result{{"axis", axis}};
    if (exclusive) result.set("exclusive", variant / 2 == 1);
    result.set("reverse", variant % 2 == 1);
    return result;
  };
  const std::pair<Shape, int64_t> cases[] = {{{6}, 0},       {{3, 5}, 0}, {{3, 5}, 1},  {{2, 4, 3}, 1},
                                             {{2, 0, 3}, 1}, {{0, 3}, 1}, {{2, 130}, 1}};
  for (const auto& [shape, axis] : cases) {
    for (int variant = 0; variant < (exclusive ? 4 : 2); ++variant) {
      op.samples.push_back({std::vector<InputSample>(static_cast<size_t>(inputs), {shape, low, high}),
                            attributes(axis, variant)});
    }
  }
  op.samples.push_back({std::vector<InputSample>(static_cast<size_t>(inputs), {{70, 3, 320}, low, high}),
                        attributes(1, 1)});  // large enough for all threads
  const auto of = [inputs](DType dtype) {
    return std::vector(static_cast<size_t>(inputs), TensorSpec{dtype, {2, 3}});
  };
  op.errors = {{of(DType::kF32), attributes(2, 0), ErrorCode::kOutOfRange},
               {of(DType::kBool), attributes(0, 0), ErrorCode::kDtypeMismatch}};
  return op;
}

void add_cumulative(graph::Registry& registry, OpDef op, std::vector<TensorSpec> (*infer)(const OpCall&),
                    std::vector<Tensor> (*gradient)(const GradientCall&),
                    graph::ReferenceFunction reference_function, const std::vector<DType>& dtypes) {
  op.infer = infer;
  op.gradient = gradient;
  op.reference = std::move(reference_function);
  op.dtypes = dtypes;
  registry.add(std::move(op));
}

/// A sample that contains zeros.
InputSample with_zeros(const Shape& shape) {
  InputSample sample{shape};
  for (int64_t i = 0; i < shape.elems(); ++i) {
    sample.values.push_back(i % 3 == 1 ? 0 : 0.5 + 0.25 * static_cast<double>(i % 7));
  }
  return sample;
}

Tensor apply_cumulative(const OpDef& op, const Tensor& x, int64_t axis, CumulativeOptions options) {
  require(x.defined(), ErrorCode::kInvalidArgument, op.name, "the input is undefined");
  const int64_t at = normalize_axis(axis, x.rank(), op.name);
  return graph::apply_one(op, {x},
                          {{"axis", at}, {"exclusive", options.exclusive}, {"reverse", options.reverse}});
}

std::pair<Tensor, Tensor> apply_extreme(const OpDef& op, const Tensor& x, int64_t axis, bool reverse) {
  require(x.defined(), ErrorCode::kInvalidArgument, op.name, "the input is undefined");
  const int64_t at = normalize_axis(axis, x.rank(), op.name);
  const std::vector<Tensor> results = graph::apply(op, {&x, 1}, {{"axis", at}, {"reverse", reverse}});
  return {results[0], results[1]};
}

}  // namespace

void register_cumulative(graph::Registry& registry) {
  add_cumulative(registry,
                 axis_row("cumulative_sum", "sum of the elements so far along an axis", -2, 2, 1, true),
                 infer_numbers, cumulative_sum_gradient, scan_reference<plus, 0>, kNumbers);

  OpDef product =
      axis_row("cumulative_product", "product of the elements so far along an axis", 0.7, 1.5, 1, true);
  for (const bool exclusive : {false, true}) {
    product.samples.push_back(
        {{with_zeros({7})}, {{"axis", int64_t{0}}, {"exclusive", exclusive}, {"reverse", false}}});
    product.samples.push_back(
        {{with_zeros({2, 5})}, {{"axis", int64_t{1}}, {"exclusive", exclusive}, {"reverse", true}}});
  }
  add_cumulative(registry, std::move(product), infer_numbers, product_gradient, scan_reference<times, 1>,
                 kNumbers);

  add_cumulative(
      registry,
      axis_row("log_cumulative_sum_exp", "log of the sum of e^x so far along an axis", -2, 2, 1, false),
      infer_floating, cumulative_log_sum_gradient, log_sum_reference, kFloats);

  for (const bool largest : {true, false}) {
    OpDef op = axis_row(largest ? "cumulative_max" : "cumulative_min",
                        largest ? "largest element so far along an axis, and its position"
                                : "smallest element so far along an axis, and its position",
                        -2, 2, 1, false);
    op.skippable_outputs = OpDef::kAllOutputs;
    add_cumulative(registry, std::move(op), infer_extreme, cumulative_extreme_gradient,
                   largest ? extreme_reference<true> : extreme_reference<false>, kNumbers);
  }

  OpDef recurrence =
      axis_row("linear_recurrence", "y_k = factors_k y_(k-1) + terms_k along an axis", -0.9, 0.9, 2, false);
  recurrence.errors.push_back({{{DType::kF32, {2, 3}}, {DType::kF32, {2, 2}}},
                               recurrence.samples[0].attributes,
                               ErrorCode::kShapeMismatch});
  recurrence.errors.push_back({{{DType::kF32, {2, 3}}, {DType::kF64, {2, 3}}},
                               recurrence.samples[0].attributes,
                               ErrorCode::kDtypeMismatch});
  add_cumulative(registry, std::move(recurrence), infer_recurrence, recurrence_gradient, recurrence_reference,
                 kFloats);
}

}  // namespace ops

Tensor cumulative_sum(const Tensor& x, int64_t axis, CumulativeOptions options) {
  static const graph::OpDef& op = ops::row("cumulative_sum");
  return ops::apply_cumulative(op, x, axis, options);
}

Tensor cumulative_product(const Tensor& x, int64_t axis, CumulativeOptions options) {
  static const graph::OpDef& op = ops::row("cumulative_product");
  return ops::apply_cumulative(op, x, axis, options);
}

Tensor log_cumulative_sum_exp(const Tensor& x, int64_t axis, CumulativeOptions options) {
  static const graph::OpDef& op = ops::row("log_cumulative_sum_exp");
  require(x.defined(), ErrorCode::kInvalidArgument, op.name, "the input is undefined");
  const int64_t at = normalize_axis(axis, x.rank(), op.name);
  const Tensor sums = graph::apply_one(op, {x}, {{"axis", at}, {"reverse", options.reverse}});
  if (!options.exclusive) return sums;
  return ops::neighbor(sums, at, !options.reverse, -std::numeric_limits<double>::infinity());
}

std::pair<Tensor, Tensor> cumulative_max(const Tensor& x, int64_t axis, bool reverse) {
  static const graph::OpDef& op = ops::row("cumulative_max");
  return ops::apply_extreme(op, x, axis, reverse);
}

std::pair<Tensor, Tensor> cumulative_min(const Tensor& x, int64_t axis, bool reverse) {
  static const graph::OpDef& op = ops::row("cumulative_min");
  return ops::apply_extreme(op, x, axis, reverse);
}

Tensor linear_recurrence(const Tensor& factors, const Tensor& terms, int64_t axis, bool reverse) {
  static const graph::OpDef& op = ops::row("linear_recurrence");
  require(factors.defined() && terms.defined(), ErrorCode::kInvalidArgument, op.name,
          "an input is undefined");
  const int64_t at = normalize_axis(axis, factors.rank(), op.name);
  return graph::apply_one(op, {factors, terms}, {{"axis", at}, {"reverse", reverse}});
}

}  // namespace isochron
