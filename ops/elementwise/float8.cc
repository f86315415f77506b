#include "isochron/ops/elementwise/float8.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
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

constexpr std::string_view kE4M3 = "e4m3", kE5M2 = "e5m2";
constexpr std::string_view kGradient = "gradient";

struct GradientAttribute final : graph::AttributeObject {
  explicit GradientAttribute(Float8Gradient made) : gradient(std::move(made)) {}
  std::string str() const override {
    return !gradient.history.defined() ? "no history" : gradient.grows ? "a history that grows" : "a history";
  }
  const Float8Gradient gradient;
};

/// The call in the form that matmul's rules expect.
OpCall of_factors(const OpCall& call) { return {call.op, call.inputs.first(2), call.attributes}; }

void require_history(const OpCall& call, size_t index) {
  require_dtype(call, index, DType::kF32);
  require(call.inputs[index].shape == Shape{kFloat8History}, ErrorCode::kShapeMismatch, call.op.name,
          "input {} is a history of {} magnitudes, got {}", index, kFloat8History, call.inputs[index].str());
}

std::vector<TensorSpec> infer_matmul_float8(const OpCall& call) {
  for (const size_t factor : {0, 1}) require_dtype(call, factor, DType::kF32);
  for (const size_t history : {2, 3}) require_history(call, history);
  for (const char* format : {"a_format", "b_format"}) {
    const auto name = call.attributes.get<std::string>(format);
    require(name == kE4M3 || name == kE5M2, ErrorCode::kInvalidArgument, call.op.name,
            "{} must be e4m3 or e5m2, got {}", format, name);
  }
  return row("matmul").infer(of_factors(call));
}

struct Factor {
  Tensor tensor, history;
  std::string_view format;
};

Tensor product(const Factor& a, const Factor& b, bool transpose_a, bool transpose_b,
               const std::shared_ptr<const graph::AttributeObject>& gradient = nullptr) {
  static const OpDef& op = row("matmul_float8");
  Attributes attributes{{"transpose_a", transpose_a},
                        {"transpose_b", transpose_b},
                        {"a_format", std::string(a.format)},
                        {"b_format", std::string(b.format)}};
  if (gradient) attributes.set(kGradient, gradient);
  return graph::apply_one(op, {a.tensor, b.tensor, a.history, b.history}, std::move(attributes));
}

std::vector<Tensor> matmul_float8_gradient(const GradientCall& call) {
  require(call.attributes.has(kGradient), ErrorCode::kUnsupported, call.op.name,
          "is not differentiable twice; compute what needs it in another precision");
  const Float8Gradient& kept = call.attributes.object<GradientAttribute>(kGradient)->gradient;
  const Tensor& seed = call.output_gradients[0];
  const Tensor before = kept.history.defined() ? kept.history.tensor() : constant(zeros({kFloat8History}));
  const Factor g{seed, float8_history(before, seed), kE5M2};
  const Factor a{call.inputs[0], call.inputs[2], kE4M3}, b{call.inputs[1], call.inputs[3], kE4M3};
  std::vector<Tensor> result(4);
  if (call.needed[0]) result[0] = product(g, b, false, true);
  if (call.needed[1]) {
    const Factor rows{as_rows(a.tensor), a.history, a.format},
        of_rows{as_rows(g.tensor), g.history, g.format};
    result[1] = product(rows, of_rows, true, false);
  }
  if (kept.grows) kept.history.assign(g.history);
  return result;
}

/// Rounding by the definition of the formats, in f64.
double rounded(double x, double scale, int fraction, int least_exponent, double largest) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  const double y = std::clamp(x / scale, -largest, largest);
  if (y == 0) return 0;
  const double step =
      std::exp2(std::max(std::floor(std::log2(std::abs(y))), double(least_exponent)) - fraction);
  return std::nearbyint(y / step) * step * scale;
}

std::vector<double> rounded_factor(const std::vector<double>& factor, const std::vector<double>& history,
                                   const std::string& format) {
  const bool e4m3 = format == kE4M3;
  const double most = e4m3 ? 448 : 57344;
  double largest = *std::max_element(history.begin(), history.end() - 1);
  if (largest == 0) largest = history.back();
  double scale = 1;
  if (largest > 0) {
    while (largest > most * scale) scale *= 2;
    while (largest <= most * scale / 2) scale /= 2;
  }
  std::vector<double> result;
  for (const double x : factor) result.push_back(rounded(x, scale, e4m3 ? 3 : 2, e4m3 ? -6 : -14, most));
  return result;
}

Doubles matmul_float8_reference(const OpCall& call, std::span<const TensorSpec> outputs,
                                const Doubles& inputs) {
  const Doubles factors = {
      rounded_factor(inputs[0], inputs[2], call.attributes.get<std::string>("a_format")),
      rounded_factor(inputs[1], inputs[3], call.attributes.get<std::string>("b_format"))};
  return row("matmul").reference(of_factors(call), outputs, factors);
}

/// The inputs that stay in f32: histories, and kernels, so that kernels are rounded only once.
uint32_t full_inputs(const Attributes& attributes) {
  return attributes.get<std::string>("b_format") == kE4M3 ? 0b1110 : 0b1100;
}

OpSample sample(Shape a, Shape b, bool transpose_a, bool transpose_b, std::string_view a_format,
                std::string_view b_format, double a_largest, double b_largest) {
  const auto history = [](double largest) {
    InputSample input{{kFloat8History}};
    input.values.assign(kFloat8History, 0);
    input.values[3] = largest;
    input.values.back() = largest == 0 ? 0.7 : largest * 3;  // counts only if there is no other entry
    return input;
  };
  return {{{a}, {b}, history(a_largest), history(b_largest)},
          {{"transpose_a", transpose_a},
           {"transpose_b", transpose_b},
           {"a_format", std::string(a_format)},
           {"b_format", std::string(b_format)}}};
}

OpDef matmul_float8_row() {
  OpDef op;
  op.name = "matmul_float8";
  op.summary = "matrix product with operands rounded to 8 bits, scaled by the amax of earlier steps";
  op.min_inputs = op.max_inputs = 4;
  op.infer = infer_matmul_float8;
  op.gradient = matmul_float8_gradient;
  op.precision = {.rule = graph::PrecisionRule::kLow, .full_inputs = full_inputs};
  op.flops = [](const OpCall& call) { return row("matmul").flops(of_factors(call)); };
  op.dtypes = {DType::kF32};
  op.tolerance = 1000;  // a device adds 8-bit products with 13 bits of fraction
  op.reference = matmul_float8_reference;
  op.samples = {sample({32, 48}, {48, 16}, false, false, kE4M3, kE4M3, 2, 2),
                sample({32, 48}, {16, 48}, false, true, kE5M2, kE4M3, 1, 0.3),
                sample({64, 16}, {64, 32}, true, false, kE4M3, kE5M2, 0, 900),
                sample({48, 16}, {32, 48}, true, true, kE4M3, kE4M3, 2, 2),
                sample({5, 7}, {7, 3}, false, false, kE4M3, kE4M3, 0, 0),
                sample({2, 3, 4}, {4, 5}, false, false, kE4M3, kE4M3, 2, 2),
                sample({16, 32}, {32, 16}, false, false, kE5M2, kE5M2, 2, 2),
                sample({65, 130}, {130, 90}, false, false, kE5M2, kE4M3, 1e-3, 1e6),
                sample({0, 4}, {4, 3}, false, false, kE4M3, kE4M3, 2, 2),
                sample({2, 0}, {0, 3}, false, false, kE4M3, kE4M3, 2, 2)};
  const TensorSpec history{DType::kF32, {kFloat8History}};
  const Attributes plain = op.samples[0].attributes;
  Attributes unknown = plain;
  unknown.set("b_format", std::string("e3m4"));
  const TensorSpec a{DType::kF32, {3, 4}}, b{DType::kF32, {4, 5}};
  op.errors = {
      {{a, a, history, history}, plain, ErrorCode::kShapeMismatch},
      {{a, b, history, {DType::kF32, {4}}}, plain, ErrorCode::kShapeMismatch},
      {{a, b, {DType::kF64, {kFloat8History}}, history}, plain, ErrorCode::kDtypeMismatch},
      {{{DType::kF64, {3, 4}}, {DType::kF64, {4, 5}}, history, history}, plain, ErrorCode::kDtypeMismatch},
      {{a, b, history, history}, unknown, ErrorCode::kInvalidArgument}};
  return op;
}

std::vector<TensorSpec> infer_float8_history(const OpCall& call) {
  require_history(call, 0);
  require_dtype(call, 1, DType::kF32);
  return {call.inputs[0]};
}

std::vector<Tensor> decompose_float8_history(const OpCall&, std::span<const Tensor> inputs) {
  const Tensor& history = inputs[0];
  const Tensor newer = slice(history, {1}, {kFloat8History});
  if (inputs[1].elems() == 0) return {concatenate({newer, full({1}, 0, DType::kF32)})};
  const Tensor magnitude = abs(inputs[1]);
  const Tensor finite = where(is_finite(magnitude), magnitude, scalar(0, DType::kF32));
  return {concatenate({newer, reshape(max(finite), {1})})};
}

Doubles float8_history_reference(const OpCall&, std::span<const TensorSpec>, const Doubles& inputs) {
  std::vector<double> result(inputs[0].begin() + 1, inputs[0].end());
  double largest = 0;
  for (const double x : inputs[1]) largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
  result.push_back(largest);
  return {result};
}

OpDef float8_history_row() {
  OpDef op;
  op.name = "float8_history";
  op.summary = "a history of largest magnitudes with that of a tensor behind it";
  op.min_inputs = op.max_inputs = 2;
  op.infer = infer_float8_history;
  op.gradient = no_gradient;
  op.decompose = decompose_float8_history;
  op.may_alias = [](const OpCall&, int, int input) { return input == 0; };
  op.precision = {.rule = graph::PrecisionRule::kFollow,
                  .full_inputs = [](const Attributes&) { return uint32_t{0b01}; },
                  .full_outputs = 0b1};
  op.dtypes = {DType::kF32};
  op.reference = float8_history_reference;
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const InputSample history{{kFloat8History}, 0, 3};
  op.samples = {{{history, {{7, 11}, -5, 3}}},
                {{history, {{}}}},
                {{history, {{0, 4}}}},
                {{history, {{4}, 0, 0, {}, {1, -infinity, nan, -2.5}}}},
                {{history, {{2}, 0, 0, {}, {nan, infinity}}}}};
  const TensorSpec good{DType::kF32, {kFloat8History}}, x{DType::kF32, {3}};
  op.errors = {{{x, x}, {}, ErrorCode::kShapeMismatch},
               {{good, {DType::kF64, {3}}}, {}, ErrorCode::kDtypeMismatch}};
  return op;
}

}  // namespace

void register_float8(graph::Registry& registry) {
  registry.add(matmul_float8_row());
  registry.add(float8_history_row());
}

}  // namespace ops

Tensor matmul_float8(const Tensor& x, const Tensor& kernel, const Tensor& x_history,
                     const Tensor& kernel_history, const Float8Gradient& gradient) {
  require(kernel.rank() == 2, ErrorCode::kShapeMismatch, "matmul_float8",
          "the kernel must have 2 axes, got {}", kernel.spec().str());
  require(!gradient.grows || gradient.history.defined(), ErrorCode::kInvalidArgument, "matmul_float8",
          "a history that is to grow must be defined");
  return ops::product({x, x_history, ops::kE4M3}, {kernel, kernel_history, ops::kE4M3}, false, false,
                      std::make_shared<const ops::GradientAttribute>(gradient));
}

Tensor float8_history(const Tensor& history, const Tensor& x) {
  static const graph::OpDef& op = ops::row("float8_history");
  return graph::apply_one(op, {history, x});
}

}  // namespace isochron
