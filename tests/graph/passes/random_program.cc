#include "random_program.h"

#include <algorithm>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::graph {
namespace {

constexpr int64_t kMaxElems = 6000;

struct Unary {
  const char* name;
  bool smooth;
  Tensor (*run)(const Tensor&);
};
// Kept bounded, so that tolerances mean something at the end of a program.
const Unary kUnary[] = {
    {"neg", true, [](const Tensor& x) { return -x; }},
    {"tanh", true, [](const Tensor& x) { return tanh(x); }},
    {"sigmoid", true, [](const Tensor& x) { return sigmoid(x); }},
    {"sin", true, [](const Tensor& x) { return sin(x); }},
    {"cos", true, [](const Tensor& x) { return cos(x); }},
    {"exp(tanh)", true, [](const Tensor& x) { return exp(tanh(x)); }},
    {"log1p(square)", true, [](const Tensor& x) { return log1p(square(x)); }},
    {"sqrt(square + 1)", true, [](const Tensor& x) { return sqrt(square(x) + 1.0); }},
    {"pow(tanh, 2)", true, [](const Tensor& x) { return pow(tanh(x), 2.0); }},
    {"pow(, 1)", true, [](const Tensor& x) { return pow(x, 1.0); }},
    {"+ 0", true, [](const Tensor& x) { return x + 0.0; }},
    {"1 *", true, [](const Tensor& x) { return 1.0 * x; }},
    {"/ 1", true, [](const Tensor& x) { return x / 1.0; }},
    {"--", true, [](const Tensor& x) { return -(-x); }},
    {"0.5 -", true, [](const Tensor& x) { return 0.5 - x; }},
    {"* (2 * 0.25)", true,
     [](const Tensor& x) { return x * (scalar(2, x.dtype()) * scalar(0.25, x.dtype())); }},
    {"softplus", true, [](const Tensor& x) { return softplus(x); }},
    {"gelu", true, [](const Tensor& x) { return gelu(x); }},
    {"atan asinh", true, [](const Tensor& x) { return atan(x) - asinh(x); }},
    {"tan cosh", true, [](const Tensor& x) { return tan(tanh(x)) * cosh(tanh(x)); }},
    {"twice", true, [](const Tensor& x) { return tanh(x) + tanh(x); }},
    {"stop_gradient +", false, [](const Tensor& x) { return stop_gradient(x) * 0.5 + x; }},
    {"abs", false, [](const Tensor& x) { return abs(x); }},
    {"relu", false, [](const Tensor& x) { return relu(x); }},
    {"clip", false, [](const Tensor& x) { return clip(x, -0.5, 0.75); }},
    {"via i32", false, [](const Tensor& x) { return cast(cast(round(x * 3.0), DType::kI32), x.dtype()); }},
    {"via f32", false, [](const Tensor& x) { return cast(cast(x, DType::kF32), x.dtype()); }},
    {"is_finite", false, [](const Tensor& x) { return cast(is_finite(x), x.dtype()); }},
};

struct Binary {
  const char* name;
  bool smooth;
  Tensor (*run)(const Tensor&, const Tensor&);
};
const Binary kBinary[] = {
    {"add", true, [](const Tensor& a, const Tensor& b) { return a + b; }},
    {"sub", true, [](const Tensor& a, const Tensor& b) { return a - b; }},
    {"mul tanh", true, [](const Tensor& a, const Tensor& b) { return a * tanh(b); }},
    {"div", true, [](const Tensor& a, const Tensor& b) { return a / (square(b) + 1.0); }},
    {"pow", true, [](const Tensor& a, const Tensor& b) { return pow(sigmoid(a) + 0.5, tanh(b)); }},
    {"atan2", true, [](const Tensor& a, const Tensor& b) { return atan2(sigmoid(a), sigmoid(b)); }},
    {"maximum", false, [](const Tensor& a, const Tensor& b) { return maximum(a, b); }},
    {"minimum", false, [](const Tensor& a, const Tensor& b) { return minimum(a, b); }},
    {"where", false, [](const Tensor& a, const Tensor& b) { return where(a > b, a, b * 0.5); }},
    {"where and", false,
     [](const Tensor& a, const Tensor& b) {
       return where(logical_and(a > 0.0, logical_not(b > 0.0)), a - b, scalar(0.125, a.dtype()));
     }},
    {"fmod", false, [](const Tensor& a, const Tensor& b) { return fmod(a, square(b) + 1.0); }},
};

struct Reduce {
  const char* name;
  bool smooth;
  Tensor (*run)(const Tensor&, const Axes&, bool);
};
const Reduce kReduce[] = {
    {"sum", true,
     [](const Tensor& x, const Axes& axes, bool keep) { return sum(tanh(x), axes, keep) * 0.1; }},
    {"mean", true, [](const Tensor& x, const Axes& axes, bool keep) { return mean(x, axes, keep); }},
    {"variance", true, [](const Tensor& x, const Axes& axes, bool keep) { return variance(x, axes, keep); }},
    {"prod", true,
     [](const Tensor& x, const Axes& axes, bool keep) { return tanh(prod(cos(x), axes, keep)); }},
    {"max", false, [](const Tensor& x, const Axes& axes, bool keep) { return max(x, axes, keep); }},
    {"min", false, [](const Tensor& x, const Axes& axes, bool keep) { return min(x, axes, keep); }},
};

Tensor product(const Tensor& a, const Tensor& b, bool transpose_b) {
  return matmul(a, tanh(b), false, transpose_b) * 0.3;
}

}  // namespace

RandomProgram::RandomProgram(uint64_t seed, const ProgramOptions& options)
    : options_(options), rng_(seed, 0x9a9) {
  const int64_t extents[] = {1, 2, 3, 4, 5, 7};
  Shape base;
  const int rank = 1 + pick(4);
  for (int i = 0; i < rank; ++i) base.push_back(extents[pick(6)]);
  if (pick(4) == 0) base[rank - 1] = 500 + pick(700);  // more than a tile
  if (!options.smooth && pick(12) == 0) base[pick(static_cast<size_t>(rank))] = 0;
  for (int i = 0; i < rank && base.elems() > kMaxElems; ++i) base[i] = 1;
  const auto operand_shape = [&] {  // `base` with leading axes left out and others of extent one
    Shape shape;
    const int first = pick(3) ? 0 : pick(static_cast<size_t>(rank) + 1);
    for (int i = first; i < rank; ++i) shape.push_back(pick(4) ? base[i] : 1);
    return shape;
  };
  for (int i = 1 + pick(3); i-- > 0;) inputs_.push_back(operand_shape());
  inputs_[0] = base;
  for (int i = pick(4); i-- > 0;) variables_.push_back(operand_shape());
  shapes_ = inputs_;
  shapes_.insert(shapes_.end(), variables_.begin(), variables_.end());
  const int lines = 3 + pick(static_cast<size_t>(options.lines));
  for (int i = 0; i < lines; ++i) {
    add_line();
    if (options.assigns && pick(4) == 0) add_assign();
  }
  for (int i = 1 + pick(4); i-- > 0;) {
    // Mostly late values; sometimes an input, a variable, or the same again.
    const int late = static_cast<int>(shapes_.size()) - 1 - pick(std::min<size_t>(5, shapes_.size()));
    outputs_.push_back(pick(6) ? late : pick(shapes_.size()));
  }
  for (int& output : outputs_) {
    // An assignment has no value of its own.
    const int line = output - static_cast<int>(inputs_.size() + variables_.size());
    if (line >= 0 && lines_[static_cast<size_t>(line)].kind == ProgramLine::Kind::kAssign) output = 0;
  }
}

void RandomProgram::push(ProgramLine line, const Shape& shape) {
  lines_.push_back(std::move(line));
  dropped_.push_back(false);
  shapes_.push_back(shape);
}

void RandomProgram::add_line() {
  using Kind = ProgramLine::Kind;
  const auto any = [this] {
    for (;;) {
      const int value = pick(4)
                            ? static_cast<int>(shapes_.size()) - 1 - pick(std::min<size_t>(6, shapes_.size()))
                            : pick(shapes_.size());
      const int line = value - static_cast<int>(inputs_.size() + variables_.size());
      if (line < 0 || lines_[static_cast<size_t>(line)].kind != Kind::kAssign) return value;
    }
  };
  const auto chosen = [this](const auto& table) {
    for (;;) {
      const int op = pick(std::size(table));
      if (!options_.smooth || table[op].smooth) return op;
    }
  };
  const int a = any();
  const Shape& shape = shapes_[static_cast<size_t>(a)];
  const int rank = shape.rank();
  const int kind = pick(10);
  if (kind < 3) return push({Kind::kUnary, chosen(kUnary), {a}}, shape);
  if (kind < 6) {
    const int b = any();
    Shape result;
    try {
      result = broadcast_shapes(shape, shapes_[static_cast<size_t>(b)], "random");
    } catch (const Error&) {
      return push({Kind::kUnary, chosen(kUnary), {a}}, shape);
    }
    if (result.elems() > kMaxElems) return;
    return push({Kind::kBinary, chosen(kBinary), {a, b}}, result);
  }
  if (kind == 6 && rank > 0) {
    Axes axes;
    for (int i = 0; i < rank; ++i) {
      if (pick(2)) axes.push_back(i);
    }
    if (axes.empty()) axes.push_back(pick(static_cast<size_t>(rank)));
    const bool keep = pick(2) != 0;
    return push({Kind::kReduce, chosen(kReduce), {a}, axes, keep}, reduced_shape(shape, axes, keep));
  }
  if (kind == 7) {
    Shape result = pick(2) ? Shape{shape.elems()} : Shape{1, shape.elems(), 1};
    if (rank == 2 && pick(2)) result = Shape{shape[1], shape[0]};
    return push({Kind::kReshape, 0, {a}, result}, result);
  }
  if (kind == 8 && rank > 1) {
    Dims order;
    for (int i = 0; i < rank; ++i) order.push_back(i);
    for (int i = rank - 1; i > 0; --i) std::swap(order[i], order[pick(static_cast<size_t>(i) + 1)]);
    Shape result = shape;
    for (int i = 0; i < rank; ++i) result[i] = shape[static_cast<int>(order[i])];
    return push({Kind::kTranspose, 0, {a}, order}, result);
  }
  if (kind == 9 && rank == 2 && shape[0] <= 64) {  // a times its own transpose, or another that fits
    return push({Kind::kMatmul, 0, {a, a}, {}, true}, Shape{shape[0], shape[0]});
  }
  push({Kind::kUnary, chosen(kUnary), {a}}, shape);
}

void RandomProgram::add_assign() {
  if (variables_.empty()) return;
  const int variable = pick(variables_.size());
  const Shape& shape = variables_[static_cast<size_t>(variable)];
  std::vector<int> fitting;
  for (size_t value = 0; value < shapes_.size(); ++value) {
    const int line = static_cast<int>(value) - static_cast<int>(inputs_.size() + variables_.size());
    if (line >= 0 && lines_[static_cast<size_t>(line)].kind == ProgramLine::Kind::kAssign) continue;
    if (shapes_[value] == shape) fitting.push_back(static_cast<int>(value));
  }
  const int from = fitting[static_cast<size_t>(pick(fitting.size()))];
  push({ProgramLine::Kind::kAssign, 0, {from}, {}, false, variable}, shape);
}

std::vector<Tensor> RandomProgram::make(const std::vector<Shape>& shapes, uint64_t seed) const {
  Rng rng(seed, 0x71);
  std::vector<Tensor> tensors;
  for (const Shape& shape : shapes) {
    std::vector<double> values(static_cast<size_t>(shape.elems()));
    for (double& value : values) value = rng.uniform() * 3 - 1.5;
    tensors.push_back(from_vector(shape, values, options_.dtype));
  }
  return tensors;
}

std::vector<Tensor> RandomProgram::run(std::span<const Tensor> inputs,
                                       std::span<const Tensor> variables) const {
  using Kind = ProgramLine::Kind;
  std::vector<Tensor> values(inputs.begin(), inputs.end());
  for (const Tensor& variable : variables) values.push_back(variable.refreshed());
  // Reads of variables are copies: eagerly, a handle or view would be stale after an assignment.
  const auto read = [&](int value) {
    const size_t v = static_cast<size_t>(value);
    const bool is_variable = v >= inputs.size() && v < inputs.size() + variables.size();
    return is_variable && options_.assigns ? variables[v - inputs.size()].refreshed() * 1.0 : values[v];
  };
  for (size_t i = 0; i < lines_.size(); ++i) {
    const ProgramLine& line = lines_[i];
    values.emplace_back();
    if (dropped_[i]) continue;
    const Tensor a = read(line.operands[0]);
    Tensor& result = values.back();
    switch (line.kind) {
      case Kind::kUnary:
        result = kUnary[line.op].run(a);
        break;
      case Kind::kBinary:
        result = kBinary[line.op].run(a, read(line.operands[1]));
        break;
      case Kind::kReduce:
        result = kReduce[line.op].run(a, line.dims, line.flag);
        break;
      case Kind::kReshape:
        result = reshape(a, line.dims);
        break;
      case Kind::kTranspose:
        result = transpose(a, line.dims);
        break;
      case Kind::kMatmul:
        result = product(a, read(line.operands[1]), line.flag);
        break;
      case Kind::kAssign:
        assign(variables[static_cast<size_t>(line.variable)], a);
        break;
    }
  }
  std::vector<Tensor> outputs;
  for (const int output : outputs_) outputs.push_back(read(output));
  return outputs;
}

std::string RandomProgram::line_text(const ProgramLine& line) const {
  using Kind = ProgramLine::Kind;
  const int a = line.operands[0];
  switch (line.kind) {
    case Kind::kUnary:
      return fmt::format("{} %{}", kUnary[line.op].name, a);
    case Kind::kBinary:
      return fmt::format("{} %{}, %{}", kBinary[line.op].name, a, line.operands[1]);
    case Kind::kReduce:
      return fmt::format("{} %{} over {}{}", kReduce[line.op].name, a, dims_str(line.dims),
                         line.flag ? " kept" : "");
    case Kind::kReshape:
      return fmt::format("reshape %{}", a);
    case Kind::kTranspose:
      return fmt::format("transpose %{} by {}", a, dims_str(line.dims));
    case Kind::kMatmul:
      return fmt::format("product %{}, %{}{}", a, line.operands[1], line.flag ? " transposed" : "");
    case Kind::kAssign:
      return fmt::format("variable %{} = %{}", inputs_.size() + static_cast<size_t>(line.variable), a);
  }
  return "";
}

std::string RandomProgram::text() const {
  std::string result;
  for (size_t i = 0; i < inputs_.size(); ++i) result += fmt::format("%{} = input {}\n", i, inputs_[i].str());
  for (size_t i = 0; i < variables_.size(); ++i) {
    result += fmt::format("%{} = variable {}\n", inputs_.size() + i, variables_[i].str());
  }
  const size_t first = inputs_.size() + variables_.size();
  for (size_t i = 0; i < lines_.size(); ++i) {
    if (!dropped_[i])
      result += fmt::format("%{} = {} : {}\n", first + i, line_text(lines_[i]), shapes_[first + i].str());
  }
  result += "return";
  for (const int output : outputs_) result += fmt::format(" %{}", output);
  return result + "\n";
}

void RandomProgram::drop_unread() {
  std::vector<bool> needed(shapes_.size(), false);
  for (const int output : outputs_) needed[static_cast<size_t>(output)] = true;
  const size_t first = inputs_.size() + variables_.size();
  for (size_t i = lines_.size(); i-- > 0;) {
    if (lines_[i].kind != ProgramLine::Kind::kAssign && !needed[first + i]) dropped_[i] = true;
    if (dropped_[i]) continue;
    for (const int operand : lines_[i].operands) needed[static_cast<size_t>(operand)] = true;
  }
}

void RandomProgram::shrink(const std::function<bool(const RandomProgram&)>& fails) {
  const auto keep_if_failing = [&](RandomProgram smaller) {
    smaller.drop_unread();
    if (!fails(smaller)) return false;
    *this = std::move(smaller);
    return true;
  };
  for (size_t i = outputs_.size(); i-- > 0 && outputs_.size() > 1;) {
    RandomProgram smaller = *this;
    smaller.outputs_.erase(smaller.outputs_.begin() + static_cast<std::ptrdiff_t>(i));
    keep_if_failing(std::move(smaller));
  }
  for (size_t i = lines_.size(); i-- > 0;) {
    if (dropped_[i] || lines_[i].kind != ProgramLine::Kind::kAssign) continue;
    RandomProgram smaller = *this;
    smaller.dropped_[i] = true;
    keep_if_failing(std::move(smaller));
  }
  // Each line's result replaced by an operand of the same shape.
  const int first = static_cast<int>(inputs_.size() + variables_.size());
  for (size_t i = lines_.size(); i-- > 0;) {
    if (dropped_[i] || lines_[i].kind == ProgramLine::Kind::kAssign) continue;
    const int value = first + static_cast<int>(i);
    for (const int operand : lines_[i].operands) {
      if (!(shapes_[static_cast<size_t>(operand)] == shapes_[static_cast<size_t>(value)])) continue;
      RandomProgram smaller = *this;
      for (ProgramLine& line : smaller.lines_)
        std::replace(line.operands.begin(), line.operands.end(), value, operand);
      std::replace(smaller.outputs_.begin(), smaller.outputs_.end(), value, operand);
      if (keep_if_failing(std::move(smaller))) break;
    }
  }
}

}  // namespace isochron::graph
