#include "isochron/ops/linalg/linalg.h"

#include "isochron/core/base/checked.h"
#include "isochron/core/tensor/elements.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/linalg/linalg_references.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/matmul/matmul_geometry.h"
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

void check_matrices(const OpCall& call, size_t index) {
  const TensorSpec& x = call.inputs[index];
  require(x.dtype == DType::kF32 || x.dtype == DType::kF64, ErrorCode::kDtypeMismatch, call.op.name,
          "input {} must be f32 or f64, got {}; cast it", index, x.str());
  require_min_rank(call, index, 2);
}

void check_square(const OpCall& call) {
  check_matrices(call, 0);
  const Shape& shape = call.inputs[0].shape;
  require(shape[shape.rank() - 2] == shape.back(), ErrorCode::kShapeMismatch, call.op.name,
          "input 0 must hold square matrices, got {}", call.inputs[0].str());
}

Shape with_matrix(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

std::vector<TensorSpec> infer_triangle(const OpCall& call) {
  require_min_rank(call, 0, 2);
  return {call.inputs[0]};
}

std::vector<TensorSpec> infer_square(const OpCall& call) {
  check_square(call);
  return {call.inputs[0]};
}

std::vector<TensorSpec> infer_solve(const OpCall& call) {
  check_square(call);
  check_matrices(call, 1);
  require_same_dtype(call);
  const Shape& a = call.inputs[0].shape;
  const Shape& b = call.inputs[1].shape;
  require(matmul_batch(a) == matmul_batch(b) && b[b.rank() - 2] == a.back(), ErrorCode::kShapeMismatch,
          call.op.name, "a is {}, so b needs the leading axes {} and {} rows, got {}", call.inputs[0].str(),
          matmul_batch(a).str(), a.back(), call.inputs[1].str());
  return {call.inputs[1]};
}

std::vector<TensorSpec> infer_slogdet(const OpCall& call) {
  check_square(call);
  const TensorSpec each{call.inputs[0].dtype, matmul_batch(call.inputs[0].shape)};
  return {each, each};
}

std::vector<TensorSpec> infer_qr(const OpCall& call) {
  check_matrices(call, 0);
  const auto& [dtype, shape] = call.inputs[0];
  const int64_t m = shape[shape.rank() - 2];
  const int64_t n = shape.back();
  const int64_t k = std::min(m, n);
  return {{dtype, with_matrix(matmul_batch(shape), m, k)}, {dtype, with_matrix(matmul_batch(shape), k, n)}};
}

/// x^T over the last two axes.
Tensor swap_axes(const Tensor& x) {
  Dims permutation;
  for (int i = 0; i < x.rank(); ++i) permutation.push_back(i);
  std::swap(permutation[x.rank() - 2], permutation[x.rank() - 1]);
  return transpose(x, permutation);
}

Tensor triangle(const Tensor& x, bool lower, int64_t diagonal) {
  static const OpDef& op = row("triangle");
  return graph::apply_one(op, {x}, {{"lower", lower}, {"diagonal", diagonal}});
}

std::vector<Tensor> triangle_gradient(const GradientCall& call) {
  return {graph::apply_one(call.op, {call.output_gradients[0]}, call.attributes)};
}

/// (S + S^T) / 2 with S = L^-T phi(L^T G) L^-1, where phi takes the lower triangle and halves the diagonal
/// (Murray 2016, eq. 10).
std::vector<Tensor> cholesky_gradient(const GradientCall& call) {
  const Tensor& factor = call.outputs[0];
  const Tensor product = matmul(factor, tril(call.output_gradients[0]), true, false);
  const Tensor phi = (tril(product) + tril(product, -1)) * 0.5;
  const TriangularSolveOptions transposed{.transpose = true};
  const Tensor s = triangular_solve(factor, swap_axes(triangular_solve(factor, phi, transposed)), transposed);
  return {(s + swap_axes(s)) * 0.5};
}

/// The gradient of x = op(a)^-1 b with respect to a, given the gradient with respect to b.
Tensor matrix_gradient(const Tensor& b_gradient, const Tensor& x, bool transpose) {
  return -(transpose ? matmul(x, b_gradient, false, true) : matmul(b_gradient, x, false, true));
}

std::vector<Tensor> triangular_solve_gradient(const GradientCall& call) {
  const bool lower = call.attributes.get<bool>("lower");
  const bool transpose = call.attributes.get<bool>("transpose");
  const bool unit = call.attributes.get<bool>("unit_diagonal");
  const Tensor db = triangular_solve(call.inputs[0], call.output_gradients[0], {lower, !transpose, unit});
  if (!call.needed[0]) return {Tensor(), db};
  return {triangle(matrix_gradient(db, call.outputs[0], transpose), lower, unit ? (lower ? -1 : 1) : 0), db};
}

std::vector<Tensor> solve_gradient(const GradientCall& call) {
  const bool transpose = call.attributes.get<bool>("transpose");
  const Tensor db = solve(call.inputs[0], call.output_gradients[0], !transpose);
  if (!call.needed[0]) return {Tensor(), db};
  return {matrix_gradient(db, call.outputs[0], transpose), db};
}

Tensor unit_matrices(const Tensor& like) {
  return broadcast_to(eye(like.shape().back(), like.dtype()), like.shape());
}

/// A^-T times the gradient of log |det|; the sign has no gradient.
std::vector<Tensor> slogdet_gradient(const GradientCall& call) {
  const Tensor& g = call.output_gradients[1];
  if (!g.defined()) return {Tensor()};
  return {solve(call.inputs[0], unit_matrices(call.inputs[0]), true) * expand_dims(expand_dims(g, -1), -1)};
}

/// (dQ + Q copyltu(M)) R^-T with M = R dR^T - dQ^T Q; copyltu makes a symmetric matrix from a lower triangle
/// (Walter and Lehmann, "On evaluating higher-order derivatives of the QR decomposition", 2010).
std::vector<Tensor> qr_gradient(const GradientCall& call) {
  const Tensor& q = call.outputs[0];
  const Tensor& r = call.outputs[1];
  const Tensor& dq = call.output_gradients[0];
  const Tensor& dr = call.output_gradients[1];
  require(call.inputs[0].extent(-2) >= call.inputs[0].extent(-1), ErrorCode::kUnsupported, call.op.name,
          "the gradient is only defined for as many rows as columns or more, got {}",
          call.inputs[0].spec().str());
  Tensor m;
  if (dr.defined()) m = matmul(r, triu(dr), false, true);
  if (dq.defined()) {
    const Tensor product = matmul(dq, q, true, false);
    m = m.defined() ? m - product : -product;
  }
  Tensor sum = matmul(q, tril(m) + swap_axes(tril(m, -1)));
  if (dq.defined()) sum = sum + dq;
  return {swap_axes(triangular_solve(r, swap_axes(sum), {.lower = false}))};
}

double cubic_flops(const OpCall& call) {
  const Shape& shape = call.inputs[0].shape;
  return static_cast<double>(shape.elems()) * static_cast<double>(shape.back());
}

OpDef matrix_row(std::string name, std::string summary, int inputs,
                 std::vector<TensorSpec> (*infer)(const OpCall&),
                 std::vector<Tensor> (*gradient)(const GradientCall&), graph::ReferenceFunction reference) {
  OpDef op;
  op.name = std::move(name);
  op.summary = std::move(summary);
  op.min_inputs = op.max_inputs = inputs;
  op.infer = infer;
  op.gradient = gradient;
  op.reference = std::move(reference);
  op.flops = cubic_flops;
  op.tolerance = 100;  // condition numbers and sums of up to 100 products
  return op;
}

void add_triangle(graph::Registry& registry) {
  OpDef op = matrix_row("triangle", "the lower or upper triangle of matrices, else 0", 1, infer_triangle,
                        triangle_gradient, triangle_reference);
  op.dtypes = {DType::kF64, DType::kF32, DType::kBF16, DType::kI64, DType::kU8, DType::kBool};
  op.may_alias = [](const OpCall&, int, int) { return true; };
  for (const bool lower : {true, false}) {
    for (const int64_t diagonal : {0, 1, -2, 9, -9}) {
      for (const Shape& shape : {Shape{4, 4}, Shape{2, 3, 5}, Shape{5, 2}}) {
        op.samples.push_back({{{shape}}, {{"lower", lower}, {"diagonal", diagonal}}});
      }
    }
  }
  op.errors = {
      {{{DType::kF32, {3}}}, {{"lower", true}, {"diagonal", int64_t{0}}}, ErrorCode::kShapeMismatch}};
  registry.add(std::move(op));
}

void add_square_errors(OpDef& op, const Attributes& attributes) {
  const auto with = [&](DType dtype, const Shape& shape) {
    return std::vector<TensorSpec>(static_cast<size_t>(op.min_inputs), TensorSpec{dtype, shape});
  };
  op.errors.push_back({with(DType::kF32, {2, 3}), attributes, ErrorCode::kShapeMismatch});
  op.errors.push_back({with(DType::kF32, {3}), attributes, ErrorCode::kShapeMismatch});
  op.errors.push_back({with(DType::kBF16, {3, 3}), attributes, ErrorCode::kDtypeMismatch});
}

void add_cholesky(graph::Registry& registry) {
  OpDef op = matrix_row("cholesky", "lower L with L L^T = (x + x^T) / 2", 1, infer_square, cholesky_gradient,
                        cholesky_reference);
  for (const Shape& shape :
       {Shape{1, 1}, Shape{4, 4}, Shape{2, 3, 3, 3}, Shape{70, 70}, Shape{40, 9, 9}, Shape{0, 0}}) {
    op.samples.push_back({{dominant_sample(shape)}});
  }
  add_square_errors(op, {});
  registry.add(std::move(op));
}

void add_solve_errors(OpDef& op, const Attributes& attributes) {
  add_square_errors(op, attributes);
  op.errors.push_back(
      {{{DType::kF32, {3, 3}}, {DType::kF32, {2, 3}}}, attributes, ErrorCode::kShapeMismatch});
  op.errors.push_back(
      {{{DType::kF32, {2, 3, 3}}, {DType::kF32, {3, 1}}}, attributes, ErrorCode::kShapeMismatch});
  op.errors.push_back(
      {{{DType::kF32, {3, 3}}, {DType::kF64, {3, 1}}}, attributes, ErrorCode::kDtypeMismatch});
}

/// Sample systems: the shape (..., N, N) of a, and the number of b's columns. This is a function because ops
/// may be registered before the static objects of this file exist.
std::vector<std::pair<Shape, int64_t>> systems() {
  return {{{1, 1}, 1},     {{4, 4}, 1}, {{2, 3, 3, 3}, 2}, {{70, 70}, 5},
          {{40, 8, 8}, 3}, {{3, 3}, 0}, {{0, 2, 2}, 1}};
}

void add_triangular_solve(graph::Registry& registry) {
  OpDef op = matrix_row("triangular_solve", "x with a x = b for triangular a", 2, infer_solve,
                        triangular_solve_gradient, triangular_solve_reference);
  for (int variant = 0; variant < 8; ++variant) {
    const Attributes attributes{{"lower", variant % 2 == 0},
                                {"transpose", variant / 2 % 2 == 1},
                                {"unit_diagonal", variant / 4 == 1}};
    for (const auto& [shape, columns] : systems()) {
      op.samples.push_back(
          {{triangular_sample(shape), {with_matrix(matmul_batch(shape), shape.back(), columns)}},
           attributes});
    }
    if (variant == 0) add_solve_errors(op, attributes);
  }
  registry.add(std::move(op));
}

void add_solve(graph::Registry& registry) {
  OpDef op = matrix_row("solve", "x with a x = b", 2, infer_solve, solve_gradient, solve_reference);
  for (const bool transpose : {false, true}) {
    for (const auto& [shape, columns] : systems()) {
      op.samples.push_back(
          {{permuted_sample(shape), {with_matrix(matmul_batch(shape), shape.back(), columns)}},
           {{"transpose", transpose}}});
    }
  }
  add_solve_errors(op, {{"transpose", false}});
  registry.add(std::move(op));
}

void add_slogdet(graph::Registry& registry) {
  OpDef op = matrix_row("slogdet", "sign and logarithm of the absolute value of the determinant", 1,
                        infer_slogdet, slogdet_gradient, slogdet_reference);
  for (const Shape& shape : {Shape{1, 1}, Shape{4, 4}, Shape{2, 3, 3, 3}, Shape{45, 45}, Shape{0, 0}}) {
    op.samples.push_back({{permuted_sample(shape)}});
  }
  add_square_errors(op, {});
  registry.add(std::move(op));
}

void add_qr(graph::Registry& registry) {
  OpDef op = matrix_row("qr", "q with orthonormal columns and upper triangular r, x = q r", 1, infer_qr,
                        qr_gradient, qr_reference);
  for (const Shape& shape :
       {Shape{1, 1}, Shape{4, 4}, Shape{5, 3}, Shape{2, 2, 6, 4}, Shape{50, 40}, Shape{3, 0}}) {
    op.samples.push_back({{dominant_sample(shape)}});
  }
  op.errors = {{{{DType::kF32, {3}}}, {}, ErrorCode::kShapeMismatch},
               {{{DType::kI32, {3, 3}}}, {}, ErrorCode::kDtypeMismatch}};
  registry.add(std::move(op));
}

/// Returns both with broadcast leading axes.
std::pair<Tensor, Tensor> broadcast_batches(const Tensor& a, const Tensor& b, std::string_view where) {
  require_defined(a, where);
  require_defined(b, where);
  if (a.rank() < 2 || b.rank() < 2) return {a, b};  // the shape rule says what is wrong
  const Shape batch = broadcast_shapes(matmul_batch(a.shape()), matmul_batch(b.shape()), where);
  const auto with_batch = [&](const Tensor& x) {
    return broadcast_to(x, with_matrix(batch, x.extent(-2), x.extent(-1)));
  };
  return {with_batch(a), with_batch(b)};
}

}  // namespace

void register_linalg(graph::Registry& registry) {
  add_triangle(registry);
  add_cholesky(registry);
  add_triangular_solve(registry);
  add_solve(registry);
  add_slogdet(registry);
  add_qr(registry);
}

}  // namespace ops

Tensor tril(const Tensor& x, int64_t diagonal) {
  const ErrorScope scope("tril");
  ops::require_defined(x, "tril");
  return ops::triangle(x, true, diagonal);
}

Tensor triu(const Tensor& x, int64_t diagonal) {
  const ErrorScope scope("triu");
  ops::require_defined(x, "triu");
  return ops::triangle(x, false, diagonal);
}

Tensor diagonal(const Tensor& x) {
  ops::require_defined(x, "diagonal");
  require(x.rank() >= 2 && x.extent(-2) == x.extent(-1), ErrorCode::kShapeMismatch, "diagonal",
          "needs square matrices, got {}", x.spec().str());
  // The diagonal elements of a row-major matrix are n + 1 apart.
  const int64_t n = x.extent(-1);
  Dims flat = ops::matmul_batch(x.shape());
  flat.push_back(n * n);
  Dims starts;
  Dims steps;
  for (int i = 0; i < flat.rank(); ++i) starts.push_back(0);
  for (int i = 0; i < flat.rank(); ++i) steps.push_back(i + 1 == flat.rank() ? n + 1 : 1);
  return slice(reshape(x, flat), starts, flat, steps);
}

Tensor diagonal_matrix(const Tensor& x) {
  const ErrorScope scope("diagonal_matrix");
  ops::require_defined(x, "diagonal_matrix");
  require(x.rank() >= 1, ErrorCode::kShapeMismatch, "diagonal_matrix", "needs vectors, got {}",
          x.spec().str());
  const Tensor on_diagonal = eye(x.extent(-1), DType::kBool);
  return where(on_diagonal, expand_dims(x, -1), zeros({}, x.dtype()));
}

Tensor trace(const Tensor& x) {
  const ErrorScope scope("trace");
  return sum(diagonal(x), {-1});
}

Tensor outer(const Tensor& a, const Tensor& b) {
  const ErrorScope scope("outer");
  ops::require_defined(a, "outer");
  ops::require_defined(b, "outer");
  require(a.rank() == 1 && b.rank() == 1, ErrorCode::kShapeMismatch, "outer",
          "expected vectors, got {} and {}", a.spec().str(), b.spec().str());
  return expand_dims(a, 1) * b;
}

Tensor eye(int64_t n, DType dtype) {
  require(n >= 0, ErrorCode::kInvalidArgument, "eye", "n must be >= 0, got {}", n);
  const Tensor result = zeros({n, n}, dtype);
  for (int64_t i = 0; i < n; ++i)
    store_number(result.raw() + static_cast<size_t>(i * (n + 1)) * dtype_size(dtype), dtype, 1);
  result.storage()->set_constant();
  return result;
}

Tensor cholesky(const Tensor& x) {
  static const graph::OpDef& op = ops::row("cholesky");
  return graph::apply_one(op, {x});
}

Tensor triangular_solve(const Tensor& a, const Tensor& b, TriangularSolveOptions options) {
  static const graph::OpDef& op = ops::row("triangular_solve");
  const auto [matrices, sides] = ops::broadcast_batches(a, b, op.name);
  return graph::apply_one(
      op, {matrices, sides},
      {{"lower", options.lower}, {"transpose", options.transpose}, {"unit_diagonal", options.unit_diagonal}});
}

Tensor solve(const Tensor& a, const Tensor& b, bool transpose) {
  static const graph::OpDef& op = ops::row("solve");
  const auto [matrices, sides] = ops::broadcast_batches(a, b, op.name);
  return graph::apply_one(op, {matrices, sides}, {{"transpose", transpose}});
}

Tensor inverse(const Tensor& a) {
  const ErrorScope scope("inverse");
  ops::require_defined(a, "inverse");
  require(a.rank() >= 2 && a.extent(-2) == a.extent(-1), ErrorCode::kShapeMismatch, "inverse",
          "needs square matrices, got {}", a.spec().str());
  return solve(a, ops::unit_matrices(a));
}

std::pair<Tensor, Tensor> slogdet(const Tensor& a) {
  static const graph::OpDef& op = ops::row("slogdet");
  ops::require_defined(a, op.name);
  const std::vector<Tensor> results = graph::apply(op, {&a, 1});
  return {results[0], results[1]};
}

Tensor determinant(const Tensor& a) {
  const ErrorScope scope("determinant");
  const auto [sign, log_magnitude] = slogdet(a);
  return sign * exp(log_magnitude);
}

std::pair<Tensor, Tensor> qr(const Tensor& x) {
  static const graph::OpDef& op = ops::row("qr");
  ops::require_defined(x, op.name);
  const std::vector<Tensor> results = graph::apply(op, {&x, 1});
  return {results[0], results[1]};
}

}  // namespace isochron
