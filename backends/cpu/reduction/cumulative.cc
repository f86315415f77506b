#include "isochron/backends/cpu/reduction/cumulative.h"

#include <cmath>
#include <limits>

#include "isochron/backends/cpu/common/axis_kernels.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;

constexpr int64_t kColumns = 256;  // columns per pass, with carried values on the stack

template <typename T>
using Accumulator = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;  // integers wrap

template <typename T>
T rounded(Accumulator<T> x) {
  if constexpr (half_type<T>) {
    return T(static_cast<float>(x));
  } else {
    return static_cast<T>(x);
  }
}

struct Sum {
  template <typename A>
  static A start() {
    return A(0);
  }
  template <typename A>
  static A step(A so_far, A x) {
    return so_far + x;
  }
};

struct Product {
  template <typename A>
  static A start() {
    return A(1);
  }
  template <typename A>
  static A step(A so_far, A x) {
    return so_far * x;
  }
};

struct LogSumExp {
  template <typename A>
  static A start() {
    return -std::numeric_limits<A>::infinity();
  }
  template <typename A>
  static A step(A so_far, A x) {
    if (so_far == x) return x + static_cast<A>(M_LN2);  // correct for infinities too
    return std::isnan(x) ? x : std::max(so_far, x) + std::log1p(std::exp(-std::abs(so_far - x)));
  }
};

/// Visits the positions along the axis in scan order.
class Walk {
 public:
  Walk(const KernelRequest& request)
      : view_(request.inputs[0].shape, axis_of(request)), reverse_(request.attributes.get<bool>("reverse")) {
    threads_ = request.inputs[0].shape.elems() >= 2 * kElemsPerThread ? request.threads : 1;
  }

  /// Calls `columns(walk_rows, count)` for runs of `count` columns. walk_rows(visit) calls `visit(k, first)`
  /// for each position k along the axis; the elements of that position start at `first`. A count of 1 is a
  /// compile-time constant, so that the carried values stay in registers.
  template <typename Columns>
  void for_each(Columns columns) const {
    for_columns(threads_, view_.outer, view_.inner, kColumns, [&](int64_t outer, int64_t begin, int64_t end) {
      const auto rows = [&](auto visit) {
        for (int64_t n = 0; n < view_.extent; ++n) {
          const int64_t k = reverse_ ? view_.extent - 1 - n : n;
          visit(k, (outer * view_.extent + k) * view_.inner + begin);
        }
      };
      if (view_.inner == 1) {
        columns(rows, std::integral_constant<int64_t, 1>());
      } else {
        columns(rows, end - begin);
      }
    });
  }

 private:
  AxisView view_;
  bool reverse_;
  int threads_ = 1;
};

template <typename Function, typename T>
class CumulativeKernel final : public graph::Kernel {
 public:
  CumulativeKernel(const KernelRequest& request)
      : walk_(request), exclusive_(request.attributes.get_or("exclusive", false)) {}

  void run(const KernelArgs& args) override {
    using A = Accumulator<T>;
    const T* x = reinterpret_cast<const T*>(args.inputs[0]);
    T* out = reinterpret_cast<T*>(args.outputs[0]);
    walk_.for_each([&](auto rows, auto count) {
      A so_far[kColumns];
      std::fill_n(so_far, int64_t{count}, Function::template start<A>());
      rows([&](int64_t, int64_t first) {
        for (int64_t i = 0; i < count; ++i) {
          A& carried = so_far[i];
          const A before = carried;
          carried = Function::step(before, static_cast<A>(widen(x[first + i])));
          out[first + i] = rounded<T>(exclusive_ ? before : carried);
        }
      });
    });
  }

 private:
  Walk walk_;
  bool exclusive_;
};

template <typename T>
class RecurrenceKernel final : public graph::Kernel {
 public:
  RecurrenceKernel(const KernelRequest& request) : walk_(request) {}

  void run(const KernelArgs& args) override {
    const T* factors = reinterpret_cast<const T*>(args.inputs[0]);
    const T* terms = reinterpret_cast<const T*>(args.inputs[1]);
    T* out = reinterpret_cast<T*>(args.outputs[0]);
    walk_.for_each([&](auto rows, auto count) {
      double so_far[kColumns];
      std::fill_n(so_far, int64_t{count}, 0.0);
      rows([&](int64_t, int64_t first) {
        for (int64_t i = 0; i < count; ++i) {
          double& carried = so_far[i];
          carried = static_cast<double>(widen(factors[first + i])) * carried +
                    static_cast<double>(widen(terms[first + i]));
          out[first + i] = rounded<T>(carried);
        }
      });
    });
  }

 private:
  Walk walk_;
};

template <bool kLargest, typename T>
class ExtremeKernel final : public graph::Kernel {
 public:
  ExtremeKernel(const KernelRequest& request) : walk_(request) {}

  void run(const KernelArgs& args) override {
    const T* x = reinterpret_cast<const T*>(args.inputs[0]);
    T* values = reinterpret_cast<T*>(args.outputs[0]);
    int64_t* positions = reinterpret_cast<int64_t*>(args.outputs[1]);
    walk_.for_each([&](auto rows, auto count) {
      T best[kColumns];
      int64_t at[kColumns];
      std::fill_n(at, int64_t{count}, int64_t{-1});
      rows([&](int64_t k, int64_t first) {
        for (int64_t i = 0; i < count; ++i) {
          if (at[i] < 0 || replaces(x[first + i], best[i])) {
            best[i] = x[first + i];
            at[i] = k;
          }
          if (values) values[first + i] = best[i];
          if (positions) positions[first + i] = at[i];
        }
      });
    });
  }

 private:
  static bool replaces(T candidate, T best) {
    const auto a = widen(candidate);
    const auto b = widen(best);
    if (a != a) return true;  // NaN
    return kLargest ? a >= b : a <= b;
  }

  Walk walk_;
};

template <template <typename> typename KernelOf>
std::unique_ptr<graph::Kernel> prepare_floating(const KernelRequest& request) {
  return dispatch_dtype(request.inputs[0].dtype, [&]<typename T>(T) -> std::unique_ptr<graph::Kernel> {
    if constexpr (std::is_integral_v<T>) {
      fail(ErrorCode::kDtypeMismatch, request.op.name, "no kernel for {}", dtype_name(dtype_of<T>));
    } else {
      return std::make_unique<KernelOf<T>>(request);
    }
  });
}

template <template <typename> typename KernelOf>
std::unique_ptr<graph::Kernel> prepare_numbers(const KernelRequest& request) {
  return dispatch_dtype(request.inputs[0].dtype, [&]<typename T>(T) -> std::unique_ptr<graph::Kernel> {
    if constexpr (std::is_same_v<T, bool>) {
      fail(ErrorCode::kDtypeMismatch, request.op.name, "no kernel for {}", dtype_name(dtype_of<T>));
    } else {
      return std::make_unique<KernelOf<T>>(request);
    }
  });
}

template <typename T>
using SumKernel = CumulativeKernel<Sum, T>;
template <typename T>
using ProductKernel = CumulativeKernel<Product, T>;
template <typename T>
using CumulativeLogSumExpKernel = CumulativeKernel<LogSumExp, T>;
template <typename T>
using MaxKernel = ExtremeKernel<true, T>;
template <typename T>
using MinKernel = ExtremeKernel<false, T>;

}  // namespace

std::unique_ptr<graph::Kernel> prepare_cumulative_sum(const KernelRequest& request) {
  return prepare_numbers<SumKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_cumulative_product(const KernelRequest& request) {
  return prepare_numbers<ProductKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_log_cumulative_sum_exp(const KernelRequest& request) {
  return prepare_floating<CumulativeLogSumExpKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_cumulative_max(const KernelRequest& request) {
  return prepare_numbers<MaxKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_cumulative_min(const KernelRequest& request) {
  return prepare_numbers<MinKernel>(request);
}
std::unique_ptr<graph::Kernel> prepare_linear_recurrence(const KernelRequest& request) {
  return prepare_floating<RecurrenceKernel>(request);
}

}  // namespace isochron::ops
