#include "isochron/ops/indexing/row_updates.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "isochron/graph/capture/apply.h"
#include "isochron/graph/ir/graph.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/indexing/indexing.h"
#include "isochron/ops/optimizer/optimizer_updates.h"
#include "isochron/ops/optimizer/update_rule.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron {
namespace ops {
namespace {

using Doubles = std::vector<std::vector<double>>;
using Numbers = std::vector<double>;

constexpr int64_t kMaxRows = int64_t{1} << 32;  // row number and position share 64 bits

void require_wide_float(const OpCall& call, size_t index) {
  const DType dtype = call.inputs[index].dtype;
  require(dtype == DType::kF32 || dtype == DType::kF64, ErrorCode::kDtypeMismatch, call.op.name,
          "takes f32 or f64, got {}; cast first", dtype_name(dtype));
}

std::vector<TensorSpec> infer_coalesce_rows(const OpCall& call) {
  require_wide_float(call, 0);
  require_indices(call, 1);
  const TensorSpec& updates = call.inputs[0];
  const Shape& indices = call.inputs[1].shape;
  const int64_t extent = call.attributes.get<int64_t>("extent");
  const int64_t padding = call.attributes.get<int64_t>("padding");
  require(extent >= 0 && extent <= kMaxRows, ErrorCode::kInvalidArgument, call.op.name,
          "the extent must lie in [0, 2^32], got {}", extent);
  require(padding >= -1 && padding < extent, ErrorCode::kInvalidArgument, call.op.name,
          "padding {} is not a row of {}", padding, extent);
  require(indices.elems() < kMaxRows, ErrorCode::kInvalidArgument, call.op.name,
          "takes less than 2^32 indices, got {}", indices.elems());
  bool fits = indices.rank() <= updates.shape.rank();
  for (int i = 0; fits && i < indices.rank(); ++i) fits = indices[i] == updates.shape[i];
  require(fits, ErrorCode::kShapeMismatch, call.op.name,
          "updates {} don't begin with the shape of indices {}", updates.str(), call.inputs[1].str());
  Shape sums{indices.elems()};
  for (int i = indices.rank(); i < updates.shape.rank(); ++i) sums.push_back(updates.shape[i]);
  return {{updates.dtype, sums}, {DType::kI64, {indices.elems()}}, {DType::kI64, {}}};
}

Doubles coalesce_rows_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                const Doubles& inputs) {
  const double padding = static_cast<double>(call.attributes.get<int64_t>("padding"));
  const size_t count = inputs[1].size();
  const size_t row_elems = count == 0 ? 0 : inputs[0].size() / count;
  std::map<double, Numbers> sums;
  for (size_t i = 0; i < count; ++i) {
    if (inputs[1][i] == padding) continue;
    Numbers& sum = sums.try_emplace(inputs[1][i], Numbers(row_elems)).first->second;
    for (size_t k = 0; k < row_elems; ++k) sum[k] += inputs[0][i * row_elems + k];
  }
  Doubles result = {Numbers(static_cast<size_t>(outputs[0].shape.elems())),
                    Numbers(count, -1),
                    {static_cast<double>(sums.size())}};
  size_t row = 0;
  for (const auto& [index, sum] : sums) {
    std::copy(sum.begin(), sum.end(), result[0].begin() + static_cast<std::ptrdiff_t>(row * row_elems));
    result[1][row++] = index;
  }
  return result;
}

OpDef coalesce_rows_row() {
  OpDef op;
  op.name = "coalesce_rows";
  op.summary =
      "a row-sparse gradient with each row once: sums of the updates of equal index, rows, their count";
  op.min_inputs = op.max_inputs = 2;
  op.infer = infer_coalesce_rows;
  op.flops = [](const OpCall& call) { return static_cast<double>(call.inputs[0].shape.elems()); };
  op.reference = coalesce_rows_reference;
  op.tolerance = 30;  // sums of up to 40 numbers
  const auto of = [](int64_t extent, int64_t padding) {
    return graph::Attributes{{"extent", extent}, {"padding", padding}};
  };
  op.samples = {{{{{4, 3}}, {{4}, 0, 4, DType::kI64}}, of(5, -1)},
                {{{{2, 3, 5}}, {{2, 3}, 0, 2, DType::kI32}}, of(3, 1)},
                {{{{7}}, {{7}, 0, 300000, DType::kI64}}, of(300001, -1)},
                {{{{3}}, {{}, 0, 4, DType::kI64}}, of(5, -1)},
                {{{{0, 3}}, {{0}, 0, 4, DType::kI64}}, of(5, 4)},
                {{{{3, 2}}, {{3}, 0, 0, DType::kI64}}, of(1, 0)},
                {{{{2100, 33}}, {{2100}, 0, 59, DType::kI32}}, of(5000, 7)}};
  const TensorSpec updates{DType::kF32, {4, 3}};
  const TensorSpec indices{DType::kI64, {4}};
  op.errors = {{{updates, {DType::kI64, {3}}}, of(5, -1), ErrorCode::kShapeMismatch},
               {{updates, {DType::kI64, {4, 3, 1}}}, of(5, -1), ErrorCode::kShapeMismatch},
               {{updates, {DType::kF32, {4}}}, of(5, -1), ErrorCode::kDtypeMismatch},
               {{{DType::kBF16, {4, 3}}, indices}, of(5, -1), ErrorCode::kDtypeMismatch},
               {{updates, indices}, of(-1, -1), ErrorCode::kInvalidArgument},
               {{updates, indices}, of(kMaxRows + 1, -1), ErrorCode::kInvalidArgument},
               {{updates, indices}, of(5, 5), ErrorCode::kInvalidArgument}};
  return op;
}

/// The optimizer update (ops/optimizer/optimizer_updates.h) that the call applies.
const OpDef& rule_of(const OpCall& call) {
  const OpDef* rule = call.op.registry->find(call.attributes.get<std::string>("rule"));
  require(rule != nullptr && updates_by_elements(*rule), ErrorCode::kInvalidArgument, call.op.name,
          "'{}' is not an elementwise update", call.attributes.get<std::string>("rule"));
  return *rule;
}

void check_list(const OpCall& call, std::string_view name, size_t parameters) {
  const auto numbers = call.attributes.get_or<Numbers>(name, {});
  require(numbers.empty() || numbers.size() == parameters, ErrorCode::kInvalidArgument, call.op.name,
          "{} holds {} numbers for {} parameters", name, numbers.size(), parameters);
  for (const double number : numbers) {
    require(number >= 0 && std::isfinite(number), ErrorCode::kInvalidArgument, call.op.name,
            "{} must be finite and >= 0, got {}", name, number);
  }
}

void check_table(const OpCall& call, const RowUpdateLayout& layout, size_t i) {
  const size_t at = layout.parameter(i);
  require_min_rank(call, at, 1);
  for (size_t k = 0; k < layout.states; ++k) require_same_shape(call, at, layout.state(k, i));
  const Shape& table = call.inputs[at].shape;
  const TensorSpec& values = call.inputs[layout.values(i)];
  bool fits = values.shape.rank() == table.rank();
  for (int axis = 1; fits && axis < table.rank(); ++axis) fits = values.shape[axis] == table[axis];
  require(fits, ErrorCode::kShapeMismatch, call.op.name, "values {} are not rows of a table {}", values.str(),
          call.inputs[at].str());
  require_dtype(call, layout.rows(i), DType::kI64);
  require(call.inputs[layout.rows(i)].shape == Shape{values.shape[0]}, ErrorCode::kShapeMismatch,
          call.op.name, "rows {} don't number the values {}", call.inputs[layout.rows(i)].str(),
          values.str());
  require_dtype(call, layout.count(i), DType::kI64);
  require_rank(call, layout.count(i), 0);
}

std::vector<TensorSpec> infer_update_rows(const OpCall& call) {
  const OpDef& rule = rule_of(call);
  check_update_attributes(rule, call.attributes);
  const RowUpdateLayout layout = row_update_layout(rule, call.attributes, call.inputs.size());
  for (const size_t i : {RowUpdateLayout::kGradientFactor, RowUpdateLayout::kLearningRate}) {
    require_dtype(call, i, DType::kF64);
    require_rank(call, i, 0);
  }
  require_dtype(call, RowUpdateLayout::kStep, DType::kI64);
  require_rank(call, RowUpdateLayout::kStep, 0);
  require_wide_float(call, layout.parameter(0));
  for (size_t i = layout.parameter(0); i < layout.rows(0); ++i)
    require_dtype(call, i, call.inputs[layout.parameter(0)].dtype);
  for (const std::string_view list : {"rate_factors", "weight_decays"})
    check_list(call, list, layout.parameters);
  for (size_t i = 0; i < layout.parameters; ++i) check_table(call, layout, i);
  const auto first = call.inputs.begin() + RowUpdateLayout::kFirstAliased;
  return {first, first + static_cast<std::ptrdiff_t>(layout.outputs())};
}

bool update_rows_alias(const OpCall&, int output, int input) {
  return input == output + static_cast<int>(RowUpdateLayout::kFirstAliased);
}

double update_rows_flops(const OpCall& call) {
  const RowUpdateLayout layout = row_update_layout(rule_of(call), call.attributes, call.inputs.size());
  double elems = 0;
  for (size_t i = 0; i < layout.parameters; ++i)
    elems += static_cast<double>(call.inputs[layout.values(i)].shape.elems());
  return elems * (2.0 + 4.0 * static_cast<double>(layout.states));
}

/// Rows of parameters and states are read and written; rows of gradients are only read.
double update_rows_bytes(const OpCall& call, std::span<const TensorSpec> /*outputs*/) {
  const RowUpdateLayout layout = row_update_layout(rule_of(call), call.attributes, call.inputs.size());
  size_t bytes = 0;
  for (size_t i = 0; i < layout.parameters; ++i)
    bytes += call.inputs[layout.values(i)].size_bytes() * (1 + 2 * (1 + layout.states)) +
             call.inputs[layout.rows(i)].size_bytes();
  return static_cast<double>(bytes);
}

/// Copies the listed rows, updates them by the rule's own reference, and writes them back.
Doubles update_rows_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                              const Doubles& inputs) {
  const OpDef& rule = rule_of(call);
  const RowUpdateLayout layout = row_update_layout(rule, call.attributes, call.inputs.size());
  const auto first = inputs.begin() + RowUpdateLayout::kFirstAliased;
  Doubles result(first, first + static_cast<std::ptrdiff_t>(outputs.size()));
  UpdateLayout dense{layout.parameters, layout.states};
  Doubles taken(dense.inputs());
  std::vector<TensorSpec> specs(dense.inputs());
  for (size_t i = 0; i < UpdateLayout::kNumbers; ++i) taken[i] = inputs[i];
  const auto each_row = [&](size_t i, size_t input, auto visit) {  // visit(element taken, element of table)
    const Shape& shape = call.inputs[layout.parameter(i)].shape;
    const size_t row_elems = static_cast<size_t>(shape.elems() / std::max<int64_t>(shape[0], 1));
    for (size_t r = 0; r < static_cast<size_t>(inputs[layout.count(i)][0]); ++r) {
      for (size_t k = 0; k < row_elems; ++k)
        visit(r * row_elems + k, static_cast<size_t>(inputs[layout.rows(i)][r]) * row_elems + k);
    }
    specs[input] = {call.inputs[layout.parameter(i)].dtype,
                    {static_cast<int64_t>(inputs[layout.count(i)][0] * static_cast<double>(row_elems))}};
  };
  for (size_t i = 0; i < layout.parameters; ++i) {
    each_row(i, dense.parameter(i), [&](size_t, size_t from) {
      taken[dense.parameter(i)].push_back(inputs[layout.parameter(i)][from]);
    });
    each_row(i, dense.gradient(i),
             [&](size_t to, size_t) { taken[dense.gradient(i)].push_back(inputs[layout.values(i)][to]); });
    for (size_t k = 0; k < layout.states; ++k) {
      each_row(i, dense.state(k, i), [&](size_t, size_t from) {
        taken[dense.state(k, i)].push_back(inputs[layout.state(k, i)][from]);
      });
    }
  }
  const std::vector<TensorSpec> results(specs.begin() + UpdateLayout::kFirstAliased,
                                        specs.begin() + static_cast<std::ptrdiff_t>(dense.gradient(0)));
  const Doubles updated = rule.reference({rule, specs, call.attributes}, results, taken);
  for (size_t i = 0; i < layout.parameters; ++i) {
    each_row(i, dense.parameter(i), [&](size_t from, size_t to) {
      result[layout.parameter(i) - RowUpdateLayout::kFirstAliased][to] =
          updated[dense.parameter(i) - UpdateLayout::kFirstAliased][from];
    });
    for (size_t k = 0; k < layout.states; ++k) {
      each_row(i, dense.state(k, i), [&](size_t from, size_t to) {
        result[layout.state(k, i) - RowUpdateLayout::kFirstAliased][to] =
            updated[dense.state(k, i) - UpdateLayout::kFirstAliased][from];
      });
    }
  }
  return result;
}

/// A sample with tables of `shapes` in the middle of a run, and some of their rows to update.
OpSample update_rows_sample(const OpDef& rule, graph::Attributes attributes, const std::vector<Shape>& shapes,
                            const std::vector<Numbers>& rows) {
  const size_t states = update_state_count(rule, attributes);
  attributes.set("rule", rule.name);
  OpSample sample;
  sample.attributes = std::move(attributes);
  sample.inputs.push_back({{}, 0, 0, DType::kF64, {0.5}});
  sample.inputs.push_back({{}, 0, 0, DType::kF64, {0.05}});
  sample.inputs.push_back({{}, 0, 0, DType::kI64, {6}});
  for (const Shape& shape : shapes) sample.inputs.push_back({shape});
  for (size_t k = 0; k < states; ++k) {
    for (const Shape& shape : shapes)
      sample.inputs.push_back({shape, k == 0 ? 0.5 : 0.1, k == 0 ? 1.0 : 0.4});
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    Shape values = shapes[i];
    values[0] = static_cast<int64_t>(rows[i].size());
    sample.inputs.push_back({values});
  }
  for (const Numbers& numbers : rows)
    sample.inputs.push_back({{static_cast<int64_t>(numbers.size())}, 0, 0, DType::kI64, numbers});
  for (const Numbers& numbers : rows) {
    const auto listed = std::count_if(numbers.begin(), numbers.end(), [](double row) { return row >= 0; });
    sample.inputs.push_back({{}, 0, 0, DType::kI64, {static_cast<double>(listed)}});
  }
  return sample;
}

std::vector<ErrorSample> update_rows_errors() {
  const TensorSpec number{DType::kF64, {}};
  const TensorSpec step{DType::kI64, {}};
  const TensorSpec table{DType::kF32, {5, 3}};
  const TensorSpec values{DType::kF32, {2, 3}};
  const TensorSpec rows{DType::kI64, {2}};
  const graph::Attributes adagrad{
      {"rule", std::string("adagrad_update")}, {"epsilon", 1e-2}, {"epsilon_outside_root", false}};
  const auto with = [&](std::string_view name, graph::AttributeValue value) {
    graph::Attributes attributes = adagrad;
    attributes.set(name, std::move(value));
    return attributes;
  };
  const auto call = [&](TensorSpec p, TensorSpec state, TensorSpec g, TensorSpec numbers, TensorSpec count) {
    return std::vector<TensorSpec>{number, number, step, p, state, g, numbers, count};
  };
  std::vector<TensorSpec> short_by_one = call(table, table, values, rows, step);
  short_by_one.pop_back();
  return {{call(table, {DType::kF32, {4, 3}}, values, rows, step), adagrad, ErrorCode::kShapeMismatch},
          {call(table, table, {DType::kF32, {2, 4}}, rows, step), adagrad, ErrorCode::kShapeMismatch},
          {call(table, table, {DType::kF64, {2, 3}}, rows, step), adagrad, ErrorCode::kDtypeMismatch},
          {call(table, table, values, {DType::kI64, {3}}, step), adagrad, ErrorCode::kShapeMismatch},
          {call(table, table, values, {DType::kI32, {2}}, step), adagrad, ErrorCode::kDtypeMismatch},
          {call(table, table, values, rows, {DType::kI64, {1}}), adagrad, ErrorCode::kShapeMismatch},
          {short_by_one, adagrad, ErrorCode::kInvalidArgument},
          {call(table, table, values, rows, step), with("rule", std::string("lamb_update")),
           ErrorCode::kInvalidArgument},
          {call(table, table, values, rows, step), with("weight_decays", Numbers{0.1, 0.1}),
           ErrorCode::kInvalidArgument}};
}

OpDef update_rows_row(const graph::Registry& registry) {
  OpDef op;
  op.name = "update_rows";
  op.summary = "an optimizer's update of the rows of tables that have a gradient";
  op.min_inputs = static_cast<int>(RowUpdateLayout::kNumbers) + 4;
  op.max_inputs = -1;
  op.infer = infer_update_rows;
  op.may_alias = update_rows_alias;
  op.flops = update_rows_flops;
  op.bytes = update_rows_bytes;
  op.reference = update_rows_reference;
  for (const OpDef& rule : registry.rows()) {
    if (!updates_by_elements(rule)) continue;
    std::vector<graph::Attributes> known;  // the rule's own samples repeat each variant
    for (const OpSample& sample : rule.samples) {
      if (std::find(known.begin(), known.end(), sample.attributes) != known.end()) continue;
      if (sample.attributes.has("rate_factors")) continue;
      known.push_back(sample.attributes);
      op.samples.push_back(
          update_rows_sample(rule, sample.attributes, {{7, 5}, {4}, {3, 2, 2}}, {{1, 2, 6, -1}, {0}, {-1}}));
    }
  }
  graph::Attributes grouped{
      {"epsilon", 1e-2}, {"epsilon_outside_root", false}, {"rate_factors", Numbers{2, 0.5}}};
  grouped.set("weight_decays", Numbers{0.1, 0});
  op.samples.push_back(
      update_rows_sample(registry.at("adagrad_update"), grouped, {{9, 33}, {0, 4}}, {{0, 3, 8}, {}}));
  Numbers many;
  for (int i = 0; i < 700; ++i) many.push_back(3 * i);
  op.samples.push_back(update_rows_sample(registry.at("sgd_update"), {{"momentum", 0.0}, {"nesterov", false}},
                                          {{2100, 32}}, {many}));
  op.errors = update_rows_errors();
  return op;
}

thread_local RowGradientScope* t_scope = nullptr;

/// The call that produced a tensor.
struct Origin {
  const OpDef* op;
  const graph::Attributes* attributes;
  std::vector<Tensor> inputs;
};

/// A tensor that is negated, or multiplied or divided by a number (one element that doesn't raise the rank).
struct Scaling {
  Tensor tensor, number;  // undefined: negated
  bool divides = false;
};
std::optional<Scaling> scaling_of(const OpDef& op, std::span<const Tensor> inputs) {
  const auto scales = [](const Tensor& number, const Tensor& tensor) {
    return number.rank() == 0 ||
           (number.elems() == 1 && tensor.elems() != 1 && number.rank() <= tensor.rank());
  };
  if (op.name == "neg") return Scaling{inputs[0], {}};
  if (op.name != "mul" && op.name != "div") return std::nullopt;
  if (scales(inputs[1], inputs[0])) return Scaling{inputs[0], inputs[1], op.name == "div"};
  if (op.name == "mul" && scales(inputs[0], inputs[1])) return Scaling{inputs[1], inputs[0]};
  return std::nullopt;
}

bool is_row_sum(const OpDef& op, const graph::Attributes& attributes) {
  return op.name == "scatter_add" && attributes.get<int64_t>("axis") == 0;
}

/// Appends the row gradients that `origin` is the sum of; returns false if it isn't such a sum.
template <typename Find>
bool add_rows(const Origin& origin, Find find, std::vector<RowGradient>& rows) {
  if (origin.op == nullptr) return false;
  if (is_row_sum(*origin.op, *origin.attributes)) {
    rows.push_back({origin.inputs[1], origin.inputs[0], origin.attributes->get_or<int64_t>("padding", -1),
                    origin.attributes->get_or("sparse", false)});
    return true;
  }
  if (const std::optional<Scaling> scaling = scaling_of(*origin.op, origin.inputs)) {
    const size_t before = rows.size();
    if (!add_rows(find(scaling->tensor), find, rows)) return false;
    for (size_t i = before; i < rows.size(); ++i) {
      if (scaling->number.defined())
        rows[i].factors.push_back({scaling->number, scaling->divides});
      else
        rows[i].negated = !rows[i].negated;
    }
    return true;
  }
  if (origin.op->name != "add" || !(origin.inputs[0].spec() == origin.inputs[1].spec())) return false;
  return add_rows(find(origin.inputs[0]), find, rows) && add_rows(find(origin.inputs[1]), find, rows);
}

/// How a tensor depends on row gradients marked `sparse`.
struct Marked {
  bool rows = false;               // computed from such rows only
  const OpDef* changed = nullptr;  // the op whose result is no longer a sum of rows
};
using MarkedTensors = std::map<const void*, Marked>;

template <typename Find>
Marked marked(const Tensor& tensor, Find find, MarkedTensors& known) {
  const void* key = tensor.is_value() ? static_cast<const void*>(tensor.value().get()) : tensor.impl().get();
  const auto [place, is_new] = known.try_emplace(key);
  Marked& result = place->second;
  const Origin origin = find(tensor);
  if (!is_new || origin.op == nullptr) return result;
  if (is_row_sum(*origin.op, *origin.attributes)) {
    result.rows = origin.attributes->get_or("sparse", false);
  } else if (const std::optional<Scaling> scaling = scaling_of(*origin.op, origin.inputs)) {
    result = marked(scaling->tensor, find, known);
  } else if (origin.op->name == "add") {
    const Marked a = marked(origin.inputs[0], find, known), b = marked(origin.inputs[1], find, known);
    if (a.rows && b.rows) result = a.changed ? a : b;
  } else if (origin.op->fusion == graph::FusionClass::kElementwise) {
    for (const Tensor& input : origin.inputs) {
      if (result.rows || !(input.spec() == tensor.spec())) continue;  // conditions are bool
      result = marked(input, find, known);
      if (result.rows && !result.changed) result.changed = origin.op;
    }
  }
  return result;
}

Origin origin_in_graph(const Tensor& tensor) {
  const graph::Node* node = static_cast<const graph::Value*>(tensor.value().get())->producer;
  if (node == nullptr) return {};
  Origin origin{node->op, &node->attributes, {}};
  for (graph::Value* input : node->inputs) origin.inputs.push_back(graph::Graph::tensor_of(input));
  return origin;
}

}  // namespace

RowUpdateLayout row_update_layout(const OpDef& rule, const graph::Attributes& attributes, size_t inputs) {
  RowUpdateLayout layout;
  layout.states = update_state_count(rule, attributes);
  const size_t lists = 4 + layout.states;
  const size_t tensors = inputs - RowUpdateLayout::kNumbers;
  require(tensors > 0 && tensors % lists == 0, ErrorCode::kInvalidArgument, "update_rows",
          "takes gradient factor, learning rate, step and {} tensors per table, got {} tensors after the "
          "first {}",
          lists, tensors, RowUpdateLayout::kNumbers);
  layout.parameters = tensors / lists;
  return layout;
}

bool updates_by_elements(const OpDef& rule) { return is_optimizer_update(rule) && rule.decompose == nullptr; }

bool zero_gradient_changes_nothing(const OpDef& rule, const graph::Attributes& attributes) {
  const auto asked = optimizer_rule(rule.name).zero_changes_nothing;
  return asked != nullptr && asked(attributes);
}

/// Finds the origin of a tensor computed outside a capture.
struct RowGradientScope::Recorded {
  Origin operator()(const Tensor& tensor) const {
    for (RowGradientScope* scope = t_scope; scope != nullptr; scope = scope->outer_) {
      for (const Call& call : scope->calls_) {
        if (call.output.impl() == tensor.impl()) return {call.op, &call.attributes, call.inputs};
      }
    }
    return {};
  }
};

std::vector<RowGradient> row_gradients(const Tensor& gradient) {
  std::vector<RowGradient> rows;
  constexpr RowGradientScope::Recorded recorded;
  const bool whole = gradient.is_value() ? add_rows(origin_in_graph(gradient), origin_in_graph, rows)
                                         : add_rows(recorded(gradient), recorded, rows);
  return whole ? rows : std::vector<RowGradient>{};
}

const OpDef* changed_row_gradient(const Tensor& gradient) {
  MarkedTensors known;
  return gradient.is_value() ? marked(gradient, origin_in_graph, known).changed
                             : marked(gradient, RowGradientScope::Recorded{}, known).changed;
}

RowGradientScope::RowGradientScope() : outer_(std::exchange(t_scope, this)) { graph::push_observer(this); }

RowGradientScope::~RowGradientScope() {
  graph::remove_observer(this);
  t_scope = outer_;
}

void RowGradientScope::on_apply(const OpDef& op, const graph::Attributes& attributes,
                                std::span<const Tensor> inputs, std::span<const Tensor> outputs) {
  const auto find = [this](const Tensor& tensor) {
    return std::find_if(calls_.begin(), calls_.end(),
                        [&](const Call& call) { return call.output.impl() == tensor.impl(); });
  };
  const auto known = [&](const Tensor& tensor) { return find(tensor) != calls_.end(); };
  const auto sparse = [&](const Tensor& tensor) { return known(tensor) && find(tensor)->sparse; };
  // Only these calls are recorded, because a recorded call keeps the memory of its tensors alive.
  const bool rows = is_row_sum(op, attributes);
  const std::optional<Scaling> scaling = scaling_of(op, inputs);
  const bool of_sparse = rows ? attributes.get_or("sparse", false)
                              : op.fusion == graph::FusionClass::kElementwise &&
                                    std::any_of(inputs.begin(), inputs.end(), sparse);
  if (rows || of_sparse || (scaling && known(scaling->tensor)) ||
      (op.name == "add" && known(inputs[0]) && known(inputs[1])))
    calls_.push_back({outputs[0], &op, attributes, {inputs.begin(), inputs.end()}, of_sparse});
}

Tensor without_padding(const Tensor& updates, const Tensor& indices, int64_t padding) {
  if (padding < 0) return updates;
  Dims column = indices.shape();
  while (column.rank() < updates.rank()) column.push_back(1);
  const Tensor padded =
      reshape(equal(indices, scalar(static_cast<double>(padding), indices.dtype())), column);
  return where(padded, scalar(0, updates.dtype()), updates);
}

Tensor dense_gradient(const RowGradient& gradient, int64_t extent) {
  static const OpDef& op = row("scatter_add");
  graph::Attributes attributes{{"axis", int64_t{0}}, {"extent", extent}};
  if (gradient.padding >= 0) attributes.set("padding", gradient.padding);
  if (gradient.sparse) attributes.set("sparse", true);
  return graph::apply_one(
      op, {without_padding(gradient.values, gradient.indices, gradient.padding), gradient.indices},
      std::move(attributes));
}

void register_row_updates(graph::Registry& registry) {
  registry.add(coalesce_rows_row());
  registry.add(update_rows_row(registry));
}

}  // namespace ops

CoalescedRows coalesce_rows(const Tensor& updates, const Tensor& indices, int64_t extent, int64_t padding) {
  static const graph::OpDef& op = ops::row("coalesce_rows");
  const std::vector<Tensor> inputs = {updates, indices};
  const std::vector<Tensor> results = graph::apply(op, inputs, {{"extent", extent}, {"padding", padding}});
  return {results[0], results[1], results[2]};
}

}  // namespace isochron
