// Casts of tiles between f32 and 16-bit floats, with vectors. Other casts are plain loops
// (tile_functions_plain.cc).
#include "isochron/backends/cpu/elementwise/tile_functions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/elementwise/tile_casts.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/backends/cpu/common/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename To, typename From>
void cast_run(void* dst, const void* a, const void*, const void*, int64_t n) {
  const hn::ScalableTag<float> d;
  To* to = static_cast<To*>(dst);
  const From* from = static_cast<const From*>(a);
  each_vector(d, n, [&](int64_t i, size_t lanes) HWY_ATTR {
    store_numbers(d, load_numbers(d, from + i, lanes), to + i, lanes);
  });
}

/// The vectorized cast, or null if there is none.
TileFunction find_vector_cast(DType from, DType to) {
  if (from == DType::kF32 && to == DType::kBF16) return cast_run<bfloat16, float>;
  if (from == DType::kF32 && to == DType::kF16) return cast_run<float16, float>;
  if (from == DType::kBF16 && to == DType::kF32) return cast_run<float, bfloat16>;
  if (from == DType::kF16 && to == DType::kF32) return cast_run<float, float16>;
  return nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(find_vector_cast);

TileFunction plain_tile_cast(DType from, DType to);

TileFunction tile_cast(DType from, DType to) {
  if (TileFunction found = HWY_DYNAMIC_DISPATCH(find_vector_cast)(from, to)) return found;
  return plain_tile_cast(from, to);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
