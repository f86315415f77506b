// The small matrix multiply as functions, for the best instruction set at hand.
#include "isochron/backends/cpu/matmul/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/matmul/small_matmul.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "isochron/backends/cpu/matmul/small_matmul-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {

void multiply_f32(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_column,
                  const float* b, int64_t b_row, float* c) {
  multiply<false>(Product<float>{m, n, k, a, a_row, a_column, b, b_row, c, n});
}
void multiply_f64(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, int64_t a_column,
                  const double* b, int64_t b_row, double* c) {
  multiply<false>(Product<double>{m, n, k, a, a_row, a_column, b, b_row, c, n});
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(multiply_f32);
HWY_EXPORT(multiply_f64);

template <>
void small_matmul<float>(int64_t m, int64_t n, int64_t k, const float* a, int64_t a_row, int64_t a_column,
                         const float* b, int64_t b_row, float* c) {
  if (n == 1 && a_row == 1 && m > 1) {  // a column of results is a row of the transposed product
    HWY_DYNAMIC_DISPATCH(multiply_f32)(1, m, k, b, 0, b_row, a, a_column, c);
    return;
  }
  HWY_DYNAMIC_DISPATCH(multiply_f32)(m, n, k, a, a_row, a_column, b, b_row, c);
}
template <>
void small_matmul<double>(int64_t m, int64_t n, int64_t k, const double* a, int64_t a_row, int64_t a_column,
                          const double* b, int64_t b_row, double* c) {
  if (n == 1 && a_row == 1 && m > 1) {
    HWY_DYNAMIC_DISPATCH(multiply_f64)(1, m, k, b, 0, b_row, a, a_column, c);
    return;
  }
  HWY_DYNAMIC_DISPATCH(multiply_f64)(m, n, k, a, a_row, a_column, b, b_row, c);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
