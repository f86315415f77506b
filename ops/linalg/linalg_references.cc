#include "isochron/ops/linalg/linalg_references.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <functional>

#include "isochron/core/base/rng.h"

namespace isochron::ops {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Calls `body` with the matrices of each batch entry and joins what it returns.
MatrixValues for_batch(const OpCall& call, size_t outputs, const MatrixValues& inputs,
                       const std::function<std::vector<Matrix>(std::vector<Matrix>)>& body) {
  MatrixValues results(outputs);
  const Shape& first = call.inputs[0].shape;
  int64_t count = 1;
  for (int i = 0; i + 2 < first.rank(); ++i) count *= first[i];
  for (int64_t entry = 0; entry < count; ++entry) {
    std::vector<Matrix> matrices;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Shape& shape = call.inputs[i].shape;
      const int64_t rows = shape[shape.rank() - 2];
      const int64_t columns = shape.back();
      matrices.push_back(Eigen::Map<const Matrix>(inputs[i].data() + entry * rows * columns, rows, columns));
    }
    const std::vector<Matrix> each = body(std::move(matrices));
    for (size_t o = 0; o < outputs; ++o) {
      results[o].insert(results[o].end(), each[o].data(), each[o].data() + each[o].size());
    }
  }
  return results;
}

Matrix solve_by_full_pivoting(const Matrix& a, const Matrix& b, bool transpose) {
  if (b.size() == 0) return b;
  return Eigen::FullPivLU<Matrix>(transpose ? Matrix(a.transpose()) : a).solve(b);
}

std::vector<double> random_values(const Shape& shape) {
  Rng rng(23);
  std::vector<double> values(static_cast<size_t>(shape.elems()));
  for (double& value : values) value = 2 * rng.uniform() - 1;
  return values;
}

/// Calls `visit(value, row, column)` for all elements.
template <typename Visit>
InputSample sample(const Shape& shape, Visit visit) {
  InputSample result{shape, 0, 0, {}, random_values(shape)};
  const int64_t columns = shape.back();
  const int64_t rows = shape[shape.rank() - 2];
  for (size_t i = 0; i < result.values.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    visit(result.values[i], at / columns % rows, at % columns);
  }
  return result;
}

}  // namespace

InputSample dominant_sample(const Shape& shape) {
  return sample(shape, [&](double& value, int64_t row, int64_t column) {
    if (row == column) value += static_cast<double>(shape.back());
  });
}

InputSample permuted_sample(const Shape& shape) {
  return sample(shape, [&](double& value, int64_t row, int64_t column) {
    if (row + column + 1 == shape.back()) value += static_cast<double>(shape.back());
  });
}

InputSample triangular_sample(const Shape& shape) {
  return sample(shape, [&](double& value, int64_t row, int64_t column) {
    value = row == column ? 1.5 + value / 2 : value / std::sqrt(static_cast<double>(shape.back()));
  });
}

MatrixValues triangle_reference(const OpCall& call, std::span<const TensorSpec>, const MatrixValues& inputs) {
  const bool lower = call.attributes.get<bool>("lower");
  const int64_t diagonal = call.attributes.get<int64_t>("diagonal");
  return for_batch(call, 1, inputs, [&](std::vector<Matrix> in) -> std::vector<Matrix> {
    for (int64_t i = 0; i < in[0].rows(); ++i) {
      for (int64_t j = 0; j < in[0].cols(); ++j) {
        if (lower ? j - i > diagonal : j - i < diagonal) in[0](i, j) = 0;
      }
    }
    return in;
  });
}

MatrixValues cholesky_reference(const OpCall& call, std::span<const TensorSpec>, const MatrixValues& inputs) {
  return for_batch(call, 1, inputs, [](std::vector<Matrix> in) -> std::vector<Matrix> {
    const Matrix symmetric = (in[0] + in[0].transpose()) / 2;
    return {Eigen::LLT<Matrix>(symmetric).matrixL()};
  });
}

MatrixValues triangular_solve_reference(const OpCall& call, std::span<const TensorSpec>,
                                        const MatrixValues& inputs) {
  const bool lower = call.attributes.get<bool>("lower");
  const bool unit_diagonal = call.attributes.get<bool>("unit_diagonal");
  const bool transpose = call.attributes.get<bool>("transpose");
  return for_batch(call, 1, inputs, [&](std::vector<Matrix> in) -> std::vector<Matrix> {
    Matrix a =
        lower ? Matrix(in[0].triangularView<Eigen::Lower>()) : Matrix(in[0].triangularView<Eigen::Upper>());
    if (unit_diagonal) a.diagonal().setOnes();
    return {solve_by_full_pivoting(a, in[1], transpose)};
  });
}

MatrixValues solve_reference(const OpCall& call, std::span<const TensorSpec>, const MatrixValues& inputs) {
  const bool transpose = call.attributes.get<bool>("transpose");
  return for_batch(call, 1, inputs, [&](std::vector<Matrix> in) -> std::vector<Matrix> {
    return {solve_by_full_pivoting(in[0], in[1], transpose)};
  });
}

MatrixValues slogdet_reference(const OpCall& call, std::span<const TensorSpec>, const MatrixValues& inputs) {
  return for_batch(call, 2, inputs, [](std::vector<Matrix> in) -> std::vector<Matrix> {
    if (in[0].size() == 0) return {Matrix::Ones(1, 1), Matrix::Zero(1, 1)};
    const Eigen::FullPivLU<Matrix> lu(in[0]);
    double sign = static_cast<double>(lu.permutationP().determinant() * lu.permutationQ().determinant());
    double log_magnitude = 0;
    for (const double pivot : Eigen::VectorXd(lu.matrixLU().diagonal())) {
      sign *= pivot < 0 ? -1 : 1;
      log_magnitude += std::log(std::abs(pivot));
    }
    return {Matrix::Constant(1, 1, sign), Matrix::Constant(1, 1, log_magnitude)};
  });
}

MatrixValues qr_reference(const OpCall& call, std::span<const TensorSpec>, const MatrixValues& inputs) {
  return for_batch(call, 2, inputs, [](std::vector<Matrix> in) -> std::vector<Matrix> {
    const int64_t k = std::min(in[0].rows(), in[0].cols());
    const Eigen::HouseholderQR<Matrix> qr(in[0]);
    const Matrix q = qr.householderQ() * Matrix::Identity(in[0].rows(), k);
    return {q, qr.matrixQR().topRows(k).triangularView<Eigen::Upper>()};
  });
}

}  // namespace isochron::ops
