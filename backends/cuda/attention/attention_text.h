// Attention by tiles of queries and keys, whose scores are never stored in global memory (Dao et al. 2022,
// "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", arXiv:2205.14135). Comes
// after element_prelude() in the compiled source. Sums are computed in `Sum`, float or double, in a fixed
// order. A block computes one tile with kAcross x kAcross threads; thread (y, x) has rows y + kAcross i and
// columns x + kAcross j. Many threads hide memory latency if there are few tiles; few threads, with more
// elements each, read less shared memory per product.
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

/// One head of one sample: `length` rows of a tensor, `step` elements apart.
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

template <unsigned kAcross>
constexpr unsigned kEach = kAttentionTile / kAcross;  // rows, and columns, of a thread
constexpr unsigned kPitch = kAttentionTile + 1;  // row length of a tile that avoids bank conflicts in columns

/// Shared memory of a block.
template <typename Sum, unsigned kAcross>
struct Tiles {
  Sum left[kAttentionTile][kPitch], right[kAttentionTile][kPitch];  // factors
  Sum weights[kAttentionTile][kPitch], others[kAttentionTile][kPitch];
  Sum parts[kAttentionTile][kAcross];  // of rows, a column a thread
};

/// A thread's part of a tile, and of a tile whose rows are kWidth wide.
template <typename Sum, unsigned kAcross>
struct Part {
  Sum at[kEach<kAcross>][kEach<kAcross>] = {};
};
template <typename Sum, unsigned kAcross, unsigned kWidth>
struct WidePart {
  static constexpr unsigned kParts = (kWidth + kAttentionTile - 1) / kAttentionTile;
  Part<Sum, kAcross> part[kParts > 0 ? kParts : 1];
};

template <unsigned kAcross>
ISOCHRON_SCALAR unsigned thread_row(unsigned i) {
  return threadIdx.x / kAcross + kAcross * i;
}
template <unsigned kAcross>
ISOCHRON_SCALAR unsigned thread_column(unsigned j) {
  return threadIdx.x % kAcross + kAcross * j;
}

constexpr unsigned kCopied = 4;  // loads of a thread that are in flight at the same time

/// A tile's source: columns from `column` on of the rows from `row` on; 0 beyond either.
template <unsigned kWidth, typename Sum, typename T>
struct TileSource {
  const Rows<T>& x;
  unsigned row, column;

  ISOCHRON_INLINE Sum element(unsigned e) const {
    const unsigned r = row + e / kAttentionTile, c = column + e % kAttentionTile;
    return r < x.length && c < kWidth ? Sum(widen(x.row(r)[c])) : Sum(0);
  }
};

/// Copies `source` to a tile. The threads of a warp read neighboring elements.
template <unsigned kAcross, typename Sum, typename A>
ISOCHRON_SCALAR void load_tile(Sum (*tile)[kPitch], const A& source) {
  constexpr unsigned kThreads = kAcross * kAcross;
  ISOCHRON_NO_UNROLL
  for (unsigned first = threadIdx.x; first < kAttentionTile * kAttentionTile; first += kCopied * kThreads) {
    Sum values[kCopied];
    ISOCHRON_UNROLL
    for (unsigned n = 0; n < kCopied; ++n) values[n] = source.element(first + n * kThreads);
    ISOCHRON_UNROLL
    for (unsigned n = 0; n < kCopied; ++n) {
      const unsigned e = first + n * kThreads;
      tile[e / kAttentionTile][e % kAttentionTile] = values[n];
    }
  }
}
/// The same for two tiles at once.
template <unsigned kAcross, typename Sum, typename A, typename B>
ISOCHRON_SCALAR void load_tiles(Sum (*left)[kPitch], const A& a, Sum (*right)[kPitch], const B& b) {
  constexpr unsigned kThreads = kAcross * kAcross;
  ISOCHRON_NO_UNROLL
  for (unsigned first = threadIdx.x; first < kAttentionTile * kAttentionTile; first += kCopied * kThreads) {
    Sum of_a[kCopied], of_b[kCopied];
    ISOCHRON_UNROLL
    for (unsigned n = 0; n < kCopied; ++n) {
      of_a[n] = a.element(first + n * kThreads);
      of_b[n] = b.element(first + n * kThreads);
    }
    ISOCHRON_UNROLL
    for (unsigned n = 0; n < kCopied; ++n) {
      const unsigned e = first + n * kThreads, r = e / kAttentionTile, c = e % kAttentionTile;
      left[r][c] = of_a[n];
      right[r][c] = of_b[n];
    }
  }
}

/// The products of rows from `a_row` on of a with rows from `b_row` on of b.
template <unsigned kWidth, typename Sum, unsigned kAcross, typename A, typename B>
ISOCHRON_SCALAR Part<Sum, kAcross> products_of(Tiles<Sum, kAcross>& tiles, const Rows<A>& a, unsigned a_row,
                                               const Rows<B>& b, unsigned b_row) {
  Part<Sum, kAcross> sums;
  for (unsigned column = 0; column < kWidth; column += kAttentionTile) {
    __syncthreads();
    load_tiles<kAcross>(tiles.left, TileSource<kWidth, Sum, A>{a, a_row, column}, tiles.right,
                        TileSource<kWidth, Sum, B>{b, b_row, column});
    __syncthreads();
    const unsigned count = kWidth - column < kAttentionTile ? kWidth - column : kAttentionTile;
    for (unsigned c = 0; c < count; ++c) {
      Sum left[kEach<kAcross>], right[kEach<kAcross>];
      for (unsigned i = 0; i < kEach<kAcross>; ++i) left[i] = tiles.left[thread_row<kAcross>(i)][c];
      for (unsigned j = 0; j < kEach<kAcross>; ++j) right[j] = tiles.right[thread_column<kAcross>(j)][c];
      for (unsigned i = 0; i < kEach<kAcross>; ++i) {
        for (unsigned j = 0; j < kEach<kAcross>; ++j)
          sums.at[i][j] = ScalarMath<Sum>::mul_add(left[i], right[j], sums.at[i][j]);
      }
    }
  }
  return sums;
}

/// Adds to each row of `sums` the rows of x from `row` on, by its row of `weights` or, transposed, its
/// column.
template <bool kTransposed, typename Sum, unsigned kAcross, unsigned kWidth, typename T>
ISOCHRON_SCALAR void add_weighted(WidePart<Sum, kAcross, kWidth>& sums, Tiles<Sum, kAcross>& tiles,
                                  const Sum (*weights)[kPitch], const Rows<T>& x, unsigned row) {
  ISOCHRON_UNROLL
  for (unsigned p = 0; p < sums.kParts; ++p) {
    __syncthreads();
    load_tile<kAcross>(tiles.right, TileSource<kWidth, Sum, T>{x, row, p * kAttentionTile});
    __syncthreads();
    for (unsigned r = 0; r < kAttentionTile; ++r) {
      Sum left[kEach<kAcross>], right[kEach<kAcross>];
      for (unsigned i = 0; i < kEach<kAcross>; ++i)
        left[i] = kTransposed ? weights[r][thread_row<kAcross>(i)] : weights[thread_row<kAcross>(i)][r];
      for (unsigned j = 0; j < kEach<kAcross>; ++j) right[j] = tiles.right[r][thread_column<kAcross>(j)];
      for (unsigned i = 0; i < kEach<kAcross>; ++i) {
        for (unsigned j = 0; j < kEach<kAcross>; ++j)
          sums.part[p].at[i][j] = ScalarMath<Sum>::mul_add(left[i], right[j], sums.part[p].at[i][j]);
      }
    }
  }
}

/// Stores `sums`, each row times its factor, as the rows of x from `row` on.
template <typename Sum, unsigned kAcross, unsigned kWidth, typename T>
ISOCHRON_SCALAR void store_rows(const WidePart<Sum, kAcross, kWidth>& sums,
                                const Sum (&factors)[kEach<kAcross>], const Rows<T>& x, unsigned row) {
  ISOCHRON_UNROLL
  for (unsigned p = 0; p < sums.kParts; ++p) {
    for (unsigned i = 0; i < kEach<kAcross>; ++i) {
      for (unsigned j = 0; j < kEach<kAcross>; ++j) {
        const unsigned r = row + thread_row<kAcross>(i), c = p * kAttentionTile + thread_column<kAcross>(j);
        if (r < x.length && c < kWidth) put(x.row(r) + c, sums.part[p].at[i][j] * factors[i]);
      }
    }
  }
}
template <typename Sum, unsigned kAcross, unsigned kWidth, typename T>
ISOCHRON_SCALAR void store_rows(const WidePart<Sum, kAcross, kWidth>& sums, const Rows<T>& x, unsigned row) {
  Sum ones[kEach<kAcross>];
  for (unsigned i = 0; i < kEach<kAcross>; ++i) ones[i] = 1;
  store_rows(sums, ones, x, row);
}

/// Folds the values of the threads of each row; all of them get the result. The threads must synchronize
/// before the next call.
template <typename Fold, typename Sum, unsigned kAcross>
ISOCHRON_SCALAR void fold_rows(Tiles<Sum, kAcross>& tiles, Sum (&own)[kEach<kAcross>]) {
  for (unsigned i = 0; i < kEach<kAcross>; ++i)
    tiles.parts[thread_row<kAcross>(i)][thread_column<kAcross>(0)] = own[i];
  __syncthreads();
  for (unsigned i = 0; i < kEach<kAcross>; ++i) {
    own[i] = tiles.parts[thread_row<kAcross>(i)][0];
    for (unsigned t = 1; t < kAcross; ++t) own[i] = Fold::of(own[i], tiles.parts[thread_row<kAcross>(i)][t]);
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

  /// Whether query `i` sees key `j`.
  ISOCHRON_INLINE bool sees(const Attention& s, unsigned i, unsigned j) const {
    return i < s.queries && j < s.visible(i) && (!mask || mask[j]);
  }
};

/// Queries from `query` on of a head: result y and the logarithms of the sums of their exponentials,
/// (samples, heads, queries); either null where nobody reads it. For queries that see no key, both are 0.
template <unsigned kWidth, typename Sum, unsigned kAcross, typename Q, typename K, typename V, typename Y,
          typename L>
ISOCHRON_SCALAR void attend(const Attention& s, Tiles<Sum, kAcross>& tiles, const Heads<Q, K, V>& heads, Y* y,
                            L* logs, Sum scale, unsigned sample, unsigned head, unsigned query) {
  const HeadRows<kWidth, Q, K, V> rows(s, heads, sample, head);
  const Sum nothing = float_of(0xff800000u);          // -infinity
  Sum largest[kEach<kAcross>], sums[kEach<kAcross>];  // of a row; the sum of the thread's columns
  for (unsigned i = 0; i < kEach<kAcross>; ++i) {
    largest[i] = nothing;
    sums[i] = 0;
  }
  WidePart<Sum, kAcross, kWidth> result;
  const unsigned end = s.visible_to_tile(query);
  for (unsigned key = 0; key < end; key += kAttentionTile) {
    Part<Sum, kAcross> scores = products_of<kWidth>(tiles, rows.q, query, rows.k, key);
    Sum most[kEach<kAcross>];
    for (unsigned i = 0; i < kEach<kAcross>; ++i) {
      most[i] = largest[i];
      for (unsigned j = 0; j < kEach<kAcross>; ++j) {
        const bool seen = rows.sees(s, query + thread_row<kAcross>(i), key + thread_column<kAcross>(j));
        scores.at[i][j] = seen ? scores.at[i][j] * scale : nothing;
        if (seen) sums[i] += Sum(0) * scores.at[i][j];  // NaN of a score that overflows, which hides no row
        most[i] = MaximumOf::of(most[i], scores.at[i][j]);
      }
    }
    fold_rows<MaximumOf>(tiles, most);
    for (unsigned i = 0; i < kEach<kAcross>; ++i) {
      const Sum base = most[i] == nothing ? Sum(0) : most[i];
      const Sum factor = ScalarMath<Sum>::exp(largest[i] - base);  // of what was summed before
      largest[i] = most[i];
      sums[i] *= factor;
      for (unsigned j = 0; j < kEach<kAcross>; ++j) {
        const Sum weight = ScalarMath<Sum>::exp(scores.at[i][j] - base);
        tiles.weights[thread_row<kAcross>(i)][thread_column<kAcross>(j)] = weight;
        sums[i] += weight;
        ISOCHRON_UNROLL
        for (unsigned p = 0; p < result.kParts; ++p) result.part[p].at[i][j] *= factor;
      }
    }
    add_weighted<false>(result, tiles, tiles.weights, rows.v, key);
  }
  fold_rows<SumOf>(tiles, sums);
  Sum shares[kEach<kAcross>];
  for (unsigned i = 0; i < kEach<kAcross>; ++i) shares[i] = sums[i] == 0 ? Sum(0) : 1 / sums[i];
  if (y) store_rows(result, shares, rows_of<kWidth>(y, sample, s.queries, s.heads, head), query);
  if (!logs || thread_column<kAcross>(0) != 0) return;
  logs += (static_cast<unsigned long long>(sample) * s.heads + head) * s.queries;
  for (unsigned i = 0; i < kEach<kAcross>; ++i) {
    const Sum log = sums[i] == 0 ? Sum(0) : ScalarMath<Sum>::log(sums[i]) + largest[i];
    if (query + thread_row<kAcross>(i) < s.queries) put(logs + query + thread_row<kAcross>(i), log);
  }
}

/// Further tensors of the gradient: the result y, its gradient dy, and the logarithms that attend() returned.
template <typename Y, typename G, typename L>
struct Seeds {
  const Y* y;
  const G* dy;
  const L* logs;

  ISOCHRON_INLINE Seeds(const Y* result, const G* gradient, const L* log_sums)
      : y(result), dy(gradient), logs(log_sums) {}
};

/// Two numbers per query of a head; a thread has those of its rows of a tile.
template <unsigned kWidth, typename Sum, unsigned kAcross, typename Y, typename G, typename L>
struct HeadSeeds {
  Rows<const Y> y;
  Rows<const G> dy;
  const L* head_logs;
  Sum logs[kEach<kAcross>], deltas[kEach<kAcross>];  // deltas: the sum of y dy of each query

  ISOCHRON_INLINE HeadSeeds(const Attention& s, const Seeds<Y, G, L>& seeds, unsigned sample, unsigned head)
      : y(rows_of<kWidth>(seeds.y, sample, s.queries, s.heads, head)),
        dy(rows_of<kWidth>(seeds.dy, sample, s.queries, s.heads, head)),
        head_logs(seeds.logs + (static_cast<unsigned long long>(sample) * s.heads + head) * s.queries) {}

  /// Computes both for the queries from `query` on.
  ISOCHRON_INLINE void begin_tile(Tiles<Sum, kAcross>& tiles, unsigned query) {
    ISOCHRON_UNROLL
    for (unsigned i = 0; i < kEach<kAcross>; ++i) {
      const unsigned r = query + thread_row<kAcross>(i);
      logs[i] = deltas[i] = 0;
      if (r >= y.length) continue;
      logs[i] = widen(head_logs[r]);
      for (unsigned c = thread_column<kAcross>(0); c < kWidth; c += kAcross)
        deltas[i] = ScalarMath<Sum>::mul_add(Sum(widen(y.row(r)[c])), Sum(widen(dy.row(r)[c])), deltas[i]);
    }
    fold_rows<SumOf>(tiles, deltas);
  }
};

/// Of a tile of a head's queries, at which `seeds` are, and keys: the probabilities to tiles.weights, d
/// scores to tiles.others.
template <unsigned kWidth, typename Sum, unsigned kAcross, typename Q, typename K, typename V, typename Y,
          typename G, typename L>
ISOCHRON_SCALAR void score_gradients(const Attention& s, Tiles<Sum, kAcross>& tiles,
                                     const HeadRows<kWidth, Q, K, V>& rows,
                                     const HeadSeeds<kWidth, Sum, kAcross, Y, G, L>& seeds, Sum scale,
                                     unsigned query, unsigned key) {
  const Part<Sum, kAcross> scores = products_of<kWidth>(tiles, rows.q, query, rows.k, key);
  const Part<Sum, kAcross> gradients = products_of<kWidth>(tiles, seeds.dy, query, rows.v, key);
  for (unsigned i = 0; i < kEach<kAcross>; ++i) {
    for (unsigned j = 0; j < kEach<kAcross>; ++j) {
      const unsigned r = thread_row<kAcross>(i), c = thread_column<kAcross>(j);
      Sum weight = 0, gradient = 0;
      if (rows.sees(s, query + r, key + c)) {
        weight = ScalarMath<Sum>::exp(scores.at[i][j] * scale - seeds.logs[i]);
        gradient = weight * (gradients.at[i][j] - seeds.deltas[i]) * scale;
      }
      tiles.weights[r][c] = weight;
      tiles.others[r][c] = gradient;
    }
  }
}

/// dq (as q) of the queries from `query` on of a head.
template <unsigned kWidth, typename Sum, unsigned kAcross, typename Q, typename K, typename V, typename Y,
          typename G, typename L, typename D>
ISOCHRON_SCALAR void attend_query_gradient(const Attention& s, Tiles<Sum, kAcross>& tiles,
                                           const Heads<Q, K, V>& heads, const Seeds<Y, G, L>& all, D* dq,
                                           Sum scale, unsigned sample, unsigned head, unsigned query) {
  const HeadRows<kWidth, Q, K, V> rows(s, heads, sample, head);
  HeadSeeds<kWidth, Sum, kAcross, Y, G, L> seeds(s, all, sample, head);
  seeds.begin_tile(tiles, query);
  WidePart<Sum, kAcross, kWidth> result;
  const unsigned end = s.visible_to_tile(query);
  for (unsigned key = 0; key < end; key += kAttentionTile) {
    score_gradients(s, tiles, rows, seeds, scale, query, key);
    add_weighted<false>(result, tiles, tiles.others, rows.k, key);
  }
  store_rows(result, rows_of<kWidth>(dq, sample, s.queries, s.heads_each, head), query);
}

/// dk and dv (as k and v) of the keys from `key` on of a key head: sums over the query heads that see it.
template <unsigned kWidth, typename Sum, unsigned kAcross, typename Q, typename K, typename V, typename Y,
          typename G, typename L, typename DK, typename DV>
ISOCHRON_SCALAR void attend_key_gradient(const Attention& s, Tiles<Sum, kAcross>& tiles,
                                         const Heads<Q, K, V>& heads, const Seeds<Y, G, L>& all, DK* dk,
                                         DV* dv, Sum scale, unsigned sample, unsigned key_head,
                                         unsigned key) {
  WidePart<Sum, kAcross, kWidth> of_keys, of_values;
  const unsigned share = s.heads / s.key_heads;
  for (unsigned head = key_head * share; head < (key_head + 1) * share; ++head) {
    const HeadRows<kWidth, Q, K, V> rows(s, heads, sample, head);
    HeadSeeds<kWidth, Sum, kAcross, Y, G, L> seeds(s, all, sample, head);
    for (unsigned query = 0; query < s.queries; query += kAttentionTile) {
      if (s.visible_to_tile(query) <= key) continue;
      seeds.begin_tile(tiles, query);
      score_gradients(s, tiles, rows, seeds, scale, query, key);
      add_weighted<true>(of_values, tiles, tiles.weights, seeds.dy, query);
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
