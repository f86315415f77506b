// Transposition in vector registers. Included once per Highway target, hence no ordinary include guard.

#if defined(ISOCHRON_OPS_CPU_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_TRANSPOSE_INL_H_
#undef ISOCHRON_OPS_CPU_TRANSPOSE_INL_H_
#else
#define ISOCHRON_OPS_CPU_TRANSPOSE_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Rows and columns of the squares that the smallest vectors can hold.
template <typename T>
constexpr int64_t kSquare = HWY_TARGET == HWY_SCALAR ? 1 : 16 / sizeof(T);
template <typename T>
using SquareRow = hn::CappedTag<T, kSquare<T>>;

/// to (kSquare rows, `pitch` apart) = a square, transposed; load(i) returns its row i, a vector of SquareRow.
template <typename T, class Load>
HWY_INLINE void transpose_square(const Load& load, T* to, int64_t pitch) {
  const SquareRow<T> d;
  if constexpr (kSquare<T> == 1) {
    hn::StoreU(load(0), d, to);
  } else if constexpr (kSquare<T> == 2) {
    const auto r0 = load(0), r1 = load(1);
    hn::StoreU(InterleaveLower(d, r0, r1), d, to);
    hn::StoreU(InterleaveUpper(d, r0, r1), d, to + pitch);
  } else {
    const auto r0 = load(0), r1 = load(1), r2 = load(2), r3 = load(3);
    const auto upper = InterleaveLower(d, r0, r1), upper_right = InterleaveUpper(d, r0, r1);
    const auto lower = InterleaveLower(d, r2, r3), lower_right = InterleaveUpper(d, r2, r3);
    hn::StoreU(ConcatLowerLower(d, lower, upper), d, to);
    hn::StoreU(ConcatUpperUpper(d, lower, upper), d, to + pitch);
    hn::StoreU(ConcatLowerLower(d, lower_right, upper_right), d, to + 2 * pitch);
    hn::StoreU(ConcatUpperUpper(d, lower_right, upper_right), d, to + 3 * pitch);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
