// Attention block by block: kBlock queries against kBlock keys, a score matrix that stays in L1. The forward
// kernel rescales what it has summed whenever a larger score comes; the gradient computes the scores again
// from the logs of the sums.
#include "isochron/ops/cpu/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "isochron/core/checked.h"
#include "isochron/core/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/ops/cpu/attention.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

#include "isochron/ops/cpu/small_matmul-inl.h"

#ifndef ISOCHRON_OPS_CPU_ATTENTION_ONCE_
#define ISOCHRON_OPS_CPU_ATTENTION_ONCE_
namespace isochron::ops {

constexpr int64_t kBlock = 64;

/// One head of one sample; rows lie `row` elements apart.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t row = 0;
  T* at(int64_t i) const { return data + i * row; }
};

template <typename T>
struct HeadForward {
  const AttentionShape* shape;
  Rows<const T> q, k, v;
  Rows<T> y;
  T* log_sums;         // (T), or null
  const T* hidden;     // (S): 0, or -infinity where the mask hides a key; null without a mask
  const T* k_columns;  // (D, S): k transposed
  T* scores;           // (kBlock, kBlock)
};

template <typename T>
struct HeadGradient {
  const AttentionShape* shape;
  Rows<const T> q, k, v, y, dy;
  const T* log_sums;
  const T* hidden;
  const T* k_columns;
  const T* v_columns;
  Rows<T> dq, dk, dv;  // added to
  T* deltas;           // (T)
  T* scores;           // (kBlock, kBlock)
  T* score_gradients;  // (kBlock, kBlock)
};

}  // namespace isochron::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
constexpr T kNothing = -std::numeric_limits<T>::infinity();

/// to (D, count) = the rows of `from`, transposed; rows of `to` lie `pitch` apart.
template <typename T>
void transpose_rows(const Rows<const T>& from, int64_t count, int64_t width, int64_t pitch, T* to) {
  for (int64_t begin = 0; begin < count; begin += 16) {
    const int64_t end = std::min(begin + 16, count);
    for (int64_t c = 0; c < width; ++c) {
      for (int64_t i = begin; i < end; ++i) to[c * pitch + i] = from.at(i)[c];
    }
  }
}

/// scores (rows x columns) = q k^T of a block.
template <typename T>
HWY_INLINE void score_block(const Rows<const T>& q, int64_t row, int64_t rows, const T* k_columns,
                            int64_t keys, int64_t column, int64_t columns, int64_t width, T* scores) {
  multiply<false>(
      Product<T>{rows, columns, width, q.at(row), q.row, 1, k_columns + column, keys, scores, kBlock});
}

/// Scales a row of scores, hides what the mask hides, and gives the largest; NaN where a score is NaN or
/// infinite.
template <typename T>
HWY_INLINE T scale_scores(T* row, int64_t count, T scale, const T* hidden) {
  const hn::ScalableTag<T> d;
  auto most = hn::Set(d, kNothing<T>);
  auto probe = hn::Zero(d);  // 0 * s: NaN where s is NaN or infinite
  each_vector(d, count, [&](int64_t i, size_t lanes) HWY_ATTR {
    auto s = load_lanes(d, row + i, lanes) * hn::Set(d, scale);
    probe = hn::MulAdd(s, hn::Zero(d), probe);
    if (hidden) s = s + load_lanes(d, hidden + i, lanes);
    store_lanes(d, s, row + i, lanes);
    most = hn::Max(
        most, lanes == hn::Lanes(d) ? s : hn::IfThenElse(hn::FirstN(d, lanes), s, hn::Set(d, kNothing<T>)));
  });
  return hn::GetLane(hn::MaxOfLanes(d, most)) + hn::GetLane(hn::SumOfLanes(d, probe));
}

/// row = e^(row - shift) for the first `count`, 0 up to `filled`; gives their sum.
template <typename T>
HWY_INLINE T exponentials(T* row, int64_t count, int64_t filled, T shift) {
  const hn::ScalableTag<T> d;
  auto total = hn::Zero(d);
  each_vector(d, count, [&](int64_t i, size_t lanes) HWY_ATTR {
    auto e = hn::Exp(d, load_lanes(d, row + i, lanes) - hn::Set(d, shift));
    if (lanes != hn::Lanes(d)) e = hn::IfThenElseZero(hn::FirstN(d, lanes), e);
    store_lanes(d, e, row + i, lanes);
    total = total + e;
  });
  std::fill(row + count, row + filled, T(0));
  return hn::GetLane(hn::SumOfLanes(d, total));
}

template <typename T>
HWY_INLINE void scale_row(T* row, int64_t n, T factor) {
  const hn::ScalableTag<T> d;
  each_vector(d, n, [&](int64_t i, size_t lanes) HWY_ATTR {
    store_lanes(d, load_lanes(d, row + i, lanes) * hn::Set(d, factor), row + i, lanes);
  });
}

/// Queries [first, first + rows) of a head, rows <= kBlock.
template <typename T>
void attend(const HeadForward<T>& h, int64_t first, int64_t rows) {
  const AttentionShape& s = *h.shape;
  T largest[kBlock];
  T sums[kBlock];
  std::fill_n(largest, rows, kNothing<T>);
  std::fill_n(sums, rows, T(0));
  for (int64_t i = 0; i < rows; ++i) std::fill_n(h.y.at(first + i), s.width, T(0));
  const int64_t seen = std::min(s.visible(first + rows - 1), s.keys);
  for (int64_t column = 0; column < seen; column += kBlock) {
    const int64_t columns = std::min(kBlock, seen - column);
    score_block(h.q, first, rows, h.k_columns, s.keys, column, columns, s.width, h.scores);
    for (int64_t i = 0; i < rows; ++i) {
      T* row = h.scores + i * kBlock;
      const int64_t count = std::clamp<int64_t>(s.visible(first + i) - column, 0, columns);
      const T here =
          scale_scores(row, count, static_cast<T>(s.scale), h.hidden ? h.hidden + column : nullptr);
      const T most = largest[i] > here ? largest[i] : here;  // NaN stays
      if (most == kNothing<T>) {                             // nothing seen yet
        std::fill_n(row, columns, T(0));
        continue;
      }
      const T kept = std::exp(largest[i] - most);
      if (kept != T(1)) scale_row(h.y.at(first + i), s.width, kept);
      sums[i] = sums[i] * kept + exponentials(row, count, columns, most);
      largest[i] = most;
    }
    multiply<true>(Product<T>{rows, s.width, columns, h.scores, kBlock, 1, h.v.at(column), h.v.row,
                              h.y.at(first), h.y.row});
  }
  for (int64_t i = 0; i < rows; ++i) {
    if (sums[i] != 0) scale_row(h.y.at(first + i), s.width, T(1) / sums[i]);
    if (h.log_sums) h.log_sums[first + i] = sums[i] != 0 ? largest[i] + std::log(sums[i]) : T(0);
  }
}

/// row = e^(scale row + hidden - log_sum) for the first `count`, 0 up to `filled`: the softmax again.
template <typename T>
HWY_INLINE void probabilities(T* row, int64_t count, int64_t filled, T scale, const T* hidden, T log_sum) {
  const hn::ScalableTag<T> d;
  each_vector(d, count, [&](int64_t i, size_t lanes) HWY_ATTR {
    auto s = hn::MulSub(load_lanes(d, row + i, lanes), hn::Set(d, scale), hn::Set(d, log_sum));
    if (hidden) s = s + load_lanes(d, hidden + i, lanes);
    store_lanes(d, hn::Exp(d, s), row + i, lanes);
  });
  std::fill(row + count, row + filled, T(0));
}

/// gradient = probability (gradient - delta) scale.
template <typename T>
HWY_INLINE void score_gradients(const T* probability, T* gradient, int64_t n, T delta, T scale) {
  const hn::ScalableTag<T> d;
  each_vector(d, n, [&](int64_t i, size_t lanes) HWY_ATTR {
    const auto p = load_lanes(d, probability + i, lanes) * hn::Set(d, scale);
    store_lanes(d, p * (load_lanes(d, gradient + i, lanes) - hn::Set(d, delta)), gradient + i, lanes);
  });
}

template <typename T>
HWY_INLINE T dot(const T* a, const T* b, int64_t n) {
  const hn::ScalableTag<T> d;
  auto total = hn::Zero(d);
  each_vector(d, n, [&](int64_t i, size_t lanes) HWY_ATTR {
    total = hn::MulAdd(load_lanes(d, a + i, lanes), load_lanes(d, b + i, lanes), total);
  });
  return hn::GetLane(hn::SumOfLanes(d, total));
}

/// All blocks of one head of queries.
template <typename T>
void attend_back(const HeadGradient<T>& h) {
  const AttentionShape& s = *h.shape;
  const T scale = static_cast<T>(s.scale);
  for (int64_t i = 0; i < s.queries; ++i) h.deltas[i] = dot(h.dy.at(i), h.y.at(i), s.width);
  for (int64_t column = 0; column < s.keys; column += kBlock) {
    const int64_t columns = std::min(kBlock, s.keys - column);
    for (int64_t first = 0; first < s.queries; first += kBlock) {
      const int64_t rows = std::min(kBlock, s.queries - first);
      if (s.visible(first + rows - 1) <= column) continue;
      score_block(h.q, first, rows, h.k_columns, s.keys, column, columns, s.width, h.scores);
      score_block(h.dy, first, rows, h.v_columns, s.keys, column, columns, s.width, h.score_gradients);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t count = std::clamp<int64_t>(s.visible(first + i) - column, 0, columns);
        probabilities(h.scores + i * kBlock, count, columns, scale, h.hidden ? h.hidden + column : nullptr,
                      h.log_sums[first + i]);
        score_gradients(h.scores + i * kBlock, h.score_gradients + i * kBlock, columns, h.deltas[first + i],
                        scale);
      }
      multiply<true>(Product<T>{columns, s.width, rows, h.scores, 1, kBlock, h.dy.at(first), h.dy.row,
                                h.dv.at(column), h.dv.row});
      multiply<true>(Product<T>{rows, s.width, columns, h.score_gradients, kBlock, 1, h.k.at(column), h.k.row,
                                h.dq.at(first), h.dq.row});
      multiply<true>(Product<T>{columns, s.width, rows, h.score_gradients, 1, kBlock, h.q.at(first), h.q.row,
                                h.dk.at(column), h.dk.row});
    }
  }
}

#define ISOCHRON_ATTENTION(T, suffix)                                                                    \
  void transpose_rows_##suffix(const Rows<const T>& from, int64_t count, int64_t width, int64_t pitch,   \
                               T* to) {                                                                  \
    transpose_rows(from, count, width, pitch, to);                                                       \
  }                                                                                                      \
  void attend_##suffix(const HeadForward<T>& h, int64_t first, int64_t rows) { attend(h, first, rows); } \
  void attend_back_##suffix(const HeadGradient<T>& h) { attend_back(h); }
ISOCHRON_ATTENTION(float, f32)
ISOCHRON_ATTENTION(double, f64)
#undef ISOCHRON_ATTENTION

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(transpose_rows_f32);
HWY_EXPORT(transpose_rows_f64);
HWY_EXPORT(attend_f32);
HWY_EXPORT(attend_f64);
HWY_EXPORT(attend_back_f32);
HWY_EXPORT(attend_back_f64);

namespace {

using graph::KernelArgs;
using graph::KernelRequest;

constexpr double kThreadedProducts = 64 * 1024;

#define ISOCHRON_CALL(name, ...)                     \
  do {                                               \
    if constexpr (sizeof(T) == 4) {                  \
      HWY_DYNAMIC_DISPATCH(name##_f32)(__VA_ARGS__); \
    } else {                                         \
      HWY_DYNAMIC_DISPATCH(name##_f64)(__VA_ARGS__); \
    }                                                \
  } while (false)

/// What both kernels share: where heads lie, and memory of each thread.
template <typename T>
class AttentionKernel : public graph::Kernel {
 public:
  AttentionKernel(const AttentionShape& shape, const KernelRequest& request)
      : s_(shape), threads_(shape.products() >= kThreadedProducts ? request.threads : 1) {}

 protected:
  int64_t packed_row() const { return (s_.heads + 2 * s_.key_heads) * s_.width; }
  /// A head of queries, keys or values (`part` 0, 1, 2) of a sample; `data` are the tensors, one or three.
  template <typename P, typename B>
  Rows<P> head(B* const* data, int part, int64_t n, int64_t h) const {
    const int64_t length = part == 0 ? s_.queries : s_.keys;
    const int64_t heads = part == 0 ? s_.heads : s_.key_heads;
    if (!s_.packed) {
      P* base = reinterpret_cast<P*>(data[part]);
      return {base + (n * length * heads + h) * s_.width, heads * s_.width};
    }
    const int64_t before = part == 0 ? 0 : s_.heads + (part - 1) * s_.key_heads;
    return {reinterpret_cast<P*>(data[0]) + n * length * packed_row() + (before + h) * s_.width,
            packed_row()};
  }
  /// A head of a tensor (N, T, H, D).
  template <typename P>
  Rows<P> result_head(std::byte* data, int64_t n, int64_t h) const {
    return {reinterpret_cast<P*>(data) + (n * s_.queries * s_.heads + h) * s_.width, s_.heads * s_.width};
  }
  int first_after_heads() const { return s_.packed ? 1 : 3; }

  /// 0 or -infinity for each key of sample n; null without a mask.
  const T* hide(const std::byte* mask, int64_t n, T* to) const {
    if (!s_.masked) return nullptr;
    const bool* seen = reinterpret_cast<const bool*>(mask) + n * s_.keys;
    for (int64_t j = 0; j < s_.keys; ++j) to[j] = seen[j] ? T(0) : -std::numeric_limits<T>::infinity();
    return to;
  }

  AttentionShape s_;
  int threads_;
};

template <typename T>
class ForwardKernel final : public AttentionKernel<T> {
 public:
  using AttentionKernel<T>::AttentionKernel;
  size_t workspace_bytes() const override {
    return static_cast<size_t>(this->threads_ * thread_elems()) * sizeof(T);
  }

  void run(const KernelArgs& args) override {
    const AttentionShape& s = this->s_;
    const int64_t blocks = (s.queries + kBlock - 1) / kBlock;
    const int64_t items = s.batch * s.heads * blocks;
    parallel_for(this->threads_, this->threads_, [&](int64_t t, int64_t) {
      T* memory = reinterpret_cast<T*>(args.workspace) + t * thread_elems();
      HeadForward<T> h;
      int64_t prepared = -1;
      for (int64_t i = items * t / this->threads_; i < items * (t + 1) / this->threads_; ++i) {
        if (i / blocks != prepared) {
          prepared = i / blocks;
          h = prepare(args, prepared / s.heads, prepared % s.heads, memory);
        }
        const int64_t first = i % blocks * kBlock;
        ISOCHRON_CALL(attend, h, first, std::min(kBlock, s.queries - first));
      }
    });
  }

 private:
  int64_t thread_elems() const {
    const AttentionShape& s = this->s_;
    return align_up<int64_t>(s.width * s.keys + s.keys, 16) + kBlock * kBlock;
  }

  HeadForward<T> prepare(const KernelArgs& args, int64_t n, int64_t head, T* memory) const {
    const AttentionShape& s = this->s_;
    HeadForward<T> h;
    h.shape = &s;
    const int64_t key_head = head / (s.heads / s.key_heads);
    h.q = this->template head<const T>(args.inputs, 0, n, head);
    h.k = this->template head<const T>(args.inputs, 1, n, key_head);
    h.v = this->template head<const T>(args.inputs, 2, n, key_head);
    h.y = this->template result_head<T>(args.outputs[0], n, head);
    T* log_sums = reinterpret_cast<T*>(args.outputs[1]);
    h.log_sums = log_sums ? log_sums + (n * s.heads + head) * s.queries : nullptr;
    h.k_columns = memory;
    h.hidden =
        this->hide(s.masked ? args.inputs[this->first_after_heads()] : nullptr, n, memory + s.width * s.keys);
    h.scores = memory + align_up<int64_t>(s.width * s.keys + s.keys, 16);
    ISOCHRON_CALL(transpose_rows, h.k, s.keys, s.width, s.keys, memory);
    return h;
  }
};

/// A thread owns whole heads of keys, so that every sum has its order.
template <typename T>
class GradientKernel final : public AttentionKernel<T> {
 public:
  using AttentionKernel<T>::AttentionKernel;
  size_t workspace_bytes() const override {
    return static_cast<size_t>(this->threads_ * thread_elems()) * sizeof(T);
  }

  void run(const KernelArgs& args) override {
    const AttentionShape& s = this->s_;
    const int64_t items = s.batch * s.key_heads;
    parallel_for(this->threads_, this->threads_, [&](int64_t t, int64_t) {
      T* memory = reinterpret_cast<T*>(args.workspace) + t * thread_elems();
      for (int64_t i = items * t / this->threads_; i < items * (t + 1) / this->threads_; ++i) {
        key_head(args, i / s.key_heads, i % s.key_heads, memory);
      }
    });
  }

 private:
  int64_t matrix_elems() const { return this->s_.width * this->s_.keys; }
  int64_t thread_elems() const {
    return align_up<int64_t>(2 * matrix_elems() + this->s_.keys + this->s_.queries, 16) + 2 * kBlock * kBlock;
  }
  void clear(const Rows<T>& rows, int64_t count) const {
    for (int64_t i = 0; i < count; ++i) std::fill_n(rows.at(i), this->s_.width, T(0));
  }

  void key_head(const KernelArgs& args, int64_t n, int64_t key_head, T* memory) const {
    const AttentionShape& s = this->s_;
    const int after = this->first_after_heads();
    HeadGradient<T> h;
    h.shape = &s;
    h.k = this->template head<const T>(args.inputs, 1, n, key_head);
    h.v = this->template head<const T>(args.inputs, 2, n, key_head);
    h.dk = this->template head<T>(args.outputs, 1, n, key_head);
    h.dv = this->template head<T>(args.outputs, 2, n, key_head);
    h.k_columns = memory;
    h.v_columns = memory + matrix_elems();
    ISOCHRON_CALL(transpose_rows, h.k, s.keys, s.width, s.keys, memory);
    ISOCHRON_CALL(transpose_rows, h.v, s.keys, s.width, s.keys, memory + matrix_elems());
    T* rest = memory + 2 * matrix_elems();
    h.hidden = this->hide(s.masked ? args.inputs[after + 3] : nullptr, n, rest);
    h.deltas = rest + s.keys;
    h.scores = memory + align_up<int64_t>(2 * matrix_elems() + s.keys + s.queries, 16);
    h.score_gradients = h.scores + kBlock * kBlock;
    clear(h.dk, s.keys);
    clear(h.dv, s.keys);
    const int64_t share = s.heads / s.key_heads;
    for (int64_t head = key_head * share; head < (key_head + 1) * share; ++head) {
      h.q = this->template head<const T>(args.inputs, 0, n, head);
      h.dq = this->template head<T>(args.outputs, 0, n, head);
      h.y = this->template result_head<const T>(args.inputs[after], n, head);
      h.log_sums = reinterpret_cast<const T*>(args.inputs[after + 1]) + (n * s.heads + head) * s.queries;
      h.dy = this->template result_head<const T>(args.inputs[after + 2], n, head);
      clear(h.dq, s.queries);
      ISOCHRON_CALL(attend_back, h);
    }
  }
};
#undef ISOCHRON_CALL

template <template <typename> class K>
std::unique_ptr<graph::Kernel> by_dtype(const AttentionShape& shape, const KernelRequest& request) {
  if (request.inputs[0].dtype == DType::kF32) return std::make_unique<K<float>>(shape, request);
  return std::make_unique<K<double>>(shape, request);
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_attention(const AttentionShape& shape, const KernelRequest& request) {
  return by_dtype<ForwardKernel>(shape, request);
}
std::unique_ptr<graph::Kernel> prepare_attention_gradient(const AttentionShape& shape,
                                                          const KernelRequest& request) {
  return by_dtype<GradientKernel>(shape, request);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
