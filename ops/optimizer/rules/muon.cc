// Muon: m = momentum m + (1 - momentum) g; with nesterov x = momentum m + (1 - momentum) g, else m. x is
// treated as a matrix (the last axis against all others) and divided by its norm (at least epsilon). Then a
// few Newton-Schulz iterations x = a x + (b G + c G G) x with G = x x^T bring its singular values near 1. w
// -= r f x with f = sqrt(max(1, columns / rows)), or with match_rms_adamw 0.2 sqrt(max(rows, columns)).
// (Jordan et al.: "Muon: An optimizer for hidden layers in neural networks", 2024.)
#include <algorithm>
#include <cmath>

#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/optimizer/decomposed_update.h"
#include "isochron/ops/optimizer/update_rule.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::ops {
namespace {

using graph::Attributes;
using Values = std::vector<double>;

/// The shape of the matrix that a parameter is treated as.
struct MatrixShape {
  explicit MatrixShape(const Shape& parameter)
      : columns(parameter.back()), rows(columns == 0 ? 0 : parameter.elems() / columns) {}
  int64_t columns, rows;
};

double rate_factor(const MatrixShape& matrix, const Attributes& attributes) {
  const auto rows = static_cast<double>(matrix.rows), columns = static_cast<double>(matrix.columns);
  if (attributes.get<bool>("match_rms_adamw")) return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(std::max(1.0, columns / std::max(rows, 1.0)));
}

Tensor orthogonalized(const Tensor& x, const Attributes& attributes) {
  const MatrixShape matrix(x.shape());
  const auto& factors = attributes.get<std::vector<double>>("coefficients");
  const bool tall = matrix.rows > matrix.columns;  // use G = x^T x, which is smaller
  Tensor y = reshape(x, {matrix.rows, matrix.columns});
  y = y / maximum(sqrt(sum(square(y))), attributes.get<double>("epsilon"));
  for (int64_t i = 0; i < attributes.get<int64_t>("iterations"); ++i) {
    const Tensor gram = tall ? matmul(y, y, true) : matmul(y, y, false, true);
    const Tensor mix = gram * factors[1] + matmul(gram, gram) * factors[2];
    y = y * factors[0] + (tall ? matmul(y, mix) : matmul(mix, y));
  }
  return reshape(y, x.shape());
}

std::vector<Tensor> muon_decomposed(const graph::OpCall& call, std::span<const Tensor> inputs) {
  DecomposedUpdate update(call, inputs);
  const double momentum = call.attributes.get<double>("momentum");
  for (size_t i = 0; i < update.parameters(); ++i) {
    const Tensor p = update.parameter(i), g = update.gradient(i);
    const Tensor m = update.state(0, i) * momentum + g * (1 - momentum);
    const Tensor x = call.attributes.get<bool>("nesterov") ? m * momentum + g * (1 - momentum) : m;
    const double factor = rate_factor(MatrixShape(p.shape()), call.attributes);
    update.set_parameter(i,
                         p - orthogonalized(x, call.attributes) * cast(update.rate(i) * factor, p.dtype()));
    update.set_state(0, i, m);
  }
  return update.results();
}

/// The product of a (rows, inner) and b (inner, columns).
Values product(const Values& a, const Values& b, size_t rows, size_t inner, size_t columns) {
  Values result(rows * columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t k = 0; k < inner; ++k) {
      for (size_t j = 0; j < columns; ++j) result[i * columns + j] += a[i * inner + k] * b[k * columns + j];
    }
  }
  return result;
}

void muon(ParameterUpdate& update) {
  const double momentum = update.attributes.get<double>("momentum");
  const auto& factors = update.attributes.get<Values>("coefficients");
  const MatrixShape matrix(update.shape);
  const auto rows = static_cast<size_t>(matrix.rows), columns = static_cast<size_t>(matrix.columns);
  Values& m = *update.states[0];
  Values x(m.size());
  for (size_t e = 0; e < x.size(); ++e) {
    m[e] = momentum * m[e] + (1 - momentum) * update.g[e];
    x[e] = update.attributes.get<bool>("nesterov") ? momentum * m[e] + (1 - momentum) * update.g[e] : m[e];
  }
  const double norm = std::max(std::sqrt(sum_of_squares(x)), update.attributes.get<double>("epsilon"));
  for (double& value : x) value /= norm;
  for (int64_t i = 0; i < update.attributes.get<int64_t>("iterations"); ++i) {
    Values transposed(x.size());
    for (size_t e = 0; e < x.size(); ++e) transposed[e % columns * rows + e / columns] = x[e];
    Values mix = product(x, transposed, rows, columns, rows);
    const Values squared = product(mix, mix, rows, rows, rows);
    for (size_t e = 0; e < mix.size(); ++e) mix[e] = factors[1] * mix[e] + factors[2] * squared[e];
    const Values mixed = product(mix, x, rows, rows, columns);
    for (size_t e = 0; e < x.size(); ++e) x[e] = factors[0] * x[e] + mixed[e];
  }
  const double rate = update.rate * rate_factor(matrix, update.attributes);
  for (size_t e = 0; e < x.size(); ++e) update.p[e] -= rate * x[e];
}

}  // namespace

OptimizerRule muon_rule() {
  const auto variant = [](bool nesterov, bool match_rms_adamw) {
    return Attributes{
        {"momentum", 0.9},          {"nesterov", nesterov}, {"coefficients", Values{3.4445, -4.775, 2.0315}},
        {"iterations", int64_t{5}}, {"epsilon", 1e-7},      {"match_rms_adamw", match_rms_adamw}};
  };
  return {.summary = "Muon",
          .variants = {variant(true, false), variant(false, true)},
          .states = count_states<1>,
          .reference = muon,
          .decompose = muon_decomposed,
          .min_rank = 2};
}

}  // namespace isochron::ops
