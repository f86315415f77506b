// Attention by tiles of queries and keys, whose scores are never in memory (Dao et al. 2022, "FlashAttention:
// Fast and Memory-Efficient Exact Attention with IO-Awareness", arXiv:2205.14135); behind element_prelude()
// in their text. Sums run in `Sum`, float or double, in one order. A block has a tile: its threads are 8 x 8,
// of which thread (y, x) has rows y + 8 i and columns x + 8 j.
#ifndef ISOCHRON_OPS_CUDA_ATTENTION_TEXT_H_
#define ISOCHRON_OPS_CUDA_ATTENTION_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

struct Attention {
  unsigned queries, keys, heads, key_heads;
  unsigned heads_each, key_heads_each;  // that a position of the tensors of queries, and of keys, has
  unsigned first_key, first_value;      // heads in theirs
  bool causal;

  /// How many keys query `i` sees, before the mask.
  ISOCHRON_INLINE unsigned visible(unsigned i) const {
    if (!causal) return keys;
    return i + 1 + keys > queries ? i + 1 + keys - queries : 0;
  }
  /// The most keys that a query of the tile from `query` on sees.
  ISOCHRON_INLINE unsigned visible_to_tile(unsigned query) const {
    const unsigned end = query + kAttentionTile;
    return visible((end < queries ? end : queries) - 1);
  }
  /// The head of keys that query head `head` sees.
  ISOCHRON_INLINE unsigned key_head(unsigned head) const { return head / (heads / key_heads); }
};

/// One head of one sample: `length` rows of a tensor, each `step` elements after the one before.
template <typename T>
struct Rows {
  T* first;
  unsigned length;
  unsigned long long step;

  ISOCHRON_INLINE T* row(unsigned i) const { return first + i * step; }
};

/// Head `head` of sample `sample` of x (samples, length, heads, kWidth).
template <unsigned kWidth, typename T>
ISOCHRON_SCALAR Rows<T> rows_of(T* x, unsigned sample, unsigned length, unsigned heads, unsigned head) {
  using Wide = unsigned long long;
  const Wide step = Wide(heads) * kWidth;
  return {x + Wide(sample) * length * step + Wide(head) * kWidth, length, step};
}

#ifdef __CUDACC_RTC__
#define ISOCHRON_UNROLL _Pragma("unroll")  // so that what it indexes stays in registers
#else
#define ISOCHRON_UNROLL
#endif

constexpr unsigned kAcross = 8;                       // threads
constexpr unsigned kEach = kAttentionTile / kAcross;  // rows, and columns, of a thread
constexpr unsigned kPitch = kAttentionTile + 1;       // of tiles: a column lies in as many banks as a row

/// What the threads of a block share.
template <typename Sum>
struct Tiles {
  Sum left[kAttentionTile][kPitch], right[kAttentionTile][kPitch];  // factors
  Sum weights[kAttentionTile][kPitch], others[kAttentionTile][kPitch];
  Sum parts[kAttentionTile][kAcross];  // of rows, a column a thread
};

/// What a thread has of a tile, and of a tile of rows that are kWidth wide.
template <typename Sum>
struct Part {
  Sum at[kEach][kEach] = {};
};
template <typename Sum, unsigned kWidth>
struct WidePart {
  static constexpr unsigned kParts = (kWidth + kAttentionTile - 1) / kAttentionTile;
  Part<Sum> part[kParts > 0 ? kParts : 1];
};

ISOCHRON_SCALAR unsigned thread_row(unsigned i) { return threadIdx.x / kAcross + kAcross * i; }
ISOCHRON_SCALAR unsigned thread_column(unsigned j) { return threadIdx.x % kAcross + kAcross * j; }

/// Columns from `column` on of the rows from `row` on; 0 beyond either.
template <unsigned kWidth, typename Sum, typename T>
ISOCHRON_SCALAR void load_tile(Sum (*tile)[kPitch], const Rows<T>& x, unsigned row, unsigned column) {
  for (unsigned e = threadIdx.x; e < kAttentionTile * kAttentionTile; e += kAttentionThreads) {
    const unsigned r = e / kAttentionTile, c = e % kAttentionTile;
    Sum value = 0;
    if (row + r < x.length && column + c < kWidth) value = widen(x.row(row + r)[column + c]);
    tile[r][c] = value;
  }
}

/// The products of rows from `a_row` on of a with rows from `b_row` on of b.
template <unsigned kWidth, typename Sum, typename A, typename B>
ISOCHRON_SCALAR Part<Sum> products_of(Tiles<Sum>& tiles, const Rows<A>& a, unsigned a_row, const Rows<B>& b,
                                      unsigned b_row) {
  Part<Sum> sums;
  for (unsigned column = 0; column < kWidth; column += kAttentionTile) {
    __syncthreads();
    load_tile<kWidth>(tiles.left, a, a_row, column);
    load_tile<kWidth>(tiles.right, b, b_row, column);
    __syncthreads();
    const unsigned count = kWidth - column < kAttentionTile ? kWidth - column : kAttentionTile;
    for (unsigned c = 0; c < count; ++c) {
      Sum left[kEach], right[kEach];
      for (unsigned i = 0; i < kEach; ++i) left[i] = tiles.left[thread_row(i)][c];
      for (unsigned j = 0; j < kEach; ++j) right[j] = tiles.right[thread_column(j)][c];
      for (unsigned i = 0; i < kEach; ++i) {
        for (unsigned j = 0; j < kEach; ++j)
          sums.at[i][j] = ScalarMath<Sum>::mul_add(left[i], right[j], sums.at[i][j]);
      }
    }
  }
  return sums;
}

/// Adds to each row of `sums` the rows of x from `row` on, by its row of `weights` or, transposed, its
/// column.
template <bool kTransposed, typename Sum, unsigned kWidth, typename T>
ISOCHRON_SCALAR void add_weighted(WidePart<Sum, kWidth>& sums, Tiles<Sum>& tiles,
                                  const Sum (*weights)[kPitch], const Rows<T>& x, unsigned row) {
  ISOCHRON_UNROLL
  for (unsigned p = 0; p < sums.kParts; ++p) {
    __syncthreads();
    load_tile<kWidth>(tiles.right, x, row, p * kAttentionTile);
    __syncthreads();
    for (unsigned r = 0; r < kAttentionTile; ++r) {
      Sum left[kEach], right[kEach];
      for (unsigned i = 0; i < kEach; ++i)
        left[i] = kTransposed ? weights[r][thread_row(i)] : weights[thread_row(i)][r];
      for (unsigned j = 0; j < kEach; ++j) right[j] = tiles.right[r][thread_column(j)];
      for (unsigned i = 0; i < kEach; ++i) {
        for (unsigned j = 0; j < kEach; ++j)
          sums.part[p].at[i][j] = ScalarMath<Sum>::mul_add(left[i], right[j], sums.part[p].at[i][j]);
      }
    }
  }
}

/// Stores `sums`, each row times its factor, as the rows of x from `row` on.
template <typename Sum, unsigned kWidth, typename T>
ISOCHRON_SCALAR void store_rows(const WidePart<Sum, kWidth>& sums, const Sum (&factors)[kEach],
                                const Rows<T>& x, unsigned row) {
  ISOCHRON_UNROLL
  for (unsigned p = 0; p < sums.kParts; ++p) {
    for (unsigned i = 0; i < kEach; ++i) {
      for (unsigned j = 0; j < kEach; ++j) {
        const unsigned r = row + thread_row(i), c = p * kAttentionTile + thread_column(j);
        if (r < x.length && c < kWidth) put(x.row(r) + c, sums.part[p].at[i][j] * factors[i]);
      }
    }
  }
}
template <typename Sum, unsigned kWidth, typename T>
ISOCHRON_SCALAR void store_rows(const WidePart<Sum, kWidth>& sums, const Rows<T>& x, unsigned row) {
  Sum ones[kEach];
  for (unsigned i = 0; i < kEach; ++i) ones[i] = 1;
  store_rows(sums, ones, x, row);
}

/// What the threads of each row have, folded: all get it.
template <typename Fold, typename Sum>
ISOCHRON_SCALAR void fold_rows(Tiles<Sum>& tiles, Sum (&own)[kEach]) {
  __syncthreads();
  for (unsigned i = 0; i < kEach; ++i) tiles.parts[thread_row(i)][thread_column(0)] = own[i];
  __syncthreads();
  for (unsigned i = 0; i < kEach; ++i) {
    own[i] = tiles.parts[thread_row(i)][0];
    for (unsigned t = 1; t < kAcross; ++t) own[i] = Fold::of(own[i], tiles.parts[thread_row(i)][t]);
  }
}

/// The tensors of a call, (samples, length, heads, width); `mask` (samples, keys) may be null.
template <typename Q, typename K, typename V>
struct Heads {
  const Q* q;
  const K* k;
  const V* v;
  const bool* mask;

  ISOCHRON_INLINE Heads(const Q* queries, const K* keys, const V* values, const bool* key_mask)
      : q(queries), k(keys), v(values), mask(key_mask) {}
};

/// The rows of query head `head` of a sample and of the key head that it sees.
template <unsigned kWidth, typename Q, typename K, typename V>
struct HeadRows {
  Rows<const Q> q;
  Rows<const K> k;
  Rows<const V> v;
  const bool* mask;

  ISOCHRON_INLINE HeadRows(const Attention& s, const Heads<Q, K, V>& heads, unsigned sample, unsigned head)
      : q(rows_of<kWidth>(heads.q, sample, s.queries, s.heads_each, head)),
        k(rows_of<kWidth>(heads.k, sample, s.keys, s.key_heads_each, s.first_key + s.key_head(head))),
        v(rows_of<kWidth>(heads.v, sample, s.keys, s.key_heads_each, s.first_value + s.key_head(head))),
        mask(heads.mask ? heads.mask + static_cast<unsigned long long>(sample) * s.keys : nullptr) {}

  /// Does query `i` see key `j`?
  ISOCHRON_INLINE bool sees(const Attention& s, unsigned i, unsigned j) const {
    return i < s.queries && j < s.visible(i) && (!mask || mask[j]);
  }
};

/// Queries from `query` on of a head: result y and the logarithms of the sums of their exponentials,
/// (samples, heads, queries); either null where nobody reads it. Queries that see no key get 0 and 0.
template <unsigned kWidth, typename Sum, typename Q, typename K, typename V, typename Y, typename L>
ISOCHRON_SCALAR void attend(const Attention& s, Tiles<Sum>& tiles, const Heads<Q, K, V>& heads, Y* y, L* logs,
                            Sum scale, unsigned sample, unsigned head, unsigned query) {
  const HeadRows<kWidth, Q, K, V> rows(s, heads, sample, head);
  const Sum nothing = float_of(0xff800000u);  // -infinity
  Sum largest[kEach], sums[kEach];            // of a row; the sum of the thread's columns
  for (unsigned i = 0; i < kEach; ++i) {
    largest[i] = nothing;
    sums[i] = 0;
  }
  WidePart<Sum, kWidth> result;
  const unsigned end = s.visible_to_tile(query);
  for (unsigned key = 0; key < end; key += kAttentionTile) {
    Part<Sum> scores = products_of<kWidth>(tiles, rows.q, query, rows.k, key);
    Sum most[kEach];
    for (unsigned i = 0; i < kEach; ++i) {
      most[i] = largest[i];
      for (unsigned j = 0; j < kEach; ++j) {
        const bool seen = rows.sees(s, query + thread_row(i), key + thread_column(j));
        scores.at[i][j] = seen ? scores.at[i][j] * scale : nothing;
        most[i] = MaximumOf::of(most[i], scores.at[i][j]);
      }
    }
    fold_rows<MaximumOf>(tiles, most);
    for (unsigned i = 0; i < kEach; ++i) {
      const Sum base = most[i] == nothing ? Sum(0) : most[i];
      const Sum factor = ScalarMath<Sum>::exp(largest[i] - base);  // of what was summed before
      largest[i] = most[i];
      sums[i] *= factor;
      for (unsigned j = 0; j < kEach; ++j) {
        const Sum weight = ScalarMath<Sum>::exp(scores.at[i][j] - base);
        tiles.weights[thread_row(i)][thread_column(j)] = weight;
        sums[i] += weight;
        ISOCHRON_UNROLL
        for (unsigned p = 0; p < result.kParts; ++p) result.part[p].at[i][j] *= factor;
      }
    }
    add_weighted<false>(result, tiles, tiles.weights, rows.v, key);
  }
  fold_rows<SumOf>(tiles, sums);
  Sum shares[kEach];
  for (unsigned i = 0; i < kEach; ++i) shares[i] = sums[i] == 0 ? Sum(0) : 1 / sums[i];
  if (y) store_rows(result, shares, rows_of<kWidth>(y, sample, s.queries, s.heads, head), query);
  if (!logs || thread_column(0) != 0) return;
  logs += (static_cast<unsigned long long>(sample) * s.heads + head) * s.queries;
  for (unsigned i = 0; i < kEach; ++i) {
    const Sum log = sums[i] == 0 ? Sum(0) : ScalarMath<Sum>::log(sums[i]) + largest[i];
    if (query + thread_row(i) < s.queries) put(logs + query + thread_row(i), log);
  }
}

/// What the gradient has beside the heads: dy, the logarithms that attend() gave, and the sum of y dy of each
/// query, (samples, queries, heads).
template <typename Sum, typename G, typename L>
struct Seeds {
  const G* dy;
  const L* logs;
  const Sum* deltas;

  ISOCHRON_INLINE Seeds(const G* gradient, const L* log_sums, const Sum* products)
      : dy(gradient), logs(log_sums), deltas(products) {}
};

/// Of a tile of a head's queries and keys: the probabilities to tiles.weights, d scores to tiles.others.
template <unsigned kWidth, typename Sum, typename Q, typename K, typename V, typename G, typename L>
ISOCHRON_SCALAR void score_gradients(const Attention& s, Tiles<Sum>& tiles,
                                     const HeadRows<kWidth, Q, K, V>& rows, const Seeds<Sum, G, L>& seeds,
                                     const Rows<const G>& dy, Sum scale, unsigned sample, unsigned head,
                                     unsigned query, unsigned key) {
  using Wide = unsigned long long;
  const Part<Sum> scores = products_of<kWidth>(tiles, rows.q, query, rows.k, key);
  const Part<Sum> gradients = products_of<kWidth>(tiles, dy, query, rows.v, key);
  for (unsigned i = 0; i < kEach; ++i) {
    const unsigned r = query + thread_row(i);
    for (unsigned j = 0; j < kEach; ++j) {
      Sum weight = 0, gradient = 0;
      if (rows.sees(s, r, key + thread_column(j))) {
        const Sum log = widen(seeds.logs[(Wide(sample) * s.heads + head) * s.queries + r]);
        const Sum delta = seeds.deltas[(Wide(sample) * s.queries + r) * s.heads + head];
        weight = ScalarMath<Sum>::exp(scores.at[i][j] * scale - log);
        gradient = weight * (gradients.at[i][j] - delta) * scale;
      }
      tiles.weights[thread_row(i)][thread_column(j)] = weight;
      tiles.others[thread_row(i)][thread_column(j)] = gradient;
    }
  }
}

/// dq (as q) of the queries from `query` on of a head.
template <unsigned kWidth, typename Sum, typename Q, typename K, typename V, typename G, typename L,
          typename D>
ISOCHRON_SCALAR void attend_query_gradient(const Attention& s, Tiles<Sum>& tiles, const Heads<Q, K, V>& heads,
                                           const Seeds<Sum, G, L>& seeds, D* dq, Sum scale, unsigned sample,
                                           unsigned head, unsigned query) {
  const HeadRows<kWidth, Q, K, V> rows(s, heads, sample, head);
  const Rows<const G> dy = rows_of<kWidth>(seeds.dy, sample, s.queries, s.heads, head);
  WidePart<Sum, kWidth> result;
  const unsigned end = s.visible_to_tile(query);
  for (unsigned key = 0; key < end; key += kAttentionTile) {
    score_gradients(s, tiles, rows, seeds, dy, scale, sample, head, query, key);
    add_weighted<false>(result, tiles, tiles.others, rows.k, key);
  }
  store_rows(result, rows_of<kWidth>(dq, sample, s.queries, s.heads_each, head), query);
}

/// dk and dv (as k and v) of the keys from `key` on of a key head: sums over the query heads that see it.
template <unsigned kWidth, typename Sum, typename Q, typename K, typename V, typename G, typename L,
          typename DK, typename DV>
ISOCHRON_SCALAR void attend_key_gradient(const Attention& s, Tiles<Sum>& tiles, const Heads<Q, K, V>& heads,
                                         const Seeds<Sum, G, L>& seeds, DK* dk, DV* dv, Sum scale,
                                         unsigned sample, unsigned key_head, unsigned key) {
  WidePart<Sum, kWidth> of_keys, of_values;
  const unsigned share = s.heads / s.key_heads;
  for (unsigned head = key_head * share; head < (key_head + 1) * share; ++head) {
    const HeadRows<kWidth, Q, K, V> rows(s, heads, sample, head);
    const Rows<const G> dy = rows_of<kWidth>(seeds.dy, sample, s.queries, s.heads, head);
    for (unsigned query = 0; query < s.queries; query += kAttentionTile) {
      if (s.visible_to_tile(query) <= key) continue;
      score_gradients(s, tiles, rows, seeds, dy, scale, sample, head, query, key);
      add_weighted<true>(of_values, tiles, tiles.weights, dy, query);
      add_weighted<true>(of_keys, tiles, tiles.others, rows.q, query);
    }
  }
  store_rows(of_keys, rows_of<kWidth>(dk, sample, s.keys, s.key_heads_each, s.first_key + key_head), key);
  store_rows(of_values, rows_of<kWidth>(dv, sample, s.keys, s.key_heads_each, s.first_value + key_head), key);
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
