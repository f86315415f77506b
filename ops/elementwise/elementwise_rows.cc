// Registry rows and gradients of the element ops.
#include "isochron/ops/elementwise/elementwise.h"

#include <cmath>
#include <functional>
#include <utility>

#include "isochron/graph/capture/apply.h"
#include "isochron/ops/rows/families.h"
#include "isochron/ops/rows/registry.h"
#include "isochron/ops/rows/rules.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/held_numbers.h"

namespace isochron {
namespace ops {
namespace {

using graph::ElementOp;
using graph::ElementProgram;
using graph::FusionClass;

std::vector<TensorSpec> infer_broadcast(const OpCall& call) {
  require_same_dtype(call);
  Shape shape = call.inputs[0].shape;
  for (size_t i = 1; i < call.inputs.size(); ++i)
    shape = broadcast_shapes(shape, call.inputs[i].shape, call.op.name);
  const bool predicate = graph::element_op_is_predicate(call.op.element);
  return {{predicate ? DType::kBool : call.inputs[0].dtype, shape}};
}

std::vector<TensorSpec> infer_floating(const OpCall& call) {
  require_floating(call);
  return infer_broadcast(call);
}

std::vector<TensorSpec> infer_number(const OpCall& call) {
  require(call.inputs[0].dtype != DType::kBool, ErrorCode::kDtypeMismatch, call.op.name,
          "is not defined on bool; cast to a number first");
  return infer_broadcast(call);
}

std::vector<TensorSpec> infer_logical(const OpCall& call) {
  require_dtype(call, 0, DType::kBool);
  return infer_broadcast(call);
}

std::vector<TensorSpec> infer_where(const OpCall& call) {
  require_dtype(call, 0, DType::kBool);
  require_same_dtype(call, 1);
  const Shape shape = broadcast_shapes(call.inputs[1].shape, call.inputs[2].shape, call.op.name);
  return {{call.inputs[1].dtype, broadcast_shapes(call.inputs[0].shape, shape, call.op.name)}};
}

std::vector<TensorSpec> infer_cast(const OpCall& call) {
  return {{call.attributes.get<DType>("dtype"), call.inputs[0].shape}};
}

/// The output may overwrite an operand if each element is read at the index where it is written, and elements
/// have the same size.
bool elementwise_alias(const OpCall& call, int, int input) {
  const TensorSpec output = infer_outputs(call.op, call.inputs, call.attributes)[0];
  const TensorSpec& spec = call.inputs[static_cast<size_t>(input)];
  return spec.shape == output.shape && dtype_size(spec.dtype) == dtype_size(output.dtype);
}

double elementwise_flops(const OpCall& call) {
  return static_cast<double>(infer_outputs(call.op, call.inputs, call.attributes)[0].shape.elems());
}

std::vector<TensorSpec> infer_fused(const OpCall& call) {
  const auto program = call.attributes.object<ElementProgram>("program");
  std::vector<TensorSpec> outputs;
  for (size_t i = 0; i < program->outputs.size(); ++i)
    outputs.push_back(program->output_spec(static_cast<int>(i)));
  return outputs;
}

bool fused_alias(const OpCall& call, int output, int input) {
  const auto program = call.attributes.object<ElementProgram>("program");
  const ElementProgram::Output& out = program->outputs[static_cast<size_t>(output)];
  const TensorSpec& spec = call.inputs[static_cast<size_t>(input)];
  return !out.reduced && spec.shape == program->shape &&
         dtype_size(spec.dtype) == dtype_size(program->register_dtype(out.reg));
}

double fused_flops(const OpCall& call) {
  const auto program = call.attributes.object<ElementProgram>("program");
  return static_cast<double>(program->shape.elems()) * static_cast<double>(program->code.size());
}

// --- gradients: g is the gradient of the output, x and y are the inputs ---

using Grad = std::vector<Tensor>;
const Tensor& g(const GradientCall& c) { return c.output_gradients[0]; }
const Tensor& x(const GradientCall& c) { return c.inputs[0]; }
const Tensor& y(const GradientCall& c) { return c.inputs[1]; }
const Tensor& out(const GradientCall& c) { return c.outputs[0]; }

/// The gradients of a broadcasting binary op, from gradients with the broadcast shape.
template <typename Fa, typename Fb>
Grad both(const GradientCall& c, Fa fa, Fb fb) {
  Grad result(2);
  if (c.needed[0]) result[0] = sum_to(fa(), x(c).shape());
  if (c.needed[1]) result[1] = sum_to(fb(), y(c).shape());
  return result;
}

Grad add_gradient(const GradientCall& c) {
  return both(
      c, [&] { return g(c); }, [&] { return g(c); });
}
Grad sub_gradient(const GradientCall& c) {
  return both(
      c, [&] { return g(c); }, [&] { return -g(c); });
}
Grad mul_gradient(const GradientCall& c) {
  return both(
      c, [&] { return g(c) * y(c); }, [&] { return g(c) * x(c); });
}
Grad div_gradient(const GradientCall& c) {
  return both(
      c, [&] { return g(c) / y(c); },
      [&] { return -(g(c) * (out(c) / y(c))); });  // avoids a square, which overflows in f16 from 256 on
}
Grad pow_gradient(const GradientCall& c) {
  return both(
      c,
      [&] {
        // Avoids 0 to the power of -1 if the exponent is 0.
        const Tensor one = scalar(1, y(c).dtype());
        const Tensor exponent = where(equal(y(c), scalar(0, y(c).dtype())), one, y(c));
        return g(c) * y(c) * pow(x(c), exponent - 1.0);
      },
      [&] {
        const Tensor positive = x(c) > 0.0;
        const Tensor safe = where(positive, x(c), scalar(1, x(c).dtype()));
        return g(c) * where(positive, out(c) * log(safe), scalar(0, x(c).dtype()));
      });
}
Grad mod_gradient(const GradientCall& c) {
  return both(
      c, [&] { return g(c); }, [&] { return -g(c) * trunc(x(c) / y(c)); });
}
/// The share of the gradient for the first of two candidates: 1 if it wins, 1/2 on a tie.
Tensor winner_share(const Tensor& wins, const Tensor& ties, DType dtype) {
  return cast(wins, dtype) + cast(ties, dtype) * 0.5;
}
Grad maximum_gradient(const GradientCall& c) {
  const Tensor ties = equal(x(c), y(c));
  const DType dtype = g(c).dtype();
  return both(
      c, [&] { return g(c) * winner_share(greater(x(c), y(c)), ties, dtype); },
      [&] { return g(c) * winner_share(less(x(c), y(c)), ties, dtype); });
}
Grad minimum_gradient(const GradientCall& c) {
  const Tensor ties = equal(x(c), y(c));
  const DType dtype = g(c).dtype();
  return both(
      c, [&] { return g(c) * winner_share(less(x(c), y(c)), ties, dtype); },
      [&] { return g(c) * winner_share(greater(x(c), y(c)), ties, dtype); });
}
Grad atan2_gradient(const GradientCall& c) {
  const DType dtype = g(c).dtype();
  const DType wide = is_half(dtype) ? DType::kF32 : dtype;  // f16 can't hold squares from 256 on
  const Tensor a = cast(x(c), wide), b = cast(y(c), wide);
  const Tensor squares = square(a) + square(b);
  const Tensor none = equal(squares, 0);  // the origin has no angle: its gradient is 0
  const Tensor scaled = where(none, 0, cast(g(c), wide)) / where(none, 1, squares);
  return both(
      c, [&] { return cast(scaled * b, dtype); }, [&] { return cast(-(scaled * a), dtype); });
}
Grad where_gradient(const GradientCall& c) {
  const Tensor zero = scalar(0, g(c).dtype());
  Grad result(3);
  if (c.needed[1]) result[1] = sum_to(where(c.inputs[0], g(c), zero), c.inputs[1].shape());
  if (c.needed[2]) result[2] = sum_to(where(c.inputs[0], zero, g(c)), c.inputs[2].shape());
  return result;
}
Grad clip_gradient(const GradientCall& c) {
  const Tensor zero = scalar(0, g(c).dtype());
  const Tensor& low = c.inputs[1];
  const Tensor& high = c.inputs[2];
  Grad result(3);
  if (c.needed[0]) {
    const Tensor inside = logical_and(greater_equal(x(c), low), less_equal(x(c), high));
    result[0] = sum_to(where(inside, g(c), zero), x(c).shape());
  }
  if (c.needed[1]) {
    const Tensor below = logical_and(less(x(c), low), less_equal(low, high));
    result[1] = sum_to(where(below, g(c), zero), low.shape());
  }
  if (c.needed[2]) {
    const Tensor above = logical_or(greater(x(c), high), greater(low, high));
    result[2] = sum_to(where(above, g(c), zero), high.shape());
  }
  return result;
}
Grad mul_add_gradient(const GradientCall& c) {
  Grad result(3);
  if (c.needed[0]) result[0] = sum_to(g(c) * y(c), x(c).shape());
  if (c.needed[1]) result[1] = sum_to(g(c) * x(c), y(c).shape());
  if (c.needed[2]) result[2] = sum_to(g(c), c.inputs[2].shape());
  return result;
}
Grad relu_grad_gradient(const GradientCall& c) {
  Grad result(2);  // linear in the incoming gradient; the derivative by x is 0
  if (c.needed[0]) {
    const DType dtype = g(c).dtype();
    result[0] = sum_to(where(y(c) > 0.0, g(c), scalar(0, dtype)), x(c).shape());
  }
  return result;
}
Grad gelu_grad_gradient(const GradientCall& c) {
  // gelu'(t) = Phi(t) + t phi(t); gelu''(t) = phi(t) (2 - t^2).
  const Tensor& t = y(c);
  Grad result(2);
  if (c.needed[0]) {
    const Tensor phi = exp(square(t) * -0.5) * 0.39894228040143267794;
    result[0] = sum_to(g(c) * ((erf(t * 0.70710678118654752440) + 1.0) * 0.5 + t * phi), x(c).shape());
  }
  if (c.needed[1]) {
    const Tensor near = clip(t, -20, 20);  // beyond, phi is 0 and squares overflow in f16
    const Tensor phi = exp(square(near) * -0.5) * 0.39894228040143267794;
    result[1] = sum_to(g(c) * x(c) * phi * (2.0 - square(near)), t.shape());
  }
  return result;
}

Grad one(Tensor tensor) { return {std::move(tensor)}; }

Grad copy_gradient(const GradientCall& c) { return one(g(c)); }
Grad neg_gradient(const GradientCall& c) { return one(-g(c)); }
Grad abs_gradient(const GradientCall& c) { return one(g(c) * sign(x(c))); }
Grad square_gradient(const GradientCall& c) { return one(g(c) * 2.0 * x(c)); }
Grad sqrt_gradient(const GradientCall& c) { return one(g(c) * 0.5 / out(c)); }
Grad rsqrt_gradient(const GradientCall& c) { return one(g(c) * -0.5 * out(c) / x(c)); }
// Avoids a square, which overflows in f16 from 256 on.
Grad reciprocal_gradient(const GradientCall& c) { return one(-(g(c) * out(c)) * out(c)); }
Grad exp_gradient(const GradientCall& c) { return one(g(c) * out(c)); }
// In 16 bits, result + 1 loses all digits if the result is near -1.
Grad expm1_gradient(const GradientCall& c) {
  return one(g(c) * (is_half(x(c).dtype()) ? exp(x(c)) : out(c) + 1.0));
}
Grad log_gradient(const GradientCall& c) { return one(g(c) / x(c)); }
Grad log1p_gradient(const GradientCall& c) { return one(g(c) / (x(c) + 1.0)); }
Grad sin_gradient(const GradientCall& c) { return one(g(c) * cos(x(c))); }
Grad cos_gradient(const GradientCall& c) { return one(-g(c) * sin(x(c))); }
Grad tanh_gradient(const GradientCall& c) { return one(g(c) * (1.0 - square(out(c)))); }
Grad sigmoid_gradient(const GradientCall& c) { return one(g(c) * out(c) * (1.0 - out(c))); }
Grad tan_gradient(const GradientCall& c) { return one(g(c) * (square(out(c)) + 1.0)); }
// Takes roots of the factors, because their product may overflow.
Grad asin_gradient(const GradientCall& c) { return one(g(c) / (sqrt(1.0 - x(c)) * sqrt(x(c) + 1.0))); }
Grad acos_gradient(const GradientCall& c) { return one(-(g(c) / (sqrt(1.0 - x(c)) * sqrt(x(c) + 1.0)))); }
Grad acosh_gradient(const GradientCall& c) { return one(g(c) / (sqrt(x(c) - 1.0) * sqrt(x(c) + 1.0))); }
Grad atanh_gradient(const GradientCall& c) { return one(g(c) / ((1.0 - x(c)) * (x(c) + 1.0))); }
// 1 + x^2 = m^2 ((1 / m)^2 + (x / m)^2) with m the larger of |x| and 1: no square overflows. m is kept
// finite, so the derivative at infinity is 0.
Tensor magnitude_from_one(const Tensor& x) {
  return stop_gradient(clip(abs(x), 1.0, largest_finite(x.dtype())));
}
Grad atan_gradient(const GradientCall& c) {
  const Tensor m = magnitude_from_one(x(c));
  return one(g(c) / m / m / (square(1.0 / m) + square(x(c) / m)));
}
Grad asinh_gradient(const GradientCall& c) {
  const Tensor m = magnitude_from_one(x(c));
  return one(g(c) / m / sqrt(square(1.0 / m) + square(x(c) / m)));
}
Grad sinh_gradient(const GradientCall& c) { return one(g(c) * cosh(x(c))); }
Grad cosh_gradient(const GradientCall& c) { return one(g(c) * sinh(x(c))); }
Grad lgamma_gradient(const GradientCall& c) { return one(g(c) * digamma(x(c))); }
Grad erf_gradient(const GradientCall& c) {
  return one(g(c) * 1.12837916709551257390 * exp(-square(x(c))));  // 2/sqrt(pi) e^(-x^2)
}
// Reads the result instead of x, because the next layer saves the result anyway.
Grad relu_gradient(const GradientCall& c) {
  static const OpDef& op = row("relu_grad");
  return one(graph::apply_one(op, {g(c), out(c)}));
}
Grad relu6_gradient(const GradientCall& c) {
  const Tensor inside = logical_and(out(c) > 0.0, out(c) < 6.0);
  return one(where(inside, g(c), scalar(0, g(c).dtype())));
}
Grad softplus_gradient(const GradientCall& c) { return one(g(c) * sigmoid(x(c))); }
Grad silu_gradient(const GradientCall& c) {
  const Tensor s = sigmoid(x(c));
  return one(g(c) * (s + x(c) * s * (1.0 - s)));
}
Grad gelu_gradient(const GradientCall& c) {
  static const OpDef& op = row("gelu_grad");
  return one(graph::apply_one(op, {g(c), x(c)}));
}
Grad gelu_tanh_gradient(const GradientCall& c) {
  // The function is x s(v) with the sigmoid s and v = sqrt(8 / pi) (x + 0.044715 x^3): the derivative is s +
  // x s (1 - s) v'. 1 - s(v) is computed as s(-v), so that nothing cancels. Beyond the clip, s is 0 or 1 and
  // x^3 would overflow.
  constexpr double kFactor = 1.5957691216057307118, kCube = 0.044715;
  const Tensor t = clip(x(c), -20, 20);
  const Tensor squared = square(t);
  const Tensor v = t * (squared * kCube + 1.0) * kFactor;
  const Tensor slope = (squared * (3 * kCube) + 1.0) * kFactor;
  const Tensor s = sigmoid(v);
  return one(g(c) * (s + t * s * sigmoid(-v) * slope));
}
Grad cast_gradient(const GradientCall& c) {
  if (!is_floating(x(c).dtype()) || !is_floating(out(c).dtype())) return Grad(1);
  return one(cast(g(c), x(c).dtype()));
}

using InferFunction = std::vector<TensorSpec> (*)(const OpCall&);
using GradientFunction = std::vector<Tensor> (*)(const GradientCall&);

/// Applies a scalar reference to broadcast tensors.
graph::ReferenceFunction elementwise_reference(std::function<double(double, double, double)> f) {
  return [f = std::move(f)](const OpCall& call, std::span<const TensorSpec> outputs,
                            const std::vector<std::vector<double>>& inputs) {
    const Shape& shape = outputs[0].shape;
    std::vector<double> result(static_cast<size_t>(shape.elems()));
    for (int64_t i = 0; i < shape.elems(); ++i) {
      double operands[3] = {0, 0, 0};
      for (size_t k = 0; k < inputs.size(); ++k) {
        const Shape& from = call.inputs[k].shape;
        const Strides strides = broadcast_strides(from, contiguous_strides(from), shape);
        int64_t rest = i;
        int64_t offset = 0;
        for (int axis = shape.rank() - 1; axis >= 0; --axis) {
          offset += rest % shape[axis] * strides[axis];
          rest /= shape[axis];
        }
        operands[k] = inputs[k][static_cast<size_t>(offset)];
      }
      result[static_cast<size_t>(i)] = f(operands[0], operands[1], operands[2]);
    }
    return std::vector<std::vector<double>>{result};
  };
}

struct Domain {
  double low = -2;
  double high = 2;
};

constexpr std::initializer_list<DType> kFloats = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
constexpr std::initializer_list<DType> kNumbers = {DType::kF64,  DType::kF32, DType::kF16,
                                                   DType::kBF16, DType::kI64, DType::kI32};
constexpr std::initializer_list<DType> kBools = {DType::kBool};

OpDef base(std::string_view name, std::string_view summary, ElementOp element, InferFunction infer,
           GradientFunction gradient, graph::ReferenceFunction reference) {
  OpDef op;
  op.name = name;
  op.summary = summary;
  op.min_inputs = op.max_inputs = graph::element_op_arity(element);
  op.infer = infer;
  op.gradient = gradient;
  op.fusion = FusionClass::kElementwise;
  op.element = element;
  op.may_alias = elementwise_alias;
  op.flops = elementwise_flops;
  op.reference = std::move(reference);
  return op;
}

void add_unary(graph::Registry& registry, ElementOp element, std::string_view summary, InferFunction infer,
               GradientFunction gradient, std::function<double(double)> reference, Domain domain = {}) {
  OpDef op = base(graph::element_op_name(element), summary, element, infer, gradient,
                  elementwise_reference(
                      [reference = std::move(reference)](double a, double, double) { return reference(a); }));
  const bool logical = infer == infer_logical;
  op.dtypes = logical ? kBools : (infer == infer_floating ? kFloats : kNumbers);
  for (const Shape& shape : {Shape{3, 5}, Shape{}, Shape{0, 4}, Shape{2, 1031}}) {
    op.samples.push_back({{{shape, domain.low, domain.high}}});
  }
  if (infer == infer_floating) op.errors.push_back({{{DType::kI32, {2}}}, {}, ErrorCode::kDtypeMismatch});
  registry.add(std::move(op));
}

void add_binary(graph::Registry& registry, ElementOp element, std::string_view summary, InferFunction infer,
                GradientFunction gradient, std::function<double(double, double)> reference, Domain a = {},
                Domain b = {}) {
  OpDef op = base(graph::element_op_name(element), summary, element, infer, gradient,
                  elementwise_reference([reference = std::move(reference)](double p, double q, double) {
                    return reference(p, q);
                  }));
  op.dtypes = infer == infer_logical ? kBools : (infer == infer_floating ? kFloats : kNumbers);
  const std::pair<Shape, Shape> shapes[] = {{{3, 5}, {3, 5}},   {{4, 7}, {7}},       {{6}, {5, 1}},
                                            {{}, {2, 3}},       {{2, 1, 3}, {4, 1}}, {{0, 3}, {3}},
                                            {{64, 33}, {1, 33}}};
  for (const auto& [sa, sb] : shapes) {
    op.samples.push_back({{{sa, a.low, a.high}, {sb, b.low, b.high}}});
  }
  const DType dtype = op.dtypes[0];
  op.errors.push_back({{{dtype, {2, 3}}, {dtype, {2, 4}}}, {}, ErrorCode::kShapeMismatch});
  op.errors.push_back({{{dtype, {2}}, {DType::kU8, {2}}}, {}, ErrorCode::kDtypeMismatch});
  op.errors.push_back({{{dtype, {2}}}, {}, ErrorCode::kInvalidArgument});
  registry.add(std::move(op));
}

void add_unary_rows(graph::Registry& r) {
  using E = ElementOp;
  add_unary(r, E::kCopy, "x", infer_broadcast, copy_gradient, [](double a) { return a; });
  add_unary(r, E::kNeg, "-x", infer_number, neg_gradient, [](double a) { return -a; });
  add_unary(r, E::kAbs, "|x|", infer_number, abs_gradient, [](double a) { return std::abs(a); });
  add_unary(r, E::kSign, "-1, 0 or 1", infer_number, no_gradient, [](double a) { return (a > 0) - (a < 0); });
  add_unary(r, E::kSquare, "x^2", infer_number, square_gradient, [](double a) { return a * a; });
  add_unary(r, E::kSqrt, "square root", infer_floating, sqrt_gradient, [](double a) { return std::sqrt(a); },
            {0.1, 4});
  add_unary(r, E::kRsqrt, "1 / sqrt(x)", infer_floating, rsqrt_gradient,
            [](double a) { return 1 / std::sqrt(a); }, {0.1, 4});
  add_unary(r, E::kReciprocal, "1 / x", infer_floating, reciprocal_gradient, [](double a) { return 1 / a; },
            {0.3, 3});
  add_unary(r, E::kExp, "e^x", infer_floating, exp_gradient, [](double a) { return std::exp(a); });
  add_unary(r, E::kExpm1, "e^x - 1", infer_floating, expm1_gradient, [](double a) { return std::expm1(a); });
  add_unary(r, E::kLog, "natural logarithm", infer_floating, log_gradient,
            [](double a) { return std::log(a); }, {0.1, 5});
  add_unary(r, E::kLog1p, "log(1 + x)", infer_floating, log1p_gradient,
            [](double a) { return std::log1p(a); }, {-0.6, 4});
  add_unary(r, E::kSin, "sine", infer_floating, sin_gradient, [](double a) { return std::sin(a); }, {-6, 6});
  add_unary(r, E::kCos, "cosine", infer_floating, cos_gradient, [](double a) { return std::cos(a); },
            {-6, 6});
  add_unary(r, E::kTanh, "hyperbolic tangent", infer_floating, tanh_gradient,
            [](double a) { return std::tanh(a); });
  add_unary(r, E::kSigmoid, "1 / (1 + e^-x)", infer_floating, sigmoid_gradient,
            [](double a) { return 1 / (1 + std::exp(-a)); }, {-6, 6});
  add_unary(r, E::kErf, "error function", infer_floating, erf_gradient, [](double a) { return std::erf(a); },
            {-4, 4});
  add_unary(r, E::kRelu, "max(x, 0)", infer_number, relu_gradient, [](double a) { return std::max(a, 0.0); });
  add_unary(r, E::kRelu6, "min(max(x, 0), 6)", infer_number, relu6_gradient,
            [](double a) { return std::min(std::max(a, 0.0), 6.0); }, {-3, 9});
  add_unary(r, E::kSoftplus, "log(1 + e^x)", infer_floating, softplus_gradient,
            [](double a) { return std::log1p(std::exp(a)); }, {-5, 5});
  add_unary(r, E::kSilu, "x sigmoid(x)", infer_floating, silu_gradient,
            [](double a) { return a / (1 + std::exp(-a)); }, {-5, 5});
  add_unary(r, E::kGelu, "x Phi(x)", infer_floating, gelu_gradient,
            [](double a) { return 0.5 * a * (1 + std::erf(a / std::sqrt(2.0))); }, {-4, 4});
  add_unary(r, E::kGeluTanh, "tanh approximation of gelu", infer_floating, gelu_tanh_gradient, [](double a) {
    return 0.5 * a * (1 + std::tanh(0.79788456080286535588 * (a + 0.044715 * a * a * a)));
  });
  add_unary(r, E::kFloor, "largest integer <= x", infer_number, no_gradient,
            [](double a) { return std::floor(a); });
  add_unary(r, E::kCeil, "smallest integer >= x", infer_number, no_gradient,
            [](double a) { return std::ceil(a); });
  add_unary(r, E::kRound, "nearest integer, ties to even", infer_number, no_gradient,
            [](double a) { return std::nearbyint(a); });
  add_unary(r, E::kTrunc, "integer part", infer_number, no_gradient, [](double a) { return std::trunc(a); });
  add_unary(r, E::kIsNan, "is it NaN?", infer_floating, no_gradient, [](double a) { return std::isnan(a); });
  add_unary(r, E::kIsFinite, "neither NaN nor infinite?", infer_floating, no_gradient,
            [](double a) { return std::isfinite(a); });
  add_unary(r, E::kTan, "tangent", infer_floating, tan_gradient, [](double a) { return std::tan(a); },
            {-1.3, 1.3});
  add_unary(r, E::kAsin, "inverse sine", infer_floating, asin_gradient, [](double a) { return std::asin(a); },
            {-0.9, 0.9});
  add_unary(r, E::kAcos, "inverse cosine", infer_floating, acos_gradient,
            [](double a) { return std::acos(a); }, {-0.9, 0.9});
  add_unary(r, E::kAtan, "inverse tangent", infer_floating, atan_gradient,
            [](double a) { return std::atan(a); });
  add_unary(r, E::kSinh, "hyperbolic sine", infer_floating, sinh_gradient,
            [](double a) { return std::sinh(a); });
  add_unary(r, E::kCosh, "hyperbolic cosine", infer_floating, cosh_gradient,
            [](double a) { return std::cosh(a); });
  add_unary(r, E::kAsinh, "inverse hyperbolic sine", infer_floating, asinh_gradient,
            [](double a) { return std::asinh(a); });
  add_unary(r, E::kAcosh, "inverse hyperbolic cosine", infer_floating, acosh_gradient,
            [](double a) { return std::acosh(a); }, {1.2, 4});
  add_unary(r, E::kAtanh, "inverse hyperbolic tangent", infer_floating, atanh_gradient,
            [](double a) { return std::atanh(a); }, {-0.9, 0.9});
  add_unary(r, E::kLgamma, "log of the absolute value of the gamma function", infer_floating, lgamma_gradient,
            [](double a) { return std::lgamma(a); }, {0.3, 6});
  add_unary(r, E::kLogicalNot, "not x", infer_logical, no_gradient, [](double a) { return a == 0; }, {0, 1});
}

void add_binary_rows(graph::Registry& r) {
  using E = ElementOp;
  add_binary(r, E::kAdd, "a + b", infer_number, add_gradient, [](double a, double b) { return a + b; });
  add_binary(r, E::kSub, "a - b", infer_number, sub_gradient, [](double a, double b) { return a - b; });
  add_binary(r, E::kMul, "a b", infer_number, mul_gradient, [](double a, double b) { return a * b; });
  add_binary(r, E::kDiv, "a / b", infer_floating, div_gradient, [](double a, double b) { return a / b; }, {},
             {0.5, 3});
  add_binary(r, E::kPow, "a^b", infer_floating, pow_gradient,
             [](double a, double b) { return std::pow(a, b); }, {0.3, 2.5}, {-2, 2});
  add_binary(r, E::kMod, "remainder with the dividend's sign", infer_floating, mod_gradient,
             [](double a, double b) { return std::fmod(a, b); }, {0.05, 0.6}, {0.7, 1.5});
  add_binary(r, E::kMaximum, "the larger", infer_number, maximum_gradient,
             [](double a, double b) { return std::max(a, b); });
  add_binary(r, E::kMinimum, "the smaller", infer_number, minimum_gradient,
             [](double a, double b) { return std::min(a, b); });
  add_binary(r, E::kAtan2, "angle of (b, a)", infer_floating, atan2_gradient,
             [](double a, double b) { return std::atan2(a, b); }, {0.2, 2}, {0.2, 2});
  add_binary(r, E::kEqual, "a == b", infer_broadcast, no_gradient, [](double a, double b) { return a == b; });
  add_binary(r, E::kNotEqual, "a != b", infer_broadcast, no_gradient,
             [](double a, double b) { return a != b; });
  add_binary(r, E::kLess, "a < b", infer_number, no_gradient, [](double a, double b) { return a < b; });
  add_binary(r, E::kLessEqual, "a <= b", infer_number, no_gradient,
             [](double a, double b) { return a <= b; });
  add_binary(r, E::kGreater, "a > b", infer_number, no_gradient, [](double a, double b) { return a > b; });
  add_binary(r, E::kGreaterEqual, "a >= b", infer_number, no_gradient,
             [](double a, double b) { return a >= b; });
  add_binary(r, E::kLogicalAnd, "a and b", infer_logical, no_gradient,
             [](double a, double b) { return a != 0 && b != 0; }, {0, 1}, {0, 1});
  add_binary(r, E::kLogicalOr, "a or b", infer_logical, no_gradient,
             [](double a, double b) { return a != 0 || b != 0; }, {0, 1}, {0, 1});
  add_binary(r, E::kReluGrad, "a where b > 0, else 0", infer_floating, relu_grad_gradient,
             [](double a, double b) { return b > 0 ? a : 0; });
  add_binary(r, E::kGeluGrad, "a times the derivative of gelu at b", infer_floating, gelu_grad_gradient,
             [](double a, double b) {
               const double phi = 0.39894228040143267794 * std::exp(-0.5 * b * b);
               return a * (0.5 * (1 + std::erf(b / std::sqrt(2.0))) + b * phi);
             });
}

void add_ternary_rows(graph::Registry& r) {
  OpDef where_op = base("where", "condition ? a : b", ElementOp::kWhere, infer_where, where_gradient,
                        elementwise_reference([](double c, double a, double b) { return c != 0 ? a : b; }));
  where_op.dtypes = {DType::kF64, DType::kF32, DType::kBF16, DType::kI64, DType::kU8, DType::kBool};
  where_op.samples = {{{{{3, 4}, 0, 1, DType::kBool}, {{3, 4}}, {{3, 4}}}},
                      {{{{4}, 0, 1, DType::kBool}, {{3, 1}}, {{}}}},
                      {{{{2, 77}, 0, 1, DType::kBool}, {{2, 77}}, {{77}}}}};
  where_op.differentiable = {1, 2};
  where_op.errors = {
      {{{DType::kF32, {2}}, {DType::kF32, {2}}, {DType::kF32, {2}}}, {}, ErrorCode::kDtypeMismatch},
      {{{DType::kBool, {2}}, {DType::kF32, {2}}, {DType::kF32, {3}}}, {}, ErrorCode::kShapeMismatch}};
  r.add(std::move(where_op));

  OpDef clip_op = base(
      "clip", "min(max(x, low), high)", ElementOp::kClip, infer_number, clip_gradient,
      elementwise_reference([](double v, double lo, double hi) { return std::min(std::max(v, lo), hi); }));
  clip_op.dtypes = kNumbers;
  clip_op.samples = {{{{{5, 3}}, {{}, -1, -1}, {{}, 1, 1}}}, {{{{4, 3}}, {{3}, -1, -0.5}, {{4, 1}, 0.5, 1}}}};
  clip_op.errors = {
      {{{DType::kF32, {2}}, {DType::kF32, {3}}, {DType::kF32, {}}}, {}, ErrorCode::kShapeMismatch}};
  r.add(std::move(clip_op));

  OpDef fma = base("mul_add", "a b + c, rounded once in f32 and f64 where the processor can",
                   ElementOp::kMulAdd, infer_number, mul_add_gradient,
                   elementwise_reference([](double a, double b, double c) { return a * b + c; }));
  fma.dtypes = kNumbers;
  fma.samples = {{{{{5, 3}}, {{5, 3}}, {{3}}}}};
  fma.errors = {{{{DType::kF32, {2}}, {DType::kF32, {3}}, {DType::kF32, {}}}, {}, ErrorCode::kShapeMismatch}};
  r.add(std::move(fma));

  OpDef cast_op = base("cast", "conversion to another dtype", ElementOp::kCast, infer_cast, cast_gradient,
                       elementwise_reference([](double a, double, double) { return a; }));
  cast_op.dtypes = kNumbers;
  cast_op.samples = {{{{{3, 5}}}, {{"dtype", DType::kF64}}}, {{{{3, 700}}}, {{"dtype", DType::kF32}}}};
  cast_op.tolerance = 10;
  r.add(std::move(cast_op));
}

}  // namespace

void register_elementwise(graph::Registry& registry) {
  add_unary_rows(registry);
  add_binary_rows(registry);
  add_ternary_rows(registry);
  OpDef fused;
  fused.name = "fused";
  fused.summary = "a fused group of element ops with closing reductions; made by the fusion pass";
  fused.min_inputs = 0;
  fused.max_inputs = -1;
  fused.infer = infer_fused;
  fused.may_alias = fused_alias;
  fused.flops = fused_flops;
  registry.add(std::move(fused));
}

}  // namespace ops
}  // namespace isochron
