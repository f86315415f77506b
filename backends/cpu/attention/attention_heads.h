// Shared by the attention kernels: the layout of heads, blocks of scores, and which queries see which keys.
#pragma once

#include <algorithm>

#include "isochron/core/base/checked.h"
#include "isochron/graph/ir/kernel.h"
#include "isochron/ops/attention/attention_shape.h"

namespace isochron::ops {

/// Queries and keys of a block of scores.
inline constexpr int64_t kBlock = 64;
/// The granularity of causal masking, in keys or queries; a multiple of the lanes of every target.
inline constexpr int64_t kGroup = 16;

/// One head of one sample; rows lie `row` elements apart.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t row = 0;
  T* at(int64_t i) const { return data + i * row; }
};

/// One block of scores: which queries see which keys.
struct Block {
  const AttentionShape& s;
  int64_t first, rows;      // queries
  int64_t column, columns;  // keys
  int64_t lanes() const { return align_up(rows, kGroup); }
  /// The first query of the block that sees key `j` of the block; lanes() if none does.
  int64_t first_query(int64_t j) const {
    if (!s.causal) return 0;
    return std::clamp<int64_t>(column + j - (s.keys - s.queries) - first, 0, lanes());
  }
  /// first_query(j) rounded down to a whole group of queries: the first query that is computed for row j.
  int64_t begin(int64_t j, int64_t group = kGroup) const { return first_query(j) / group * group; }
  /// The number of keys of the block that query i sees. All later queries see these keys, too.
  int64_t seen_by(int64_t i) const {
    return s.causal ? std::clamp<int64_t>(first + i + (s.keys - s.queries) - column + 1, 0, columns)
                    : columns;
  }
};

/// Products from which all threads are used.
inline constexpr double kThreadedAttention = 64 * 1024;

/// Where heads lie, in tensors of T.
template <typename T>
class AttentionKernel : public graph::Kernel {
 public:
  AttentionKernel(const AttentionShape& shape, const graph::KernelRequest& request)
      : s_(shape), threads_(shape.products() >= kThreadedAttention ? request.threads : 1) {}

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

  /// The mask for the keys of sample n; null if there is no mask.
  const bool* seen(const std::byte* mask, int64_t n) const {
    return s_.masked ? reinterpret_cast<const bool*>(mask) + n * s_.keys : nullptr;
  }

  AttentionShape s_;
  int threads_;
};

}  // namespace isochron::ops
