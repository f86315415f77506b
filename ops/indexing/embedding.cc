#include "isochron/ops/indexing/embedding.h"

#include <cmath>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/along_axis.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/indexing/row_updates.h"
#include "isochron/ops/reduction/cumulative.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"
#include "isochron/ops/shape/slicing.h"

namespace isochron {
namespace ops {
namespace {

using Doubles = std::vector<std::vector<double>>;
using Numbers = std::vector<double>;

// Inputs [table, indices, offsets if `cut`, weights if `weighted`]; outputs [result]. For the maximum there
// is a second output: the position in the indices that each element came from, or -1 if the bag is empty.

BagMode mode_of(const graph::Attributes& attributes) {
  return static_cast<BagMode>(attributes.get<int64_t>("mode"));
}

/// The number of bags of a call: one per row of the indices, or one per offset.
int64_t bags_of(const graph::Attributes& attributes, const Shape& indices, const Shape& offsets) {
  if (!attributes.get<bool>("cut")) return indices[0];
  return offsets[0] - (attributes.get<bool>("last_offset") ? 1 : 0);
}

std::vector<TensorSpec> infer_embedding_bag(const OpCall& call) {
  const bool cut = call.attributes.get<bool>("cut");
  const bool weighted = call.attributes.get<bool>("weighted");
  const size_t tensors = 2 + (cut ? 1 : 0) + (weighted ? 1 : 0);
  require(call.inputs.size() == tensors, ErrorCode::kInvalidArgument, call.op.name,
          "takes {} tensors, got {}", tensors, call.inputs.size());
  require_floating(call, 0);
  require_rank(call, 0, 2);
  require_indices(call, 1);
  require_rank(call, 1, cut ? 1 : 2);
  if (cut) {
    require_indices(call, 2);
    require_rank(call, 2, 1);
  }
  const BagMode mode = mode_of(call.attributes);
  if (weighted) {
    require_dtype(call, tensors - 1, call.inputs[0].dtype);
    require_same_shape(call, 1, tensors - 1);
    require(mode == BagMode::kSum, ErrorCode::kInvalidArgument, call.op.name,
            "only a sum takes weights; choose BagMode::kSum");
  }
  require(mode != BagMode::kMax || !call.attributes.get<bool>("sparse"), ErrorCode::kInvalidArgument,
          call.op.name, "the gradient of BagMode::kMax is dense; leave `sparse` out");
  const int64_t padding = call.attributes.get<int64_t>("padding");
  require(padding >= -1 && padding < call.inputs[0].shape[0], ErrorCode::kOutOfRange, call.op.name,
          "padding_idx {} is not a row of a table {}", padding, call.inputs[0].str());
  const int64_t bags = bags_of(call.attributes, call.inputs[1].shape, cut ? call.inputs[2].shape : Shape{});
  require(bags >= 0 && (!cut || bags > 0 || call.inputs[1].shape.elems() == 0), ErrorCode::kShapeMismatch,
          call.op.name, "offsets {} leave no bag for indices {}", call.inputs[cut ? 2 : 1].str(),
          call.inputs[1].str());
  const Shape result{bags, call.inputs[0].shape[1]};
  if (mode == BagMode::kMax) return {{call.inputs[0].dtype, result}, {DType::kI64, result}};
  return {{call.inputs[0].dtype, result}};
}

/// The bag of each index, i64 (N).
Tensor bag_numbers(const graph::Attributes& attributes, const Tensor& indices, const Tensor& offsets,
                   int64_t bags) {
  const int64_t count = indices.elems();
  if (!attributes.get<bool>("cut")) {
    const Tensor numbers = zeros({count}, DType::kI64);
    for (int64_t i = 0; i < count; ++i) numbers.data<int64_t>()[i] = i / (count / bags);
    return constant(numbers);
  }
  const Tensor starts = narrow(offsets, 0, 0, bags);
  const Tensor begun = scatter_add(constant(ones({bags}, DType::kI64)), starts, count + 1);
  return cumulative_sum(narrow(begun, 0, 0, count), 0) - 1.0;
}

/// What a gradient needs to know about a call: for each index its bag, and its row's share of the result's
/// gradient.
struct BagCall {
  explicit BagCall(const GradientCall& call)
      : attributes(call.attributes),
        mode(mode_of(call.attributes)),
        padding(call.attributes.get<int64_t>("padding")),
        table(call.inputs[0]),
        indices(reshape(call.inputs[1], {call.inputs[1].elems()})),
        weights(attributes.get<bool>("weighted") ? call.inputs.back() : Tensor()),
        bags(call.outputs[0].extent(0)),
        numbers(bag_numbers(attributes, call.inputs[1],
                            attributes.get<bool>("cut") ? call.inputs[2] : Tensor(), bags)) {}

  /// The gradient of the row at each index, (N, D), before weights.
  Tensor spread(Tensor gradient) const {
    if (mode == BagMode::kMean) {
      const DType dtype = gradient.dtype();
      const DType counted = is_half(dtype) ? DType::kF32 : dtype;  // halves count only to 256 or 2,048
      const Tensor one = constant(ones({indices.elems()}, counted));
      const Tensor taken = scatter_add(without_padding(one, indices, padding), numbers, bags);
      gradient = cast(cast(gradient, counted) / as_column(maximum(taken, 1.0)), dtype);
    }
    return gather(gradient, numbers);
  }
  Tensor values(const Tensor& gradient) const {
    const Tensor rows = spread(gradient);
    return weights.defined() ? rows * reshape(weights, {indices.elems(), 1}) : rows;
  }

  const graph::Attributes& attributes;
  BagMode mode;
  int64_t padding;
  Tensor table, indices, weights;
  int64_t bags;
  Tensor numbers;
};

Tensor largest_gradient(const GradientCall& call) {
  const Tensor& positions = call.outputs[1];
  const Tensor& gradient = call.output_gradients[0];
  const Tensor zero = scalar(0, DType::kI64);
  const Tensor indices = reshape(cast(call.inputs[1], DType::kI64), {call.inputs[1].elems()});
  if (indices.elems() == 0) return constant(zeros(call.inputs[0].shape(), call.inputs[0].dtype()));
  const Tensor rows = gather(indices, maximum(positions, zero));
  const Tensor taken = where(less(positions, zero), scalar(0, gradient.dtype()), gradient);
  return put_add_along_axis(taken, rows, call.inputs[0].extent(0), 0);
}

std::vector<Tensor> embedding_bag_gradient(const GradientCall& call) {
  std::vector<Tensor> result(call.inputs.size());
  const Tensor& gradient = call.output_gradients[0];
  if (!gradient.defined()) return result;
  if (mode_of(call.attributes) == BagMode::kMax) {
    if (call.needed[0]) result[0] = largest_gradient(call);
    return result;
  }
  const BagCall bag(call);
  if (call.needed[0])
    result[0] =
        dense_gradient({bag.indices, bag.values(gradient), bag.padding, call.attributes.get<bool>("sparse")},
                       bag.table.extent(0));
  if (bag.weights.defined() && call.needed.back()) {
    const Tensor products = sum(gather(bag.table, bag.indices) * bag.spread(gradient), {1}, false);
    result.back() = reshape(without_padding(products, bag.indices, bag.padding), bag.weights.shape());
  }
  return result;
}

Doubles embedding_bag_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                const Doubles& inputs) {
  const BagMode mode = mode_of(call.attributes);
  const bool cut = call.attributes.get<bool>("cut");
  const double padding = static_cast<double>(call.attributes.get<int64_t>("padding"));
  const size_t width = static_cast<size_t>(outputs[0].shape[1]);
  const size_t bags = static_cast<size_t>(outputs[0].shape[0]);
  Doubles result = {Numbers(bags * width)};
  Numbers positions(bags * width, -1);
  for (size_t bag = 0; bag < bags; ++bag) {
    const size_t length = inputs[1].size() / bags;
    const size_t begin = cut ? static_cast<size_t>(inputs[2][bag]) : bag * length;
    size_t end = cut ? inputs[1].size() : begin + length;
    if (cut && bag + 1 < inputs[2].size()) end = static_cast<size_t>(inputs[2][bag + 1]);
    const auto taken = [&](size_t i) { return inputs[1][i] != padding; };
    double count = 0;
    for (size_t i = begin; i < end; ++i) count += taken(i) ? 1 : 0;
    for (size_t k = 0; k < width; ++k) {
      double& to = result[0][bag * width + k];
      double& position = positions[bag * width + k];
      for (size_t i = begin; i < end; ++i) {
        if (!taken(i)) continue;
        const double x = inputs[0][static_cast<size_t>(inputs[1][i]) * width + k];
        if (mode != BagMode::kMax) {
          to += call.attributes.get<bool>("weighted") ? inputs.back()[i] * x : x;
        } else if (position < 0 || x > to) {
          to = x;
          position = static_cast<double>(i);
        }
      }
      if (mode == BagMode::kMean && count > 0) to /= count;
    }
  }
  if (mode == BagMode::kMax) result.push_back(positions);
  return result;
}

graph::Attributes bag_attributes(const BagOptions& options, bool cut, bool weighted) {
  return {{"mode", static_cast<int64_t>(options.mode)},
          {"padding", options.padding_idx.value_or(-1)},
          {"sparse", options.sparse},
          {"cut", cut},
          {"weighted", weighted},
          {"last_offset", options.include_last_offset}};
}

std::vector<ErrorSample> embedding_bag_errors() {
  const TensorSpec table{DType::kF32, {5, 3}};
  const TensorSpec matrix{DType::kI64, {2, 4}};
  const TensorSpec list{DType::kI64, {8}};
  const TensorSpec offsets{DType::kI64, {3}};
  const BagOptions sum{.mode = BagMode::kSum};
  return {
      {{table, list}, bag_attributes(sum, false, false), ErrorCode::kShapeMismatch},
      {{table, matrix, offsets}, bag_attributes(sum, true, false), ErrorCode::kShapeMismatch},
      {{table, matrix, offsets}, bag_attributes(sum, false, false), ErrorCode::kInvalidArgument},
      {{{DType::kI32, {5, 3}}, matrix}, bag_attributes(sum, false, false), ErrorCode::kDtypeMismatch},
      {{{DType::kF32, {5}}, matrix}, bag_attributes(sum, false, false), ErrorCode::kShapeMismatch},
      {{table, {DType::kF32, {2, 4}}}, bag_attributes(sum, false, false), ErrorCode::kDtypeMismatch},
      {{table, list, {DType::kF32, {3}}}, bag_attributes(sum, true, false), ErrorCode::kDtypeMismatch},
      {{table, list, {DType::kI64, {0}}}, bag_attributes(sum, true, false), ErrorCode::kShapeMismatch},
      {{table, matrix, {DType::kF32, {2, 3}}}, bag_attributes(sum, false, true), ErrorCode::kShapeMismatch},
      {{table, matrix, {DType::kF64, {2, 4}}}, bag_attributes(sum, false, true), ErrorCode::kDtypeMismatch},
      {{table, matrix, {DType::kF32, {2, 4}}}, bag_attributes({}, false, true), ErrorCode::kInvalidArgument},
      {{table, matrix}, bag_attributes({.padding_idx = 5}, false, false), ErrorCode::kOutOfRange},
      {{table, matrix},
       bag_attributes({.mode = BagMode::kMax, .sparse = true}, false, false),
       ErrorCode::kInvalidArgument}};
}

}  // namespace

void register_embedding(graph::Registry& registry) {
  OpDef op;
  op.name = "embedding_bag";
  op.summary = "sum, mean or largest of the rows of a table at the indices of each bag";
  op.min_inputs = 2;
  op.max_inputs = 4;
  op.infer = infer_embedding_bag;
  op.gradient = embedding_bag_gradient;
  op.flops = [](const OpCall& call) {
    return static_cast<double>(call.inputs[0].shape[1] * call.inputs[1].shape.elems());
  };
  op.bytes = [](const OpCall& call, std::span<const TensorSpec> outputs) {
    const TensorSpec& table = call.inputs[0];
    const auto rows = static_cast<size_t>(call.inputs[1].shape.elems());
    const size_t row = table.shape[0] == 0 ? 0 : table.size_bytes() / static_cast<size_t>(table.shape[0]);
    size_t bytes = std::min(table.size_bytes(), rows * row);
    for (const TensorSpec& other : call.inputs.subspan(1)) bytes += other.size_bytes();
    for (const TensorSpec& output : outputs) bytes += output.size_bytes();
    return static_cast<double>(bytes);
  };
  op.reference = embedding_bag_reference;
  op.dtypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
  op.tolerance = 30;  // sums of up to 40 numbers
  const InputSample matrix{{3, 4}, 0, 0, DType::kI64, {0, 2, 5, 5, 1, 1, 1, 3, 2, 4, 0, 5}};
  const InputSample list{{9}, 0, 0, DType::kI32, {5, 0, 1, 1, 4, 2, 2, 2, 3}};
  const InputSample offsets{{4}, 0, 0, DType::kI64, {0, 3, 3, 8}};
  const InputSample ends{{5}, 0, 0, DType::kI32, {0, 0, 4, 7, 9}};
  for (const BagMode mode : {BagMode::kSum, BagMode::kMean, BagMode::kMax}) {
    op.samples.push_back({{{{6, 3}}, matrix}, bag_attributes({.mode = mode}, false, false)});
    op.samples.push_back(
        {{{{6, 3}}, matrix}, bag_attributes({.mode = mode, .padding_idx = 1}, false, false)});
    op.samples.push_back(
        {{{{6, 5}}, list, offsets}, bag_attributes({.mode = mode, .padding_idx = 2}, true, false)});
    op.samples.push_back(
        {{{{6, 2}}, list, ends}, bag_attributes({.mode = mode, .include_last_offset = true}, true, false)});
    op.samples.push_back(
        {{{{50, 300}}, {{40, 30}, 0, 49, DType::kI64}}, bag_attributes({.mode = mode}, false, false)});
    op.samples.push_back(
        {{{{6, 3}}, {{2, 0}, 0, 5, DType::kI64}}, bag_attributes({.mode = mode}, false, false)});
  }
  const BagOptions padded{.mode = BagMode::kSum, .padding_idx = 5};
  op.samples.push_back({{{{6, 3}}, matrix, {{3, 4}}}, bag_attributes(padded, false, true)});
  op.samples.push_back({{{{6, 3}}, list, offsets, {{9}}}, bag_attributes(padded, true, true)});
  op.errors = embedding_bag_errors();
  registry.add(std::move(op));
}

}  // namespace ops

namespace {

/// Converts `padding_idx` to an index from the beginning.
std::optional<int64_t> padding_of(std::optional<int64_t> padding_idx, const Tensor& table,
                                  std::string_view where) {
  require(table.defined(), ErrorCode::kInvalidArgument, where, "the table is undefined");
  require(table.rank() >= 1, ErrorCode::kShapeMismatch, where, "the table has no rows: {}",
          table.spec().str());
  if (!padding_idx) return padding_idx;
  const int64_t rows = table.extent(0);
  require(*padding_idx >= -rows && *padding_idx < rows, ErrorCode::kOutOfRange, where,
          "padding_idx {} is not a row of a table {}", *padding_idx, table.spec().str());
  return *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

Tensor bag_of(std::vector<Tensor> inputs, BagOptions options, bool cut, const Tensor& weights) {
  static const graph::OpDef& op = ops::row("embedding_bag");
  options.padding_idx = padding_of(options.padding_idx, inputs[0], op.name);
  for (const Tensor& input : inputs)
    require(input.defined(), ErrorCode::kInvalidArgument, op.name, "an input is undefined");
  if (weights.defined()) inputs.push_back(weights);
  return graph::apply(op, inputs, ops::bag_attributes(options, cut, weights.defined()))[0];
}

}  // namespace

Tensor embedding(const Tensor& table, const Tensor& indices, const LookupOptions& options) {
  const ErrorScope scope("embedding");
  static const graph::OpDef& op = ops::row("gather");
  const std::optional<int64_t> padding = padding_of(options.padding_idx, table, "embedding");
  require(indices.defined(), ErrorCode::kInvalidArgument, "embedding", "the indices are undefined");
  graph::Attributes attributes{{"axis", int64_t{0}}};
  if (padding) attributes.set("padding", *padding);
  if (options.sparse) attributes.set("sparse", true);
  return graph::apply_one(op, {table, indices}, std::move(attributes));
}

Tensor embedding_bag(const Tensor& table, const Tensor& indices, const BagOptions& options,
                     const Tensor& weights) {
  return bag_of({table, indices}, options, false, weights);
}

Tensor embedding_bag(const Tensor& table, const Tensor& indices, const Tensor& offsets,
                     const BagOptions& options, const Tensor& weights) {
  return bag_of({table, indices, offsets}, options, true, weights);
}

}  // namespace isochron
