// Softmax over rows. Maximum, exponentials and their sum are computed with vectors, one row at a time.
#include "isochron/backends/cpu/reduction/softmax.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "isochron/backends/cpu/common/rows_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/reduction/softmax.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/backends/cpu/reduction/exponentials-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// row = row * scale.
template <typename T>
void scale_row(T* row, size_t n, T scale) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto factor = hn::Set(d, scale);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::LoadU(d, row + i) * factor, d, row + i);
  if (i < n) {
    const auto mask = hn::FirstN(d, n - i);
    masked_store(masked_load(mask, d, row + i) * factor, mask, d, row + i);
  }
}

template <typename T>
void softmax_rows(const T* x, T* y, int64_t rows, int64_t columns) {
  const size_t n = static_cast<size_t>(columns);
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    T largest;
    const double sum = exponentials(x, y, n, &largest);
    scale_row(y, n, static_cast<T>(1.0 / sum));
  }
}

/// y = x - largest - log_sum of one row.
template <typename T>
void shift_row(const T* x, T* y, size_t n, T largest, T log_sum) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto most = hn::Set(d, largest);
  const auto logarithm = hn::Set(d, log_sum);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::LoadU(d, x + i) - most - logarithm, d, y + i);
  if (i < n) {
    const auto mask = hn::FirstN(d, n - i);
    masked_store(masked_load(mask, d, x + i) - most - logarithm, mask, d, y + i);
  }
}

template <typename T>
void log_softmax_rows(const T* x, T* y, int64_t rows, int64_t columns) {
  const size_t n = static_cast<size_t>(columns);
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    T largest;
    const double log_sum = std::log(exponentials<T>(x, nullptr, n, &largest));
    shift_row(x, y, n, largest, static_cast<T>(log_sum));
  }
}

/// losses = log(sum) + distance, where the distance is that of the label's logit from the largest one.
/// Processes blocks of rows, because one vector logarithm costs as much as a scalar one.
template <typename T>
void cross_entropy_rows(const T* x, const int64_t* labels, T* losses, int64_t rows, int64_t columns) {
  constexpr size_t kRows = 64;
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const size_t n = static_cast<size_t>(columns);
  HWY_ALIGN T sums[kRows];
  HWY_ALIGN T distances[kRows];
  for (int64_t start = 0; start < rows; start += kRows) {
    const size_t count = std::min(kRows, static_cast<size_t>(rows - start));
    for (size_t r = 0; r < count; ++r, x += n) {
      T largest;
      sums[r] = static_cast<T>(exponentials<T>(x, nullptr, n, &largest));
      distances[r] = largest - x[labels[start + static_cast<int64_t>(r)]];
    }
    std::fill(sums + count, sums + kRows, T(1));
    std::fill(distances + count, distances + kRows, T(0));
    for (size_t r = 0; r < count; r += lanes) {
      const auto sum = hn::Load(d, sums + r);
      const auto logarithm = hn::IfThenElse(hn::IsNaN(sum), sum, hn::Log(d, sum));
      hn::Store(logarithm + hn::Load(d, distances + r), d, sums + r);
    }
    std::copy_n(sums, count, losses + start);
  }
}

/// (softmax(x) - one_hot(label)) * g of each row.
template <typename T>
void cross_entropy_gradient_rows(const T* x, const int64_t* labels, const T* g, T* y, int64_t rows,
                                 int64_t columns) {
  const size_t n = static_cast<size_t>(columns);
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    T largest;
    const double sum = exponentials(x, y, n, &largest);
    const double at_label = static_cast<double>(y[labels[r]]);
    scale_row(y, n, static_cast<T>(static_cast<double>(g[r]) / sum));
    // Computes p - 1 from the exponentials, which is accurate even if p is nearly 1.
    y[labels[r]] = static_cast<T>(static_cast<double>(g[r]) * ((at_label - sum) / sum));
  }
}

#define ISOCHRON_ROWS(T, suffix)                                                                             \
  void softmax_##suffix(const T* x, T* y, int64_t rows, int64_t columns) {                                   \
    softmax_rows(x, y, rows, columns);                                                                       \
  }                                                                                                          \
  void log_softmax_##suffix(const T* x, T* y, int64_t rows, int64_t columns) {                               \
    log_softmax_rows(x, y, rows, columns);                                                                   \
  }                                                                                                          \
  void cross_entropy_##suffix(const T* x, const int64_t* labels, T* losses, int64_t rows, int64_t columns) { \
    cross_entropy_rows(x, labels, losses, rows, columns);                                                    \
  }                                                                                                          \
  void cross_entropy_gradient_##suffix(const T* x, const int64_t* labels, const T* g, T* y, int64_t rows,    \
                                       int64_t columns) {                                                    \
    cross_entropy_gradient_rows(x, labels, g, y, rows, columns);                                             \
  }
ISOCHRON_ROWS(float, f32)
ISOCHRON_ROWS(double, f64)
#undef ISOCHRON_ROWS

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(softmax_f32);
HWY_EXPORT(softmax_f64);
HWY_EXPORT(log_softmax_f32);
HWY_EXPORT(log_softmax_f64);
HWY_EXPORT(cross_entropy_f32);
HWY_EXPORT(cross_entropy_f64);
HWY_EXPORT(cross_entropy_gradient_f32);
HWY_EXPORT(cross_entropy_gradient_f64);

namespace {

using graph::KernelArgs;
using graph::KernelRequest;

/// Throws kOutOfRange for the first label outside [0, columns). Called before threads start, because they
/// can't throw.
void check_labels(const int64_t* labels, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    if (labels[r] < 0 || labels[r] >= columns) [[unlikely]] {
      fail(ErrorCode::kOutOfRange, "sparse_softmax_cross_entropy",
           "label {} of row {} is outside [0, {}); ignore_index leaves rows with a given label out",
           labels[r], r, columns);
    }
  }
}

template <typename T, bool kLog>
class SoftmaxKernel final : public RowsKernel<T> {
 public:
  using RowsKernel<T>::RowsKernel;
  void run(const KernelArgs& args) override {
    this->each_part([&](int64_t, int64_t begin, int64_t end) {
      const T* x = this->input(args, 0) + begin * this->columns_;
      T* y = this->output(args, 0) + begin * this->columns_;
      if constexpr (kLog) {
        ISOCHRON_CALL(log_softmax, x, y, end - begin, this->columns_);
      } else {
        ISOCHRON_CALL(softmax, x, y, end - begin, this->columns_);
      }
    });
  }
};

template <typename T>
class CrossEntropyKernel final : public RowsKernel<T> {
 public:
  using RowsKernel<T>::RowsKernel;
  void run(const KernelArgs& args) override {
    const int64_t* labels = reinterpret_cast<const int64_t*>(args.inputs[1]);
    check_labels(labels, this->rows_, this->columns_);
    this->each_part([&](int64_t, int64_t begin, int64_t end) {
      ISOCHRON_CALL(cross_entropy, this->input(args, 0) + begin * this->columns_, labels + begin,
                    this->output(args, 0) + begin, end - begin, this->columns_);
    });
  }
};

template <typename T>
class CrossEntropyGradientKernel final : public RowsKernel<T> {
 public:
  using RowsKernel<T>::RowsKernel;
  void run(const KernelArgs& args) override {
    const int64_t* labels = reinterpret_cast<const int64_t*>(args.inputs[1]);
    check_labels(labels, this->rows_, this->columns_);
    this->each_part([&](int64_t, int64_t begin, int64_t end) {
      ISOCHRON_CALL(cross_entropy_gradient, this->input(args, 0) + begin * this->columns_, labels + begin,
                    this->input(args, 2) + begin, this->output(args, 0) + begin * this->columns_, end - begin,
                    this->columns_);
    });
  }
};
template <typename T>
using Softmax = SoftmaxKernel<T, false>;
template <typename T>
using LogSoftmax = SoftmaxKernel<T, true>;

}  // namespace

std::unique_ptr<graph::Kernel> prepare_softmax(const KernelRequest& request) {
  return by_dtype<Softmax>(request.inputs[0].dtype, request);
}
std::unique_ptr<graph::Kernel> prepare_log_softmax(const KernelRequest& request) {
  return by_dtype<LogSoftmax>(request.inputs[0].dtype, request);
}
std::unique_ptr<graph::Kernel> prepare_cross_entropy(const KernelRequest& request) {
  return by_dtype<CrossEntropyKernel>(request.inputs[0].dtype, request);
}
std::unique_ptr<graph::Kernel> prepare_cross_entropy_gradient(const KernelRequest& request) {
  return by_dtype<CrossEntropyGradientKernel>(request.inputs[0].dtype, request);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
