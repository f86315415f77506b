#include "isochron/ops/matrix_references.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "isochron/core/rng.h"

namespace isochron::ops {
namespace {

/// One matrix of doubles.
struct Matrix {
  int64_t rows;
  int64_t columns;
  std::vector<double> values;
  Matrix(int64_t rows_in, int64_t columns_in)
      : rows(rows_in), columns(columns_in), values(static_cast<size_t>(rows_in * columns_in)) {}
  double& operator()(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  double operator()(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
};

Matrix transposed(const Matrix& a) {
  Matrix result(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.columns; ++j) result(j, i) = a(i, j);
  }
  return result;
}

/// Calls `body` with the matrices of each batch entry and joins what it returns.
MatrixValues for_batch(const OpCall& call, size_t outputs, const MatrixValues& inputs,
                       const std::function<std::vector<std::vector<double>>(std::vector<Matrix>)>& body) {
  MatrixValues results(outputs);
  const auto extent = [&](size_t input, int back) {
    const Shape& shape = call.inputs[input].shape;
    return shape[shape.rank() - back];
  };
  int64_t count = 1;
  for (int i = 0; i + 2 < call.inputs[0].shape.rank(); ++i) count *= call.inputs[0].shape[i];
  for (int64_t entry = 0; entry < count; ++entry) {
    std::vector<Matrix> matrices;
    for (size_t i = 0; i < inputs.size(); ++i) {
      matrices.emplace_back(extent(i, 2), extent(i, 1));
      std::vector<double>& values = matrices.back().values;
      const auto begin = inputs[i].begin() + entry * static_cast<int64_t>(values.size());
      std::copy(begin, begin + static_cast<int64_t>(values.size()), values.begin());
    }
    const std::vector<std::vector<double>> each = body(std::move(matrices));
    for (size_t o = 0; o < outputs; ++o) results[o].insert(results[o].end(), each[o].begin(), each[o].end());
  }
  return results;
}

/// Gauss-Jordan elimination of [a b] with complete exchange of rows; returns the determinant of a.
struct Elimination {
  Matrix solution;
  double log_determinant = 0;
  double sign = 1;
};
Elimination eliminate(Matrix a, Matrix b) {
  Elimination result{b};
  for (int64_t k = 0; k < a.rows; ++k) {
    int64_t pivot = k;
    for (int64_t i = k; i < a.rows; ++i) {
      if (std::abs(a(i, k)) > std::abs(a(pivot, k))) pivot = i;
    }
    for (int64_t j = 0; j < a.columns; ++j) std::swap(a(k, j), a(pivot, j));
    for (int64_t j = 0; j < b.columns; ++j) std::swap(b(k, j), b(pivot, j));
    if (pivot != k) result.sign = -result.sign;
    const double divisor = a(k, k);
    if (divisor < 0) result.sign = -result.sign;
    result.log_determinant += std::log(std::abs(divisor));
    for (int64_t j = 0; j < a.columns; ++j) a(k, j) /= divisor;
    for (int64_t j = 0; j < b.columns; ++j) b(k, j) /= divisor;
    for (int64_t i = 0; i < a.rows; ++i) {
      const double factor = i == k ? 0 : a(i, k);
      for (int64_t j = 0; j < a.columns; ++j) a(i, j) -= factor * a(k, j);
      for (int64_t j = 0; j < b.columns; ++j) b(i, j) -= factor * b(k, j);
    }
  }
  result.solution = b;
  return result;
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
  return for_batch(call, 1, inputs, [&](std::vector<Matrix> in) -> MatrixValues {
    for (int64_t i = 0; i < in[0].rows; ++i) {
      for (int64_t j = 0; j < in[0].columns; ++j) {
        if (lower ? j - i > diagonal : j - i < diagonal) in[0](i, j) = 0;
      }
    }
    return {in[0].values};
  });
}

MatrixValues cholesky_reference(const OpCall& call, std::span<const TensorSpec>, const MatrixValues& inputs) {
  return for_batch(call, 1, inputs, [](std::vector<Matrix> in) -> MatrixValues {
    const Matrix& a = in[0];
    Matrix l(a.rows, a.rows);
    for (int64_t j = 0; j < a.rows; ++j) {
      for (int64_t i = j; i < a.rows; ++i) {
        double rest = (a(i, j) + a(j, i)) / 2;
        for (int64_t k = 0; k < j; ++k) rest -= l(i, k) * l(j, k);
        l(i, j) = i == j ? std::sqrt(rest) : rest / l(j, j);
      }
    }
    return {l.values};
  });
}

MatrixValues triangular_solve_reference(const OpCall& call, std::span<const TensorSpec>,
                                        const MatrixValues& inputs) {
  const bool lower = call.attributes.get<bool>("lower");
  return for_batch(call, 1, inputs, [&](std::vector<Matrix> in) -> MatrixValues {
    Matrix& a = in[0];
    for (int64_t i = 0; i < a.rows; ++i) {
      for (int64_t j = 0; j < a.rows; ++j) {
        if (lower ? j > i : j < i) a(i, j) = 0;
        if (i == j && call.attributes.get<bool>("unit_diagonal")) a(i, j) = 1;
      }
    }
    return {eliminate(call.attributes.get<bool>("transpose") ? transposed(a) : a, in[1]).solution.values};
  });
}

MatrixValues solve_reference(const OpCall& call, std::span<const TensorSpec>, const MatrixValues& inputs) {
  return for_batch(call, 1, inputs, [&](std::vector<Matrix> in) -> MatrixValues {
    return {
        eliminate(call.attributes.get<bool>("transpose") ? transposed(in[0]) : in[0], in[1]).solution.values};
  });
}

MatrixValues slogdet_reference(const OpCall& call, std::span<const TensorSpec>, const MatrixValues& inputs) {
  return for_batch(call, 2, inputs, [](std::vector<Matrix> in) -> MatrixValues {
    const Elimination result = eliminate(in[0], Matrix(in[0].rows, 0));
    return {{result.sign}, {result.log_determinant}};
  });
}

MatrixValues qr_reference(const OpCall& call, std::span<const TensorSpec>, const MatrixValues& inputs) {
  // Each reflection 1 - 2 v v^T / v^T v applied as a whole: r = H_k ... H_1 x and q = H_1 ... H_k.
  return for_batch(call, 2, inputs, [](std::vector<Matrix> in) -> MatrixValues {
    Matrix r = in[0];
    const int64_t k = std::min(r.rows, r.columns);
    Matrix q(r.rows, r.rows);
    for (int64_t i = 0; i < r.rows; ++i) q(i, i) = 1;
    for (int64_t j = 0; j < k; ++j) {
      std::vector<double> v(static_cast<size_t>(r.rows));
      for (int64_t i = j; i < r.rows; ++i) v[static_cast<size_t>(i)] = r(i, j);
      const auto squared = [&v] { return std::inner_product(v.begin(), v.end(), v.begin(), 0.0); };
      double& head = v[static_cast<size_t>(j)];
      if (squared() == head * head) continue;
      head += std::copysign(std::sqrt(squared()), head);
      const double squares = squared();
      const auto reflect_rows = [&](Matrix& m, bool from_right) {
        for (int64_t line = 0; line < (from_right ? m.rows : m.columns); ++line) {
          const auto element = [&](int64_t i) -> double& { return from_right ? m(line, i) : m(i, line); };
          double product = 0;
          for (int64_t i = j; i < r.rows; ++i) product += v[static_cast<size_t>(i)] * element(i);
          for (int64_t i = j; i < r.rows; ++i)
            element(i) -= 2 * product / squares * v[static_cast<size_t>(i)];
        }
      };
      reflect_rows(r, false);
      reflect_rows(q, true);
    }
    MatrixValues result(2);
    for (int64_t i = 0; i < r.rows; ++i) result[0].insert(result[0].end(), &q(i, 0), &q(i, 0) + k);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < r.columns; ++j) result[1].push_back(j < i ? 0 : r(i, j));
    }
    return result;
  });
}

}  // namespace isochron::ops
