#include "isochron/backends/cpu/reduction/log_sum_exp.h"

#include <cmath>

#include "isochron/backends/cpu/common/rows_kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/reduction/log_sum_exp.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/backends/cpu/reduction/exponentials-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {

template <typename T>
void log_sum_exp_rows(const T* x, T* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r, x += columns) {
    T largest;
    const double sum = exponentials<T>(x, nullptr, static_cast<size_t>(columns), &largest);
    y[r] = std::isinf(largest) ? largest : static_cast<T>(static_cast<double>(largest) + std::log(sum));
  }
}

void log_sum_exp_f32(const float* x, float* y, int64_t rows, int64_t columns) {
  log_sum_exp_rows(x, y, rows, columns);
}
void log_sum_exp_f64(const double* x, double* y, int64_t rows, int64_t columns) {
  log_sum_exp_rows(x, y, rows, columns);
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(log_sum_exp_f32);
HWY_EXPORT(log_sum_exp_f64);

namespace {

template <typename T>
class LogSumExpKernel final : public RowsKernel<T> {
 public:
  using RowsKernel<T>::RowsKernel;
  void run(const graph::KernelArgs& args) override {
    this->each_part([&](int64_t, int64_t begin, int64_t end) {
      ISOCHRON_CALL(log_sum_exp, this->input(args, 0) + begin * this->columns_, this->output(args, 0) + begin,
                    end - begin, this->columns_);
    });
  }
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_log_sum_exp(const graph::KernelRequest& request) {
  return by_dtype<LogSumExpKernel>(request.inputs[0].dtype, request);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
