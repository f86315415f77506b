// Attention block by block: kBlock queries against kBlock keys. The forward kernel rescales its running sums
// whenever it meets a larger score (online softmax). The gradient recomputes the scores and uses the saved
// logs of the sums.
#include "isochron/backends/cpu/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "isochron/backends/cpu/attention/attention_heads.h"
#include "isochron/backends/cpu/common/rows_kernel.h"
#include "isochron/core/process/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/attention/attention.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/backends/cpu/attention/attention_blocks-inl.h"
#include "isochron/backends/cpu/matmul/small_matmul-inl.h"
#include "isochron/backends/cpu/matmul/transpose-inl.h"

#ifndef ISOCHRON_OPS_CPU_ATTENTION_ONCE_
#define ISOCHRON_OPS_CPU_ATTENTION_ONCE_
namespace isochron::ops {

constexpr int64_t kRowsTogether = 8;  // of a product where each row sees one key less or more than the next

template <typename T>
struct HeadForward {
  const AttentionShape* shape;
  Rows<const T> q, k, v;
  Rows<T> y;
  T* log_sums;       // (T), or null
  const bool* seen;  // (S) by the mask; null without one
  T* columns;        // (D, kBlock): queries of a block, transposed
  T* scores;         // (kBlock keys, kBlock queries)
};

template <typename T>
struct HeadGradient {
  const AttentionShape* shape;
  Rows<const T> q, k, v, y, dy;
  const T* log_sums;
  const bool* seen;
  int64_t pitch;  // queries, filled up to whole groups
  T* q_columns;   // (D, pitch)
  T* dy_columns;  // (D, pitch)
  T* deltas;      // (pitch)
  T* logs;        // (pitch)
  Rows<T> dq, dk, dv;
  bool adds;           // to dk and dv
  T* scores;           // (kBlock keys, kBlock queries)
  T* score_gradients;  // the same
};

}  // namespace isochron::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// to (D, count) = the rows of `from`, transposed and scaled. Rows of `to` are `pitch` apart and zero-padded
/// to whole groups.
template <typename T>
HWY_INLINE void transpose_rows(const Rows<const T>& from, int64_t first, int64_t count, int64_t width,
                               T scale, int64_t pitch, T* to) {
  constexpr int64_t side = kSquare<T>;
  const SquareRow<T> d;
  const auto factor = hn::Set(d, scale);
  const int64_t square_rows = count / side * side, square_columns = width / side * side;
  for (int64_t i = 0; i < square_rows; i += side) {
    for (int64_t c = 0; c < square_columns; c += side) {
      const auto load = [&](int64_t row)
                            HWY_ATTR { return hn::LoadU(d, from.at(first + i + row) + c) * factor; };
      transpose_square(load, to + c * pitch + i, pitch);
    }
    for (int64_t c = square_columns; c < width; ++c) {
      for (int64_t r = i; r < i + side; ++r) to[c * pitch + r] = from.at(first + r)[c] * scale;
    }
  }
  const int64_t lanes = align_up(count, kGroup);
  for (int64_t c = 0; c < width && square_rows < lanes; ++c) {
    for (int64_t r = square_rows; r < lanes; ++r) {
      to[c * pitch + r] = r < count ? from.at(first + r)[c] * scale : T(0);
    }
  }
}

/// Rows of a product with scores that are computed together: few if they see different numbers of keys.
inline int64_t rows_together(const Block& b) { return b.s.causal ? kRowsTogether : kBlock; }

/// out (keys x queries) = rows of `keys` times `columns` (D, queries), where anything of a group is seen.
template <typename T>
HWY_INLINE void products(const Block& b, const Rows<const T>& keys, const T* columns, int64_t pitch, T* out) {
  for (int64_t j = 0; j < b.columns; j += kGroup) {
    const int64_t begin = b.begin(j);
    if (begin >= b.lanes()) break;
    multiply<false>(Product<T>{std::min(kGroup, b.columns - j), b.lanes() - begin, b.s.width,
                               keys.at(b.column + j), keys.row, 1, columns + begin, pitch,
                               out + j * kBlock + begin, kBlock});
  }
}

template <typename T>
HWY_INLINE void multiply(bool adds, const Product<T>& product) {
  adds ? multiply<true>(product) : multiply<false>(product);
}

template <typename T>
void clear_rows(const Rows<T>& rows, int64_t first, int64_t count, int64_t width) {
  for (int64_t i = first; i < first + count; ++i) std::fill_n(rows.at(i), width, T(0));
}

/// into (queries x D) = scores^T (queries x keys) times rows of `keys`, or += where `adds`.
template <typename T>
HWY_INLINE void weigh_keys(const Block& b, bool adds, const T* scores, const Rows<const T>& keys,
                           const Rows<T>& into) {
  const int64_t group = rows_together(b);
  for (int64_t i = 0; i < b.rows; i += group) {
    const int64_t rows = std::min(group, b.rows - i);
    const int64_t seen = std::clamp<int64_t>(b.s.visible(b.first + i + rows - 1) - b.column, 0, b.columns);
    multiply(adds, Product<T>{rows, b.s.width, seen, scores + i, 1, kBlock, keys.at(b.column), keys.row,
                              into.at(b.first + i), into.row});
  }
}

/// into (keys x D) = scores (keys x queries) times rows of `queries`, or += where `adds`.
template <typename T>
HWY_INLINE void weigh_queries(const Block& b, bool adds, const T* scores, const Rows<const T>& queries,
                              const Rows<T>& into) {
  const int64_t group = rows_together(b);
  for (int64_t j = 0; j < b.columns; j += group) {
    const int64_t begin = std::min(b.first_query(j), b.rows);
    multiply(adds, Product<T>{std::min(group, b.columns - j), b.s.width, b.rows - begin,
                              scores + j * kBlock + begin, kBlock, 1, queries.at(b.first + begin),
                              queries.row, into.at(b.column + j), into.row});
  }
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
  HWY_ALIGN T largest[kBlock];
  HWY_ALIGN T sums[kBlock];
  HWY_ALIGN T kept[kBlock];
  std::fill_n(largest, kBlock, kNothing<T>);
  std::fill_n(sums, kBlock, T(0));
  transpose_rows(h.q, first, rows, s.width, static_cast<T>(s.scale), kBlock, h.columns);
  const int64_t seen = std::min(s.visible(first + rows - 1), s.keys);
  if (seen == 0) clear_rows(h.y, first, rows, s.width);
  for (int64_t column = 0; column < seen; column += kBlock) {
    const Block b{s, first, rows, column, std::min(kBlock, seen - column)};
    products(b, h.k, static_cast<const T*>(h.columns), kBlock, h.scores);
    softmax_block<false>(b, h.seen, T(1), h.scores, largest, sums, kept);
    for (int64_t i = 0; column > 0 && i < rows; ++i) {
      if (kept[i] != T(1)) scale_row(h.y.at(first + i), s.width, kept[i]);
    }
    weigh_keys(b, column > 0, static_cast<const T*>(h.scores), h.v, h.y);
  }
  finish_softmax(largest, sums, kept);
  for (int64_t i = 0; i < rows; ++i) scale_row(h.y.at(first + i), s.width, kept[i]);
  if (h.log_sums) std::copy_n(largest, rows, h.log_sums + first);
}

/// scores = e^(score - log sum), i.e. the softmax recomputed; score gradients = probability * scale *
/// (gradient - delta).
template <typename T>
HWY_INLINE void gradient_block(const HeadGradient<T>& h, const Block& b) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, static_cast<T>(b.s.scale));
  for (int64_t j = 0; j < b.columns; ++j) {
    T* scores = h.scores + j * kBlock;
    T* gradients = h.score_gradients + j * kBlock;
    const bool hidden = h.seen && !h.seen[b.column + j];
    const int64_t first_query = b.first_query(j);
    for (int64_t i = b.begin(j / kGroup * kGroup); i < b.lanes(); i += lanes) {
      auto p = hn::Zero(d);
      if (!hidden) p = exp_from_below(d, hn::LoadU(d, scores + i) - hn::LoadU(d, h.logs + b.first + i));
      if (i < first_query) p = hn::IfThenElseZero(seen_lanes(d, b, j, i), p);
      hn::StoreU(p, d, scores + i);
      const auto centered = hn::LoadU(d, gradients + i) - hn::LoadU(d, h.deltas + b.first + i);
      hn::StoreU(p * scale * centered, d, gradients + i);
    }
  }
}

/// All blocks of one head of queries.
template <typename T>
void attend_back(const HeadGradient<T>& h) {
  const AttentionShape& s = *h.shape;
  transpose_rows(h.q, 0, s.queries, s.width, static_cast<T>(s.scale), h.pitch, h.q_columns);
  transpose_rows(h.dy, 0, s.queries, s.width, T(1), h.pitch, h.dy_columns);
  for (int64_t i = 0; i < s.queries; ++i) h.deltas[i] = dot(h.dy.at(i), h.y.at(i), s.width);
  std::copy_n(h.log_sums, s.queries, h.logs);
  std::fill(h.deltas + s.queries, h.deltas + h.pitch, T(0));
  std::fill(h.logs + s.queries, h.logs + h.pitch, T(0));
  if (s.keys == 0) clear_rows(h.dq, 0, s.queries, s.width);
  for (int64_t column = 0; column < s.keys; column += kBlock) {
    const int64_t columns = std::min(kBlock, s.keys - column);
    bool adds = h.adds;
    for (int64_t first = 0; first < s.queries; first += kBlock) {
      const Block b{s, first, std::min(kBlock, s.queries - first), column, columns};
      if (s.visible(first + b.rows - 1) <= column) {
        if (column == 0) clear_rows(h.dq, first, b.rows, s.width);
        continue;
      }
      products(b, h.k, static_cast<const T*>(h.q_columns) + first, h.pitch, h.scores);
      products(b, h.v, static_cast<const T*>(h.dy_columns) + first, h.pitch, h.score_gradients);
      gradient_block(h, b);
      weigh_queries(b, adds, static_cast<const T*>(h.scores), h.dy, h.dv);
      weigh_queries(b, adds, static_cast<const T*>(h.score_gradients), h.q, h.dk);
      weigh_keys(b, column > 0, static_cast<const T*>(h.score_gradients), h.k, h.dq);
      adds = true;
    }
    for (const Rows<T>& gradient : {h.dk, h.dv}) {  // of keys that no query sees
      if (!adds) clear_rows(gradient, column, columns, s.width);
    }
  }
}

#define ISOCHRON_ATTENTION(T, suffix)                                                                    \
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

HWY_EXPORT(attend_f32);
HWY_EXPORT(attend_f64);
HWY_EXPORT(attend_back_f32);
HWY_EXPORT(attend_back_f64);

namespace {

using graph::KernelArgs;
using graph::KernelRequest;

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
    each_thread(this->threads_, [&](int64_t t) {
      T* scratch = reinterpret_cast<T*>(args.workspace) + t * thread_elems();
      HeadForward<T> h;
      int64_t prepared_head = -1;
      for (int64_t i = items * t / this->threads_; i < items * (t + 1) / this->threads_; ++i) {
        if (i / blocks != prepared_head) {
          prepared_head = i / blocks;
          h = prepare(args, prepared_head / s.heads, prepared_head % s.heads, scratch);
        }
        const int64_t first = i % blocks * kBlock;
        ISOCHRON_CALL(attend, h, first, std::min(kBlock, s.queries - first));
      }
    });
  }

 private:
  int64_t thread_elems() const { return kBlock * (align_up<int64_t>(this->s_.width, kGroup) + kBlock); }

  HeadForward<T> prepare(const KernelArgs& args, int64_t n, int64_t head, T* scratch) const {
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
    h.seen = this->seen(s.masked ? args.inputs[this->first_after_heads()] : nullptr, n);
    h.scores = scratch;
    h.columns = scratch + kBlock * kBlock;
    return h;
  }
};

/// A thread owns whole heads of keys, so the order of every sum is fixed.
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
    each_thread(this->threads_, [&](int64_t t) {
      T* memory = reinterpret_cast<T*>(args.workspace) + t * thread_elems();
      for (int64_t i = items * t / this->threads_; i < items * (t + 1) / this->threads_; ++i) {
        key_head(args, i / s.key_heads, i % s.key_heads, memory);
      }
    });
  }

 private:
  int64_t pitch() const { return align_up<int64_t>(this->s_.queries, kGroup); }
  int64_t thread_elems() const { return 2 * kBlock * kBlock + 2 * (this->s_.width + 1) * pitch(); }

  void key_head(const KernelArgs& args, int64_t n, int64_t key_head, T* memory) const {
    const AttentionShape& s = this->s_;
    const int after = this->first_after_heads();
    HeadGradient<T> h;
    h.shape = &s;
    h.k = this->template head<const T>(args.inputs, 1, n, key_head);
    h.v = this->template head<const T>(args.inputs, 2, n, key_head);
    h.dk = this->template head<T>(args.outputs, 1, n, key_head);
    h.dv = this->template head<T>(args.outputs, 2, n, key_head);
    h.seen = this->seen(s.masked ? args.inputs[after + 3] : nullptr, n);
    h.pitch = pitch();
    h.scores = memory;
    h.score_gradients = h.scores + kBlock * kBlock;
    h.q_columns = h.score_gradients + kBlock * kBlock;
    h.dy_columns = h.q_columns + s.width * h.pitch;
    h.deltas = h.dy_columns + s.width * h.pitch;
    h.logs = h.deltas + h.pitch;
    const int64_t share = s.heads / s.key_heads;
    for (int64_t head = key_head * share; head < (key_head + 1) * share; ++head) {
      h.q = this->template head<const T>(args.inputs, 0, n, head);
      h.dq = this->template head<T>(args.outputs, 0, n, head);
      h.y = this->template result_head<const T>(args.inputs[after], n, head);
      h.log_sums = reinterpret_cast<const T*>(args.inputs[after + 1]) + (n * s.heads + head) * s.queries;
      h.dy = this->template result_head<const T>(args.inputs[after + 2], n, head);
      h.adds = head > key_head * share;
      ISOCHRON_CALL(attend_back, h);
    }
  }
};
}  // namespace

std::unique_ptr<graph::Kernel> prepare_attention(const AttentionShape& shape, const KernelRequest& request) {
  return by_dtype<ForwardKernel>(request.inputs[0].dtype, shape, request);
}
std::unique_ptr<graph::Kernel> prepare_attention_gradient(const AttentionShape& shape,
                                                          const KernelRequest& request) {
  return by_dtype<GradientKernel>(request.inputs[0].dtype, shape, request);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
