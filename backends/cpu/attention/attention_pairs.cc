// Attention in bf16 on processors that multiply bf16: the algorithm of attention.cc, with products of bf16
// pairs summed in f32. Scores and their softmax are f32; probabilities and the gradients of scores are
// rounded to bf16 before they are multiplied. Each head is packed into the layouts that its products need.
#include "isochron/backends/cpu/attention/attention.h"

#include <algorithm>

#include "isochron/backends/cpu/attention/attention_heads.h"
#include "isochron/backends/cpu/common/bf16_tiles.h"
#include "isochron/backends/cpu/common/choose_kernel.h"
#include "isochron/backends/cpu/common/scratch.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/ir/half_storage.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "isochron/backends/cpu/attention/attention_pairs.cc"
#include <hwy/foreach_target.h>  // first: it includes this file once per target

#include <hwy/highway.h>

#include "isochron/backends/cpu/attention/attention_blocks-inl.h"
#include "isochron/backends/cpu/common/block_products-inl.h"

#ifndef ISOCHRON_OPS_CPU_ATTENTION_PAIRS_ONCE_
#define ISOCHRON_OPS_CPU_ATTENTION_PAIRS_ONCE_
namespace isochron::ops {

/// The granularity of causal masking, in keys or queries: the depth of a tile.
constexpr int64_t kPairGroup = kTileDepth;

/// The sizes of packed heads.
struct PairSizes {
  explicit PairSizes(const AttentionShape& s)
      : width(align_up(s.width, kTileDepth)),
        queries(align_up(s.queries, kBlock)),
        keys(align_up(s.keys, kBlock)) {}
  int64_t width, queries, keys;
};

/// The packed layouts of a head with `length` rows (a multiple of kBlock) of `width` numbers. Each layout
/// holds length x width numbers, zero-padded beyond the head's own rows and columns.
struct PackedHead {
  bfloat16* rows = nullptr;        // (length, width)
  bfloat16* transposed = nullptr;  // (width, length)
  bfloat16* columns = nullptr;     // for each block: (width / 2, kBlock) pairs of a row
  bfloat16* row_pairs = nullptr;   // (length / 2, width) pairs of two rows
};

struct PairForward {
  const AttentionShape* shape;
  bool tiles;
  Rows<const bfloat16> q;
  Rows<bfloat16> y;
  float* log_sums;    // (T), or null
  const bool* seen;   // (S) by the mask; null without one
  PackedHead k, v;    // rows; transposed
  PackedHead block;   // of queries: rows, columns
  float* scores;      // (kBlock keys, kBlock queries)
  bfloat16* weights;  // the same as pairs of two keys
  float* y_columns;   // (width, kBlock)
};

struct PairGradient {
  const AttentionShape* shape;
  bool tiles;
  Rows<const bfloat16> q, y, dy;
  Rows<bfloat16> dq;
  const float* log_sums;
  const bool* seen;
  PackedHead k, v;                // rows and transposed; rows
  PackedHead queries, dy_packed;  // columns, row pairs
  float* deltas;                  // (T)
  float* logs;                    // (T)
  float* dq_columns;              // (width, T)
  float* dk;                      // (S, width), added to
  float* dv;
  float* scores;  // (kBlock keys, kBlock queries)
  float* score_gradients;
  bfloat16* weights;  // the softmax, and the gradients of scores, rounded
  bfloat16* gradients;
  bfloat16* gradient_pairs;  // the latter as pairs of two keys
};

}  // namespace isochron::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace isochron::ops {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if ISOCHRON_BF16_PAIRS

using Pairs = Operand<bfloat16>;

/// `rows` rows of a head from `first` on, and zeros up to whole blocks.
void pack_rows(const Rows<const bfloat16>& from, int64_t first, int64_t rows, int64_t count, int64_t width,
               bfloat16* to) {
  for (int64_t i = 0; i < rows; ++i, to += width) {
    copy_row(from.at(first + i), count, to);
    std::fill(to + count, to + width, bfloat16());
  }
  std::fill_n(to, (align_up(rows, kBlock) - rows) * width, bfloat16());
}

/// The rows of a block that begin at multiples of kPairGroup, and the queries that see any of them.
template <typename Body>
HWY_INLINE void each_key_group(const Block& b, const Body& body) {
  for (int64_t j = 0; j < b.columns; j += kPairGroup) {
    const int64_t begin = b.begin(j, kPairGroup), end = align_up(b.rows, kPairGroup);
    if (begin < end) body(j, begin, end);
  }
}

/// out (keys x queries) = rows of keys times columns of queries, where anything of a group is seen.
HWY_INLINE void pair_products(const Block& b, bool tiles, int64_t width, const bfloat16* keys,
                              const bfloat16* columns, float* out) {
  static constexpr float kZeros[kBlock] = {};
  each_key_group(b, [&](int64_t j, int64_t begin, int64_t end) HWY_ATTR {
    const Left<bfloat16> left{keys + (b.column + j) * width, width, 2, 0, width / 2, 1, tiles};
    multiply_block<bfloat16>({kPairGroup, end - begin, left, columns + b.first * width + 2 * begin,
                              2 * kBlock, kZeros, 0, out + j * kBlock + begin, kBlock});
  });
}

/// out (width x queries) += `transposed` keys (width, key_row) times scores, pairs of two keys.
HWY_INLINE void add_pairs_to_queries(const Block& b, bool tiles, int64_t width, const bfloat16* transposed,
                                     int64_t key_row, const bfloat16* scores, float* out, int64_t out_row) {
  for (int64_t i = 0; i < b.rows; i += kPairGroup) {
    const int64_t depth = align_up(b.seen_by(i + kPairGroup - 1), kPairGroup);
    const Left<bfloat16> left{transposed + b.column, key_row, 2, 0, depth / 2, 1, tiles};
    multiply_block<bfloat16>(
        {width, kPairGroup, left, scores + 2 * i, 2 * kBlock, out + i, out_row, out + i, out_row});
  }
}

/// out (keys x width) += scores, rounded, times pairs of two rows of queries.
HWY_INLINE void add_pairs_to_keys(const Block& b, bool tiles, int64_t width, const bfloat16* scores,
                                  const bfloat16* row_pairs, float* out) {
  each_key_group(b, [&](int64_t j, int64_t begin, int64_t end) HWY_ATTR {
    const Left<bfloat16> left{scores + j * kBlock + begin, kBlock, 2, 0, (end - begin) / 2, 1, tiles};
    float* to = out + (b.column + j) * width;
    multiply_block<bfloat16>(
        {kPairGroup, width, left, row_pairs + (b.first + begin) * width, 2 * width, to, width, to, width});
  });
}

/// The scores as pairs of two keys, with zeros where a query sees less than its group.
HWY_INLINE void round_weights(const Block& b, const float* scores, bfloat16* to) {
  const hn::ScalableTag<float> d;
  for (int64_t i = 0; i < align_up(b.rows, kPairGroup); i += static_cast<int64_t>(hn::Lanes(d))) {
    const int64_t seen = i < b.lanes() ? b.seen_by(i + kGroup - 1) : 0;
    for (int64_t j = 0; j < align_up(b.columns, kPairGroup); j += 2) {
      Vector<float> rows[2];
      for (int64_t r = 0; r < 2; ++r) {
        rows[r] = j + r < seen ? hn::LoadU(d, scores + (j + r) * kBlock + i) : hn::Zero(d);
      }
      Pairs::write_together(rows, to + j * kBlock + 2 * i);
    }
  }
}

/// The columns (width, column_row) of a block of queries, times `factors` (null: 1), as rows of `to` from
/// `first` on.
HWY_INLINE void write_columns(const float* columns, int64_t column_row, const float* factors, int64_t first,
                              int64_t rows, int64_t count, const Rows<bfloat16>& to) {
  const hn::ScalableTag<float> d;
  const hn::ScalableTag<uint32_t> words;
  for (int64_t c = 0; c < count; c += 16) {
    const size_t lanes = static_cast<size_t>(std::min<int64_t>(16, count - c));
    for (int64_t i = 0; i < rows; i += 16) {
      const auto factor = factors ? hn::LoadU(d, factors + i) : hn::Set(d, 1.0F);
      Vector<uint32_t> square[16];
      for (int64_t k = 0; k < 16; ++k) {
        square[k] = hn::BitCast(words, hn::LoadU(d, columns + (c + k) * column_row + i) * factor);
      }
      transpose_vectors(square);
      for (int64_t k = 0; k < std::min<int64_t>(16, rows - i); ++k) {
        Pairs::write(hn::BitCast(d, square[k]), to.at(first + i + k) + c, lanes);
      }
    }
  }
}

/// Queries [first, first + rows) of a head, rows <= kBlock.
void attend_pairs(const PairForward& h, int64_t first, int64_t rows) {
  const AttentionShape& s = *h.shape;
  const PairSizes sizes(s);
  const hn::ScalableTag<float> d;
  HWY_ALIGN float largest[kBlock];
  HWY_ALIGN float sums[kBlock];
  HWY_ALIGN float kept[kBlock];
  std::fill_n(largest, kBlock, kNothing<float>);
  std::fill_n(sums, kBlock, 0.0F);
  std::fill_n(h.y_columns, sizes.width * kBlock, 0.0F);
  pack_rows(h.q, first, rows, s.width, sizes.width, h.block.rows);
  transpose_pairs(kBlock, sizes.width, h.block.rows, h.block.columns);
  const int64_t seen = std::min(s.visible(first + rows - 1), s.keys);
  for (int64_t column = 0; column < seen; column += kBlock) {
    const Block b{s, first, rows, column, std::min(kBlock, seen - column)};
    pair_products(b, h.tiles, sizes.width, h.k.rows, h.block.columns - first * sizes.width, h.scores);
    softmax_block<true>(b, h.seen, static_cast<float>(s.scale), h.scores, largest, sums, kept);
    for (int64_t c = 0; column > 0 && c < s.width; ++c) {
      for (int64_t i = 0; i < b.lanes(); i += static_cast<int64_t>(hn::Lanes(d))) {
        float* at = h.y_columns + c * kBlock + i;
        hn::StoreU(hn::LoadU(d, at) * hn::Load(d, kept + i), d, at);
      }
    }
    round_weights(b, h.scores, h.weights);
    add_pairs_to_queries(b, h.tiles, sizes.width, h.v.transposed, sizes.keys, h.weights, h.y_columns, kBlock);
  }
  finish_softmax(largest, sums, kept);
  write_columns(h.y_columns, kBlock, kept, first, rows, s.width, h.y);
  if (h.log_sums) std::copy_n(largest, rows, h.log_sums + first);
}

/// Recomputes the softmax from the scores and the logs of their sums, and computes the gradients of scores =
/// softmax * scale * (gradient - delta). Both are rounded to rows; the gradients are also stored as pairs of
/// two keys.
HWY_INLINE void pair_gradient_block(const PairGradient& h, const Block& b) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto scale = hn::Set(d, static_cast<float>(b.s.scale));
  each_key_group(b, [&](int64_t group, int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t j = group; j < group + kPairGroup; j += 2) {
      for (int64_t i = begin; i < end; i += lanes) {
        Vector<float> gradients[2];
        for (int64_t r = 0; r < 2; ++r) {
          const int64_t at = (j + r) * kBlock + i;
          const bool beyond = j + r >= b.columns || (h.seen && !h.seen[b.column + j + r]);
          const int64_t first_query = beyond ? kBlock : b.first_query(j + r);
          auto p = hn::Zero(d);
          gradients[r] = p;
          if (i + lanes > first_query) {
            p = exp_from_below(
                d, hn::MulSub(hn::LoadU(d, h.scores + at), scale, hn::LoadU(d, h.logs + b.first + i)));
            if (i < first_query) p = hn::IfThenElseZero(seen_lanes(d, b, j + r, i), p);
            const auto gradient = hn::LoadU(d, h.score_gradients + at);
            gradients[r] = p * scale * (gradient - hn::LoadU(d, h.deltas + b.first + i));
          }
          Pairs::write(p, h.weights + at, hn::Lanes(d));
          Pairs::write(gradients[r], h.gradients + at, hn::Lanes(d));
        }
        Pairs::write_together(gradients, h.gradient_pairs + j * kBlock + 2 * i);
      }
    }
  });
}

/// All blocks of one head of queries.
void attend_back_pairs(const PairGradient& h) {
  const AttentionShape& s = *h.shape;
  const PairSizes sizes(s);
  const auto pack_queries = [&](const Rows<const bfloat16>& from, const PackedHead& to) {
    for (int64_t first = 0; first < s.queries; first += kBlock) {
      const int64_t at = first * sizes.width;
      pack_rows(from, first, std::min(kBlock, s.queries - first), s.width, sizes.width, to.rows);
      transpose_pairs(kBlock, sizes.width, to.rows, to.columns + at);
      Pairs::put_together(kBlock, kBlock, sizes.width, to.rows, to.row_pairs + at);
    }
  };
  pack_queries(h.q, h.queries);
  pack_queries(h.dy, h.dy_packed);
  for (int64_t i = 0; i < s.queries; ++i) h.deltas[i] = dot(h.dy.at(i), h.y.at(i), s.width);
  std::copy_n(h.log_sums, s.queries, h.logs);
  std::fill(h.deltas + s.queries, h.deltas + sizes.queries, 0.0F);
  std::fill(h.logs + s.queries, h.logs + sizes.queries, 0.0F);
  std::fill_n(h.dq_columns, sizes.width * sizes.queries, 0.0F);
  for (int64_t column = 0; column < s.keys; column += kBlock) {
    for (int64_t first = 0; first < s.queries; first += kBlock) {
      const Block b{s, first, std::min(kBlock, s.queries - first), column, std::min(kBlock, s.keys - column)};
      if (s.visible(first + b.rows - 1) <= column) continue;
      pair_products(b, h.tiles, sizes.width, h.k.rows, h.queries.columns, h.scores);
      pair_products(b, h.tiles, sizes.width, h.v.rows, h.dy_packed.columns, h.score_gradients);
      pair_gradient_block(h, b);
      add_pairs_to_keys(b, h.tiles, sizes.width, h.weights, h.dy_packed.row_pairs, h.dv);
      add_pairs_to_keys(b, h.tiles, sizes.width, h.gradients, h.queries.row_pairs, h.dk);
      add_pairs_to_queries(b, h.tiles, sizes.width, h.k.transposed, sizes.keys, h.gradient_pairs,
                           h.dq_columns + first, sizes.queries);
    }
  }
  for (int64_t first = 0; first < s.queries; first += kBlock) {
    write_columns(h.dq_columns + first, sizes.queries, nullptr, first, std::min(kBlock, s.queries - first),
                  s.width, h.dq);
  }
}

void pack_keys(const Rows<const bfloat16>& from, const AttentionShape& s, const PackedHead& to) {
  const PairSizes sizes(s);
  pack_rows(from, 0, s.keys, s.width, sizes.width, to.rows);
  if (to.transposed) transpose_numbers(sizes.keys, sizes.keys, sizes.width, to.rows, to.transposed);
}

void write_keys(const float* from, const AttentionShape& s, const Rows<bfloat16>& to) {
  for (int64_t i = 0; i < s.keys; ++i) copy_row(from + i * PairSizes(s).width, s.width, to.at(i));
}

bool attends_pairs() { return multiplies_pairs(); }

#else

void attend_pairs(const PairForward&, int64_t, int64_t) {}
void attend_back_pairs(const PairGradient&) {}
void pack_keys(const Rows<const bfloat16>&, const AttentionShape&, const PackedHead&) {}
void write_keys(const float*, const AttentionShape&, const Rows<bfloat16>&) {}
bool attends_pairs() { return false; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace isochron::ops
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace isochron::ops {

HWY_EXPORT(attend_pairs);
HWY_EXPORT(attend_back_pairs);
HWY_EXPORT(pack_keys);
HWY_EXPORT(write_keys);
HWY_EXPORT(attends_pairs);

namespace {

using graph::KernelArgs;
using graph::KernelRequest;

/// Prefetches the first rows of the head that is packed next. They are so far apart that the hardware
/// prefetcher doesn't predict them.
void fetch_head(const Rows<const bfloat16>& head, int64_t rows, int64_t count) {
  for (int64_t r = 0; r < std::min(rows, kBlock); ++r) fetch_row(head.at(r), count);
}

/// Each thread has memory of its own.
class PairKernel : public AttentionKernel<bfloat16> {
 public:
  PairKernel(const AttentionShape& shape, const KernelRequest& request, int64_t numbers, int64_t floats)
      : AttentionKernel<bfloat16>(shape, request), sizes_(shape), tiles_(multiplies_tiles()) {
    const size_t bytes = checked_add(checked_mul(static_cast<size_t>(numbers), sizeof(bfloat16)),
                                     checked_mul(static_cast<size_t>(floats), sizeof(float)));
    thread_bytes_ = align_up(checked_add(bytes, kParts * size_t{64}), size_t{64});
  }
  size_t workspace_bytes() const override {
    return checked_mul(static_cast<size_t>(threads_), thread_bytes_);
  }

 protected:
  Scratch memory(const KernelArgs& args, int64_t thread) const {
    return Scratch(args.workspace + static_cast<size_t>(thread) * thread_bytes_);
  }

  /// Prefetches a head of queries, and its keys and values unless they are those of the previous head.
  void fetch(const KernelArgs& args, int64_t n, int64_t head) const {
    const int64_t share = s_.heads / s_.key_heads;
    fetch_head(this->head<const bfloat16>(args.inputs, 0, n, head), s_.queries, s_.width);
    for (int part = 1; part <= 2 && head % share == 0; ++part) {
      fetch_head(this->head<const bfloat16>(args.inputs, part, n, head / share), s_.keys, s_.width);
    }
  }

  PairSizes sizes_;
  bool tiles_;

 private:
  static constexpr size_t kParts = 20;  // of a thread's memory, at most

  size_t thread_bytes_;
};

class PairForwardKernel final : public PairKernel {
 public:
  PairForwardKernel(const AttentionShape& shape, const KernelRequest& request)
      : PairForwardKernel(shape, request, PairSizes(shape)) {}

  void run(const KernelArgs& args) override {
    const int64_t blocks = (s_.queries + kBlock - 1) / kBlock;
    const int64_t items = s_.batch * s_.heads * blocks;
    each_thread(threads_, [&](int64_t t) {
      const TileRegisters registers(tiles_);
      PairForward h = memory_of(args, t);
      int64_t prepared = -1;
      int64_t packed = -1;
      for (int64_t i = items * t / threads_; i < items * (t + 1) / threads_; ++i) {
        if (i / blocks != prepared) {
          prepared = i / blocks;
          prepare(args, prepared / s_.heads, prepared % s_.heads, packed, h);
        }
        const int64_t first = i % blocks * kBlock;
        HWY_DYNAMIC_DISPATCH(attend_pairs)(h, first, std::min(kBlock, s_.queries - first));
      }
    });
  }

 private:
  PairForwardKernel(const AttentionShape& shape, const KernelRequest& request, const PairSizes& sizes)
      : PairKernel(shape, request, (3 * sizes.keys + 2 * kBlock) * sizes.width + kBlock * kBlock,
                   kBlock * (kBlock + sizes.width)) {}

  PairForward memory_of(const KernelArgs& args, int64_t thread) const {
    Scratch scratch = memory(args, thread);
    const int64_t keys = sizes_.keys * sizes_.width, block = kBlock * sizes_.width;
    PairForward h{};
    h.shape = &s_;
    h.tiles = tiles_;
    h.k.rows = scratch.take<bfloat16>(keys);
    h.v.rows = scratch.take<bfloat16>(keys);
    h.v.transposed = scratch.take<bfloat16>(keys);
    h.block.rows = scratch.take<bfloat16>(block);
    h.block.columns = scratch.take<bfloat16>(block);
    h.scores = scratch.take<float>(kBlock * kBlock);
    h.weights = scratch.take<bfloat16>(kBlock * kBlock);
    h.y_columns = scratch.take<float>(block);
    return h;
  }

  /// `packed`: the head of keys that is currently packed.
  void prepare(const KernelArgs& args, int64_t n, int64_t head, int64_t& packed, PairForward& h) const {
    const int64_t key_head = head / (s_.heads / s_.key_heads);
    if (n * s_.key_heads + key_head != packed) {
      packed = n * s_.key_heads + key_head;
      HWY_DYNAMIC_DISPATCH(pack_keys)(this->head<const bfloat16>(args.inputs, 1, n, key_head), s_, h.k);
      HWY_DYNAMIC_DISPATCH(pack_keys)(this->head<const bfloat16>(args.inputs, 2, n, key_head), s_, h.v);
    }
    h.q = this->head<const bfloat16>(args.inputs, 0, n, head);
    h.y = this->result_head<bfloat16>(args.outputs[0], n, head);
    float* log_sums = reinterpret_cast<float*>(args.outputs[1]);
    h.log_sums = log_sums ? log_sums + (n * s_.heads + head) * s_.queries : nullptr;
    h.seen = this->seen(s_.masked ? args.inputs[this->first_after_heads()] : nullptr, n);
    if (head + 1 < s_.heads) fetch(args, n, head + 1);
  }
};

/// A thread owns whole heads of keys, so the order of every sum is fixed.
class PairGradientKernel final : public PairKernel {
 public:
  PairGradientKernel(const AttentionShape& shape, const KernelRequest& request)
      : PairGradientKernel(shape, request, PairSizes(shape)) {}

  void run(const KernelArgs& args) override {
    const int64_t items = s_.batch * s_.key_heads;
    each_thread(threads_, [&](int64_t t) {
      const TileRegisters registers(tiles_);
      PairGradient h = memory_of(args, t);
      for (int64_t i = items * t / threads_; i < items * (t + 1) / threads_; ++i) {
        key_head(args, i / s_.key_heads, i % s_.key_heads, h);
      }
    });
  }

 private:
  PairGradientKernel(const AttentionShape& shape, const KernelRequest& request, const PairSizes& sizes)
      : PairKernel(shape, request,
                   (3 * sizes.keys + 4 * sizes.queries + 2 * kBlock) * sizes.width + 3 * kBlock * kBlock,
                   (2 * sizes.keys + sizes.queries) * sizes.width + 2 * sizes.queries + 2 * kBlock * kBlock) {
  }

  PairGradient memory_of(const KernelArgs& args, int64_t thread) const {
    Scratch scratch = memory(args, thread);
    const int64_t keys = sizes_.keys * sizes_.width, queries = sizes_.queries * sizes_.width;
    const int64_t block = kBlock * sizes_.width;
    PairGradient h{};
    h.shape = &s_;
    h.tiles = tiles_;
    h.k.rows = scratch.take<bfloat16>(keys);
    h.k.transposed = scratch.take<bfloat16>(keys);
    h.v.rows = scratch.take<bfloat16>(keys);
    for (PackedHead* packed : {&h.queries, &h.dy_packed}) {
      packed->rows = scratch.take<bfloat16>(block);
      packed->columns = scratch.take<bfloat16>(queries);
      packed->row_pairs = scratch.take<bfloat16>(queries);
    }
    h.deltas = scratch.take<float>(sizes_.queries);
    h.logs = scratch.take<float>(sizes_.queries);
    h.dq_columns = scratch.take<float>(queries);
    h.dk = scratch.take<float>(keys);
    h.dv = scratch.take<float>(keys);
    h.scores = scratch.take<float>(kBlock * kBlock);
    h.score_gradients = scratch.take<float>(kBlock * kBlock);
    h.weights = scratch.take<bfloat16>(kBlock * kBlock);
    h.gradients = scratch.take<bfloat16>(kBlock * kBlock);
    h.gradient_pairs = scratch.take<bfloat16>(kBlock * kBlock);
    return h;
  }

  void key_head(const KernelArgs& args, int64_t n, int64_t key_head, PairGradient& h) const {
    const int after = this->first_after_heads();
    HWY_DYNAMIC_DISPATCH(pack_keys)(this->head<const bfloat16>(args.inputs, 1, n, key_head), s_, h.k);
    HWY_DYNAMIC_DISPATCH(pack_keys)(this->head<const bfloat16>(args.inputs, 2, n, key_head), s_, h.v);
    std::fill_n(h.dk, sizes_.keys * sizes_.width, 0.0F);
    std::fill_n(h.dv, sizes_.keys * sizes_.width, 0.0F);
    h.seen = this->seen(s_.masked ? args.inputs[after + 3] : nullptr, n);
    const int64_t share = s_.heads / s_.key_heads;
    for (int64_t head = key_head * share; head < (key_head + 1) * share; ++head) {
      h.q = this->head<const bfloat16>(args.inputs, 0, n, head);
      h.dq = this->head<bfloat16>(args.outputs, 0, n, head);
      h.y = this->result_head<const bfloat16>(args.inputs[after], n, head);
      h.log_sums =
          reinterpret_cast<const float*>(args.inputs[after + 1]) + (n * s_.heads + head) * s_.queries;
      h.dy = this->result_head<const bfloat16>(args.inputs[after + 2], n, head);
      if (head + 1 < s_.heads) {
        fetch(args, n, head + 1);
        fetch_results(args, n, head + 1);
      }
      HWY_DYNAMIC_DISPATCH(attend_back_pairs)(h);
    }
    HWY_DYNAMIC_DISPATCH(write_keys)(h.dk, s_, this->head<bfloat16>(args.outputs, 1, n, key_head));
    HWY_DYNAMIC_DISPATCH(write_keys)(h.dv, s_, this->head<bfloat16>(args.outputs, 2, n, key_head));
  }

  /// Prefetches y and dy of a head.
  void fetch_results(const KernelArgs& args, int64_t n, int64_t head) const {
    const int after = this->first_after_heads();
    for (const int input : {after, after + 2}) {
      fetch_head(this->result_head<const bfloat16>(args.inputs[input], n, head), s_.queries, s_.width);
    }
  }
};

/// Whether these kernels support the call: everything in bf16 except the logs of the sums, and blocks that
/// aren't mostly padding.
bool serves(const AttentionShape& s, const KernelRequest& request) {
  constexpr int64_t kMin = 16;
  const auto fits = [](const TensorSpec& spec) {
    return spec.dtype == (spec.shape.rank() == 3 ? DType::kF32 : DType::kBF16) || spec.dtype == DType::kBool;
  };
  return HWY_DYNAMIC_DISPATCH(attends_pairs)() && std::min({s.queries, s.keys, s.width}) >= kMin &&
         std::ranges::all_of(request.inputs, fits) && std::ranges::all_of(request.outputs, fits);
}

template <typename PairsKernel>
std::unique_ptr<graph::Kernel> choose_half(const AttentionShape& shape, const KernelRequest& request) {
  if (!serves(shape, request)) return nullptr;
  constexpr std::string_view kWays[] = {"pairs", "f32"};
  return choose_kernel(request, request.threads, kWays, [&](size_t way) -> std::unique_ptr<graph::Kernel> {
    if (way == 1) return graph::prepare_through_f32(request);
    return std::make_unique<PairsKernel>(shape, request);
  });
}

}  // namespace

std::unique_ptr<graph::Kernel> prepare_half_attention(const AttentionShape& shape,
                                                      const KernelRequest& request) {
  return choose_half<PairForwardKernel>(shape, request);
}
std::unique_ptr<graph::Kernel> prepare_half_attention_gradient(const AttentionShape& shape,
                                                               const KernelRequest& request) {
  return choose_half<PairGradientKernel>(shape, request);
}

}  // namespace isochron::ops
#endif  // HWY_ONCE
