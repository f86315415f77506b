// Philox4x32-10 in vector lanes: each lane is a block of its own, so the words don't depend on the width.
#include "isochron/backends/cpu/random/random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/random/philox.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<uint32_t>;
using V = hn::Vec<D>;

#if HWY_TARGET != HWY_SCALAR
/// Computes the high and low halves of the 64-bit products x * factor.
HWY_INLINE void multiply(V x, uint32_t factor, V& high, V& low) {
  const D d;
  const hn::RepartitionToWide<D> dw;
  const V f = hn::Set(d, factor);
  const auto even = hn::MulEven(x, f);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(dw, x))), f);
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
}
#endif

void blocks(const DrawKey& key, uint32_t first, int64_t count, uint32_t* words) {
  int64_t done = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; done + lanes <= count; done += lanes) {
    V c0 = hn::Iota(d, first + static_cast<uint32_t>(done));
    V c1 = hn::Set(d, key.loop);
    V c2 = hn::Set(d, key.step);
    V c3 = hn::Set(d, key.draw);
    uint32_t k0 = static_cast<uint32_t>(key.seed);
    uint32_t k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      V high0, low0, high1, low1;
      multiply(c0, 0xD2511F53u, high0, low0);
      multiply(c2, 0xCD9E8D57u, high1, low1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
      c1 = low1;
      c3 = low0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, d, words + 4 * done);
  }
#endif
  for (; done < count; ++done) {
    const PhiloxBlock block = key.block(first + static_cast<uint32_t>(done));
    for (int i = 0; i < 4; ++i) words[4 * done + i] = block[static_cast<size_t>(i)];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(blocks);

void philox_blocks(const DrawKey& key, uint32_t first, int64_t count, uint32_t* words) {
  HWY_DYNAMIC_DISPATCH(blocks)(key, first, count, words);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
