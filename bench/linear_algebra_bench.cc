// Compares our factorizations (backends/cpu/linalg/factorization.h) with Eigen's, whose objects are created
// once for the size of the matrix: time and heap allocations per matrix, on one thread. For the conclusions,
// see docs/cpu.md, "Linear algebra".
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_STACK_ALLOCATION_LIMIT (8 << 20)  // Eigen's packed operands of a product fit on the stack
#include <benchmark/benchmark.h>

#include <Eigen/Dense>
#include <algorithm>
#include <vector>

#include "isochron/apps/allocation_counter.h"
#include "isochron/backends/cpu/linalg/factorization.h"
#include "isochron/core/base/rng.h"

namespace isochron {
namespace {

template <typename T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using Span = Eigen::Map<Matrix<T>>;

/// A batch of random matrices, their products with their transposes, right sides, and room for results.
template <typename T>
struct Batch {
  int64_t n;
  int64_t columns;
  int64_t count;
  std::vector<T> square, positive, sides, work, solution, q, r, scratch;
  std::vector<int64_t> pivots;

  explicit Batch(const benchmark::State& state)
      : n(state.range(0)), columns(std::min<int64_t>(n, 8)), count(state.range(1)) {
    Rng rng(1);
    square.resize(static_cast<size_t>(count * n * n));
    sides.resize(static_cast<size_t>(count * n * columns));
    for (T& value : square) value = static_cast<T>(2 * rng.uniform() - 1);
    for (T& value : sides) value = static_cast<T>(2 * rng.uniform() - 1);
    positive = work = q = r = square;
    solution = sides;
    scratch.resize(static_cast<size_t>(ops::kFactorizationScratch + ops::qr_scratch_elems(n, n)));
    pivots.resize(static_cast<size_t>(n));
    for (int64_t i = 0; i < count; ++i) {
      const Matrix<T> a = matrix(square, i);
      matrix(positive, i) = a * a.transpose() + Matrix<T>::Identity(n, n);
    }
  }
  Span<T> matrix(std::vector<T>& all, int64_t i) const { return {all.data() + i * n * n, n, n}; }
  Span<T> side(std::vector<T>& all, int64_t i) const { return {all.data() + i * n * columns, n, columns}; }
  /// Matrix `i` of `all`, copied to memory that may be overwritten.
  T* copied(std::vector<T>& all, int64_t i) {
    std::copy_n(all.data() + i * n * n, n * n, work.data());
    return work.data();
  }
  T* copied_side(int64_t i) {
    std::copy_n(sides.data() + i * n * columns, n * columns, solution.data() + i * n * columns);
    return solution.data() + i * n * columns;
  }
};

/// Runs `body(i)` for each matrix of the batch.
template <typename T, typename Body>
void measure(benchmark::State& state, const Batch<T>& batch, Body body) {
  body(0);
  const int64_t before = allocations_counted() ? heap_allocations() : 0;
  int64_t matrices = 0;
  for (auto _ : state) {
    for (int64_t i = 0; i < batch.count; ++i) body(i);
    matrices += batch.count;
  }
  state.counters["allocations"] =
      static_cast<double>(heap_allocations() - before) / static_cast<double>(matrices);
  state.counters["time/matrix"] =
      benchmark::Counter(static_cast<double>(batch.count),
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

template <typename T>
void BM_Cholesky(benchmark::State& state) {
  Batch<T> b(state);
  measure(state, b,
          [&](int64_t i) { ops::factor_cholesky(b.copied(b.positive, i), b.n, b.n, b.scratch.data()); });
}
template <typename T>
void BM_CholeskyEigen(benchmark::State& state) {
  Batch<T> b(state);
  Eigen::LLT<Matrix<T>> factors(b.n);
  measure(state, b, [&](int64_t i) { factors.compute(b.matrix(b.positive, i)); });
}

template <typename T>
void BM_Solve(benchmark::State& state) {
  Batch<T> b(state);
  measure(state, b, [&](int64_t i) {
    T* lu = b.copied(b.square, i);
    T* x = b.copied_side(i);
    ops::factor_lu(lu, b.n, b.n, b.n, b.pivots.data(), b.scratch.data());
    for (int64_t row = 0; row < b.n; ++row) {
      const int64_t other = b.pivots[static_cast<size_t>(row)];
      if (other != row)
        std::swap_ranges(x + row * b.columns, x + (row + 1) * b.columns, x + other * b.columns);
    }
    ops::solve_triangular<T>(lu, b.n, b.n, {.lower = true, .unit_diagonal = true}, x, b.columns, b.columns,
                             b.scratch.data());
    ops::solve_triangular<T>(lu, b.n, b.n, {.lower = false}, x, b.columns, b.columns, b.scratch.data());
  });
}
template <typename T>
void BM_SolveEigen(benchmark::State& state) {
  Batch<T> b(state);
  Eigen::PartialPivLU<Matrix<T>> factors(b.n);
  measure(state, b, [&](int64_t i) {
    factors.compute(b.matrix(b.square, i));
    b.side(b.solution, i) = factors.solve(b.side(b.sides, i));
  });
}

template <typename T>
void BM_Lu(benchmark::State& state) {
  Batch<T> b(state);
  measure(state, b, [&](int64_t i) {
    ops::factor_lu(b.copied(b.square, i), b.n, b.n, b.n, b.pivots.data(), b.scratch.data());
  });
}
template <typename T>
void BM_LuEigen(benchmark::State& state) {
  Batch<T> b(state);
  Eigen::PartialPivLU<Matrix<T>> factors(b.n);
  measure(state, b, [&](int64_t i) { factors.compute(b.matrix(b.square, i)); });
}

template <typename T>
void BM_Triangular(benchmark::State& state) {
  Batch<T> b(state);
  measure(state, b, [&](int64_t i) {
    ops::solve_triangular<T>(b.positive.data() + i * b.n * b.n, b.n, b.n, {}, b.copied_side(i), b.columns,
                             b.columns, b.scratch.data());
  });
}
template <typename T>
void BM_TriangularEigen(benchmark::State& state) {
  Batch<T> b(state);
  measure(state, b, [&](int64_t i) {
    b.copied_side(i);
    Span<T> x = b.side(b.solution, i);
    b.matrix(b.positive, i).template triangularView<Eigen::Lower>().solveInPlace(x);
  });
}

template <typename T>
void BM_Qr(benchmark::State& state) {
  Batch<T> b(state);
  measure(state, b, [&](int64_t i) {
    const int64_t at = i * b.n * b.n;
    ops::factor_qr(b.copied(b.square, i), b.n, b.n, b.q.data() + at, b.r.data() + at, b.scratch.data());
  });
}
template <typename T>
void BM_QrEigen(benchmark::State& state) {
  Batch<T> b(state);
  Eigen::HouseholderQR<Matrix<T>> factors(b.n, b.n);
  Eigen::Matrix<T, 1, Eigen::Dynamic> workspace(b.n);
  measure(state, b, [&](int64_t i) {
    factors.compute(b.matrix(b.square, i));
    b.matrix(b.r, i) = factors.matrixQR().template triangularView<Eigen::Upper>();
    Span<T> q = b.matrix(b.q, i);
    factors.householderQ().evalTo(q, workspace);
  });
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"n", "batch"})->Args({4, 256})->Args({16, 256})->Args({64, 64})->Args({256, 2});
}
BENCHMARK_TEMPLATE(BM_Cholesky, float)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_CholeskyEigen, float)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_Solve, float)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_SolveEigen, float)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_Lu, float)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_LuEigen, float)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_Triangular, float)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_TriangularEigen, float)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_Qr, float)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_QrEigen, float)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_Cholesky, double)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_CholeskyEigen, double)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_Solve, double)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_SolveEigen, double)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_Lu, double)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_LuEigen, double)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_Triangular, double)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_TriangularEigen, double)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_Qr, double)->Apply(sizes);
BENCHMARK_TEMPLATE(BM_QrEigen, double)->Apply(sizes);

}  // namespace
}  // namespace isochron
