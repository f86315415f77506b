#include "isochron/backends/cpu/elementwise/float8_functions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/elementwise/float8_functions.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/backends/cpu/common/half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using Bits = hn::RebindToUnsigned<D>;

template <typename Format, typename Stored>
void round(const void* from, float scale, bfloat16* to, int64_t count) {
  const D d;
  const Bits bits;
  const auto magnitude_bits = hn::Set(bits, 0x7fffffffu);
  const auto limit = hn::BitCast(bits, hn::Set(d, Format::kLargest * scale));
  const auto least = hn::Set(bits, static_cast<uint32_t>(Format::kMinExponent + 127) << 23);
  const auto finer = hn::Set(bits, static_cast<uint32_t>(23 - Format::kFraction) << 23);
  const auto by = hn::Set(d, scale), over = hn::Set(d, 1 / scale);
  const auto infinity = hn::Set(bits, 0x7f800000u), half = hn::Set(bits, 0x400000u);
  const auto no_number = hn::BitCast(d, hn::Set(bits, 0x7fc00000u));
  each_vector(d, count, [&](int64_t i, size_t lanes) {
    const auto x = hn::BitCast(bits, load_numbers(d, static_cast<const Stored*>(from) + i, lanes));
    const auto magnitude = hn::And(x, magnitude_bits);
    const auto within = hn::Or(hn::AndNot(magnitude_bits, x), hn::Min(magnitude, limit));
    const auto y = hn::BitCast(d, within) * over;
    const auto exponent = hn::Max(hn::And(hn::BitCast(bits, y), infinity), least);
    const auto shift = hn::BitCast(d, hn::Or(exponent, half) + finer);
    const auto rounded = ((y + shift) - shift) * by;
    const auto finite = hn::RebindMask(d, hn::Lt(magnitude, infinity));
    store_numbers(d, hn::IfThenElse(finite, rounded, no_number), to + i, lanes);
  });
}

template <typename Stored>
float largest(const void* from, int64_t count) {
  const D d;
  const Bits bits;
  const auto magnitude_bits = hn::Set(bits, 0x7fffffffu), infinity = hn::Set(bits, 0x7f800000u);
  auto result = hn::Zero(bits);
  each_vector(d, count, [&](int64_t i, size_t lanes) {
    const auto x = hn::BitCast(bits, load_numbers(d, static_cast<const Stored*>(from) + i, lanes));
    const auto magnitude = hn::And(x, magnitude_bits);
    result = hn::Max(result, hn::IfThenElseZero(hn::Lt(magnitude, infinity), magnitude));
  });
  return hn::GetLane(hn::BitCast(d, hn::MaxOfLanes(bits, result)));
}

template <typename Format>
Float8Functions functions_of(DType dtype) {
  if (dtype == DType::kBF16) return {round<Format, bfloat16>, largest<bfloat16>};
  return {round<Format, float>, largest<float>};
}
Float8Functions e4m3(DType dtype) { return functions_of<element::E4M3>(dtype); }
Float8Functions e5m2(DType dtype) { return functions_of<element::E5M2>(dtype); }

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(e4m3);
HWY_EXPORT(e5m2);

template <>
Float8Functions float8_functions<element::E4M3>(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(e4m3)(dtype);
}
template <>
Float8Functions float8_functions<element::E5M2>(DType dtype) {
  return HWY_DYNAMIC_DISPATCH(e5m2)(dtype);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
