// The softmax of attention, a block of scores at a time. Scores lie transposed, a row for each key and a lane
// for each query, so that no sum or maximum runs across lanes. Included once per Highway target, hence no
// ordinary include guard.

#if defined(ISOCHRON_OPS_CPU_ATTENTION_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ISOCHRON_OPS_CPU_ATTENTION_BLOCKS_INL_H_
#undef ISOCHRON_OPS_CPU_ATTENTION_BLOCKS_INL_H_
#else
#define ISOCHRON_OPS_CPU_ATTENTION_BLOCKS_INL_H_
#endif

#include <limits>

#include "isochron/backends/cpu/attention/attention_heads.h"
#include "isochron/backends/cpu/common/half-inl.h"
#include "isochron/backends/cpu/common/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
constexpr T kNothing = -std::numeric_limits<T>::infinity();

/// Lanes i .. of row j that see its key.
template <class D>
HWY_INLINE auto seen_lanes(D d, const Block& b, int64_t j, int64_t i) {
  using T = hn::TFromD<D>;
  return hn::Ge(hn::Iota(d, static_cast<T>(i)), hn::Set(d, static_cast<T>(b.first_query(j))));
}

/// Replaces the scores (kBlock keys, kBlock queries), times `scale` if kScaled, by e^(score - largest), and
/// updates `largest` and `sums` of each query. Sets `kept` to the factor by which the caller must rescale
/// what y already holds. `mask`: which keys are seen; null: all.
template <bool kScaled, typename T>
HWY_INLINE void softmax_block(const Block& b, const bool* mask, T scale, T* scores, T* largest, T* sums,
                              T* kept) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto nothing = hn::Set(d, kNothing<T>);
  const auto load = [&](const T* from) HWY_ATTR {
    const auto score = hn::LoadU(d, from);
    return kScaled ? score * hn::Set(d, scale) : score;
  };
  for (int64_t i = 0; i < b.lanes(); i += lanes) {
    // Keys before `all` are seen by every query of the vector, those from `some` on by none of its group.
    const int64_t all = b.seen_by(i), some = b.seen_by(i / kGroup * kGroup + kGroup - 1);
    const auto before = hn::Load(d, largest + i);
    auto most = before;
    auto probe = hn::Zero(d);  // 0 * score: NaN where one is NaN or infinite
    for (int64_t j = 0; j < some; ++j) {
      if (mask && !mask[b.column + j]) continue;
      auto score = load(scores + j * kBlock + i);
      if (j < all) {
        probe = hn::MulAdd(score, hn::Zero(d), probe);
      } else {
        const auto seen = seen_lanes(d, b, j, i);
        probe = hn::MulAdd(hn::IfThenElseZero(seen, score), hn::Zero(d), probe);
        score = hn::IfThenElse(seen, score, nothing);
      }
      most = hn::Max(most, score);
    }
    const auto shift = hn::IfThenElse(hn::Eq(most, nothing), hn::Zero(d), most + probe);
    auto total = hn::Zero(d);
    for (int64_t j = 0; j < some; ++j) {
      T* at = scores + j * kBlock + i;
      auto e = hn::Zero(d);
      if (!mask || mask[b.column + j]) {
        e = exp_from_below(d, load(at) - shift);
        if (j >= all) e = hn::IfThenElseZero(seen_lanes(d, b, j, i), e);
        total = total + e;
      }
      hn::StoreU(e, d, at);
    }
    const auto first = hn::Eq(before, nothing);  // not Ne, which NaN fails, too
    const auto keep = hn::IfThenZeroElse(first, exp_from_below(d, before - shift));
    hn::Store(keep + probe, d, kept + i);
    hn::Store(hn::MulAdd(hn::Load(d, sums + i), keep, total) + probe, d, sums + i);
    hn::Store(most + probe, d, largest + i);
  }
}

template <typename E, typename T = ComputeType<E>>
HWY_INLINE T dot(const E* a, const E* b, int64_t n) {
  const hn::ScalableTag<T> d;
  auto total = hn::Zero(d);
  each_vector(d, n, [&](int64_t i, size_t lanes) HWY_ATTR {
    total = hn::MulAdd(load_numbers(d, a + i, lanes), load_numbers(d, b + i, lanes), total);
  });
  return hn::GetLane(hn::SumOfLanes(d, total));
}

/// Ends the softmax of a block of queries: largest = the log of the sum of e^score, kept = 1 / sum; 0 for a
/// query that sees no key.
template <typename T>
HWY_INLINE void finish_softmax(T* largest, const T* sums, T* kept) {
  const hn::ScalableTag<T> d;
  for (int64_t i = 0; i < kBlock; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto sum = hn::Load(d, sums + i);
    const auto none = hn::Eq(sum, hn::Zero(d));  // sees no key; not Ne, which NaN fails, too
    const auto log_sum = hn::IfThenElse(hn::IsNaN(sum), sum, hn::Log(d, sum)) + hn::Load(d, largest + i);
    hn::Store(hn::IfThenZeroElse(none, log_sum), d, largest + i);
    hn::Store(hn::IfThenZeroElse(none, hn::Set(d, T(1)) / sum), d, kept + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#endif  // toggled guard
