#include "isochron/backends/cpu/linalg/linalg.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "isochron/backends/cpu/linalg/factorization.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/process/threads.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;

constexpr double kOperationsPerThread = 100'000;

/// The last two axes of a batch of matrices.
struct Matrices {
  int64_t rows;
  int64_t columns;
  int64_t count = 1;
  Shape batch;
  explicit Matrices(const Shape& shape) : rows(shape[shape.rank() - 2]), columns(shape.back()) {
    for (int i = 0; i + 2 < shape.rank(); ++i) batch.push_back(shape[i]);
    count = batch.elems();
  }
  int64_t elems() const { return rows * columns; }
  /// The name of matrix `i` in messages: "the matrix", or "matrix (1, 3) of the batch (2, 4)".
  std::string name(int64_t i) const {
    if (batch.empty()) return "the matrix";
    Dims at = batch;
    for (int axis = batch.rank() - 1; axis >= 0; --axis) {
      at[axis] = i % batch[axis];
      i /= batch[axis];
    }
    return fmt::format("matrix {} of the batch {}", dims_str(at), batch.str());
  }
};

/// Lays out regions of a workspace one after the other, each aligned for any element type.
class Regions {
 public:
  /// Returns where a region of `count` elements starts.
  template <typename E>
  size_t add(int64_t count) {
    const size_t start = bytes_;
    bytes_ = checked_add(start, align_up<size_t>(checked_mul(static_cast<size_t>(count), sizeof(E)), 64));
    return start;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

/// The common part of the kernels below: matrices are distributed over threads, each with its own scratch
/// memory.
template <typename T>
class MatrixKernel : public graph::Kernel {
 public:
  size_t workspace_bytes() const override { return regions_.bytes(); }

 protected:
  MatrixKernel(const KernelRequest& request, double operations, int64_t scratch = kFactorizationScratch)
      : name_(request.op.name), a_(request.inputs[0].shape), scratch_elems_(scratch) {
    const bool large = a_.count > 1 && operations * static_cast<double>(a_.count) >= kOperationsPerThread;
    threads_ = large ? request.threads : 1;
    scratch_ = regions_.add<T>(scratch_elems_ * threads_);
  }

  /// Calls `body(matrix, scratch)` for each matrix of the batch.
  template <typename Body>
  void for_each(const KernelArgs& args, Body body) const {
    parallel_for(threads_, threads_, [&](int64_t first, int64_t last) {
      for (int64_t thread = first; thread < last; ++thread) {  // one per thread
        T* scratch = at<T>(args, scratch_) + thread * scratch_elems_;
        for (int64_t i = a_.count * thread / threads_; i < a_.count * (thread + 1) / threads_; ++i)
          body(i, scratch);
      }
    });
  }

  template <typename E>
  static E* at(const KernelArgs& args, size_t region) {
    return reinterpret_cast<E*>(args.workspace + region);
  }
  static const T* input(const KernelArgs& args, int i) { return reinterpret_cast<const T*>(args.inputs[i]); }
  static T* output(const KernelArgs& args, int i) { return reinterpret_cast<T*>(args.outputs[i]); }

  std::string name_;
  Matrices a_;
  Regions regions_;

 private:
  int64_t scratch_elems_;
  size_t scratch_ = 0;
  int threads_ = 1;
};

double cube(int64_t n) { return std::pow(static_cast<double>(n), 3); }

class TriangleKernel final : public graph::Kernel {
 public:
  TriangleKernel(const KernelRequest& request)
      : matrices_(request.inputs[0].shape),
        size_(dtype_size(request.inputs[0].dtype)),
        lower_(request.attributes.get<bool>("lower")),
        diagonal_(std::clamp(request.attributes.get<int64_t>("diagonal"), -matrices_.rows - 1,
                             matrices_.columns + 1)) {}

  void run(const KernelArgs& args) override {
    const size_t row_bytes = static_cast<size_t>(matrices_.columns) * size_;
    if (row_bytes == 0) return;
    for (int64_t row = 0; row < matrices_.count * matrices_.rows; ++row) {
      // Columns before `split` are on or below the diagonal or, if the upper triangle is kept, below it.
      const int64_t bound = row % matrices_.rows + diagonal_ + (lower_ ? 1 : 0);
      const size_t split = static_cast<size_t>(std::clamp<int64_t>(bound, 0, matrices_.columns)) * size_;
      const size_t from = lower_ ? 0 : split;
      const size_t to = lower_ ? split : row_bytes;
      std::byte* out = args.outputs[0] + static_cast<size_t>(row) * row_bytes;
      const std::byte* in = args.inputs[0] + static_cast<size_t>(row) * row_bytes;
      if (from > 0) std::memset(out, 0, from);
      if (to > from) std::memmove(out + from, in + from, to - from);
      if (row_bytes > to) std::memset(out + to, 0, row_bytes - to);
    }
  }

 private:
  Matrices matrices_;
  size_t size_;
  bool lower_;
  int64_t diagonal_;
};

template <typename T>
class CholeskyKernel final : public MatrixKernel<T> {
 public:
  CholeskyKernel(const KernelRequest& request)
      : MatrixKernel<T>(request, cube(request.inputs[0].shape.back()) / 3) {
    factors_ = this->regions_.template add<T>(this->a_.count * this->a_.elems());
    failed_ = this->regions_.template add<int64_t>(this->a_.count);
  }

  void run(const KernelArgs& args) override {
    const int64_t n = this->a_.rows;
    T* factors = this->template at<T>(args, factors_);
    int64_t* failed = this->template at<int64_t>(args, failed_);
    this->for_each(args, [&](int64_t m, T* scratch) {
      const T* a = this->input(args, 0) + m * n * n;
      T* u = factors + m * n * n;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = i; j < n; ++j) u[i * n + j] = (a[i * n + j] + a[j * n + i]) / 2;
      }
      failed[m] = factor_cholesky(u, n, n, scratch);
    });
    for (int64_t m = 0; m < this->a_.count; ++m) {
      if (failed[m] < 0) [[likely]]
        continue;
      fail(ErrorCode::kInvalidArgument, this->name_,
           "{} is not positive definite: pivot {} is {}; add a multiple of the unit matrix?",
           this->a_.name(m), failed[m], factors[m * n * n + failed[m] * (n + 1)]);
    }
    this->for_each(args, [&](int64_t m, T*) {
      const T* u = factors + m * n * n;
      T* out = this->output(args, 0) + m * n * n;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) out[i * n + j] = j <= i ? u[j * n + i] : T(0);
      }
    });
  }

 private:
  size_t factors_ = 0;
  size_t failed_ = 0;
};

template <typename T>
class TriangularSolveKernel final : public MatrixKernel<T> {
 public:
  TriangularSolveKernel(const KernelRequest& request)
      : MatrixKernel<T>(request, static_cast<double>(request.inputs[0].shape.back()) *
                                     static_cast<double>(request.inputs[1].shape.back()) *
                                     static_cast<double>(request.inputs[0].shape.back())),
        b_(request.inputs[1].shape),
        triangle_{request.attributes.get<bool>("lower"), request.attributes.get<bool>("transpose"),
                  request.attributes.get<bool>("unit_diagonal")} {}

  void run(const KernelArgs& args) override {
    const int64_t n = this->a_.rows;
    if (!triangle_.unit_diagonal) check_diagonals(this->input(args, 0));
    this->for_each(args, [&](int64_t m, T* scratch) {
      T* out = this->output(args, 0) + m * b_.elems();
      std::copy_n(this->input(args, 1) + m * b_.elems(), b_.elems(), out);
      solve_triangular(this->input(args, 0) + m * n * n, n, n, triangle_, out, b_.columns, b_.columns,
                       scratch);
    });
  }

 private:
  void check_diagonals(const T* a) const {
    const int64_t n = this->a_.rows;
    for (int64_t m = 0; m < this->a_.count; ++m) {
      for (int64_t i = 0; i < n; ++i) {
        if (a[m * n * n + i * (n + 1)] != 0) [[likely]]
          continue;
        fail(ErrorCode::kInvalidArgument, this->name_,
             "{} is singular: element ({}, {}) of its diagonal is 0", this->a_.name(m), i, i);
      }
    }
  }

  Matrices b_;
  Triangle triangle_;
};

/// Computes the LU factors of the batch in the workspace.
template <typename T>
class LuKernel : public MatrixKernel<T> {
 protected:
  LuKernel(const KernelRequest& request) : MatrixKernel<T>(request, cube(request.inputs[0].shape.back())) {
    factors_ = this->regions_.template add<T>(this->a_.count * this->a_.elems());
    pivots_ = this->regions_.template add<int64_t>(this->a_.count * this->a_.rows);
  }

  void factor(const KernelArgs& args, bool transpose) const {
    const int64_t n = this->a_.rows;
    this->for_each(args, [&](int64_t m, T* scratch) {
      const T* a = this->input(args, 0) + m * n * n;
      T* lu = factors(args, m);
      if (transpose) {
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t j = 0; j < n; ++j) lu[i * n + j] = a[j * n + i];
        }
      } else {
        std::copy_n(a, n * n, lu);
      }
      factor_lu(lu, n, n, n, pivots(args, m), scratch);
    });
  }

  T* factors(const KernelArgs& args, int64_t m) const {
    return this->template at<T>(args, factors_) + m * this->a_.elems();
  }
  int64_t* pivots(const KernelArgs& args, int64_t m) const {
    return this->template at<int64_t>(args, pivots_) + m * this->a_.rows;
  }

 private:
  size_t factors_ = 0;
  size_t pivots_ = 0;
};

template <typename T>
class SolveKernel final : public LuKernel<T> {
 public:
  SolveKernel(const KernelRequest& request)
      : LuKernel<T>(request),
        b_(request.inputs[1].shape),
        transpose_(request.attributes.get<bool>("transpose")) {}

  void run(const KernelArgs& args) override {
    const int64_t n = this->a_.rows;
    this->factor(args, transpose_);
    for (int64_t m = 0; m < this->a_.count; ++m) check_pivots(args, m);
    this->for_each(args, [&](int64_t m, T* scratch) {
      const T* lu = this->factors(args, m);
      const int64_t* pivots = this->pivots(args, m);
      T* x = this->output(args, 0) + m * b_.elems();
      std::copy_n(this->input(args, 1) + m * b_.elems(), b_.elems(), x);
      for (int64_t i = 0; i < n; ++i) {
        if (pivots[i] != i)
          std::swap_ranges(x + i * b_.columns, x + (i + 1) * b_.columns, x + pivots[i] * b_.columns);
      }
      solve_triangular(lu, n, n, {.lower = true, .unit_diagonal = true}, x, b_.columns, b_.columns, scratch);
      solve_triangular(lu, n, n, {.lower = false}, x, b_.columns, b_.columns, scratch);
    });
  }

 private:
  void check_pivots(const KernelArgs& args, int64_t m) const {
    const int64_t n = this->a_.rows;
    for (int64_t i = 0; i < n; ++i) {
      if (this->factors(args, m)[i * (n + 1)] != 0) [[likely]]
        continue;
      fail(ErrorCode::kInvalidArgument, this->name_, "{} is singular: column {} depends on those before it",
           this->a_.name(m), i);
    }
  }

  Matrices b_;
  bool transpose_;
};

template <typename T>
class SlogdetKernel final : public LuKernel<T> {
 public:
  SlogdetKernel(const KernelRequest& request) : LuKernel<T>(request) {}

  void run(const KernelArgs& args) override {
    const int64_t n = this->a_.rows;
    this->factor(args, false);
    for (int64_t m = 0; m < this->a_.count; ++m) {
      double sign = 1;
      double log_magnitude = 0;
      for (int64_t i = 0; i < n; ++i) {
        const double pivot = static_cast<double>(this->factors(args, m)[i * (n + 1)]);
        if (this->pivots(args, m)[i] != i) sign = -sign;
        sign *= pivot > 0 ? 1 : (pivot < 0 ? -1 : pivot);  // 0 and NaN make `sign` 0 or NaN
        log_magnitude += std::log(std::abs(pivot));
      }
      this->output(args, 0)[m] = static_cast<T>(sign == 0 ? 0 : sign);
      this->output(args, 1)[m] = static_cast<T>(log_magnitude);
    }
  }
};

template <typename T>
class QrKernel final : public MatrixKernel<T> {
 public:
  QrKernel(const KernelRequest& request)
      : MatrixKernel<T>(request, 4.0 * static_cast<double>(request.inputs[0].shape.elems()),
                        qr_scratch_elems(request.inputs[0].shape[request.inputs[0].shape.rank() - 2],
                                         request.inputs[0].shape.back())),
        k_(request.outputs[0].shape.back()) {
    copies_ = this->regions_.template add<T>(this->a_.count * this->a_.elems());
  }

  void run(const KernelArgs& args) override {
    const Matrices& a = this->a_;
    this->for_each(args, [&](int64_t m, T* scratch) {
      T* copy = this->template at<T>(args, copies_) + m * a.elems();
      std::copy_n(this->input(args, 0) + m * a.elems(), a.elems(), copy);
      factor_qr(copy, a.rows, a.columns, this->output(args, 0) + m * a.rows * k_,
                this->output(args, 1) + m * k_ * a.columns, scratch);
    });
  }

 private:
  int64_t k_;
  size_t copies_ = 0;
};

template <template <typename> typename KernelOf>
std::unique_ptr<graph::Kernel> prepare(const KernelRequest& request) {
  if (request.inputs[0].dtype == DType::kF64) return std::make_unique<KernelOf<double>>(request);
  return std::make_unique<KernelOf<float>>(request);
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_triangle(const KernelRequest& request) {
  return std::make_unique<TriangleKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_cholesky(const KernelRequest& request) {
  return prepare<CholeskyKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_triangular_solve(const KernelRequest& request) {
  return prepare<TriangularSolveKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_solve(const KernelRequest& request) {
  return prepare<SolveKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_slogdet(const KernelRequest& request) {
  return prepare<SlogdetKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_qr(const KernelRequest& request) { return prepare<QrKernel>(request); }

}  // namespace isochron::ops
