// Sorting of lines. Comes after element_prelude() in the compiled source. An element becomes an unsigned key
// of the same order, stored with its position. Equal keys differ by position, so the only possible order is
// the stable one. Blocks sort tiles of a line in shared memory. Then runs of tiles are merged in pairs, where
// each block produces one tile of the result (Green et al. 2012, "GPU merge path").
#ifndef ISOCHRON_OPS_CUDA_SORT_TEXT_H_
#define ISOCHRON_OPS_CUDA_SORT_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// An entry: a key of 32 bits, with its position in the lower bits.
struct NarrowEntry {
  using Key = unsigned;
  unsigned long long bits;

  ISOCHRON_SCALAR NarrowEntry of(Key key, unsigned position) {
    return {static_cast<unsigned long long>(key) << 32 | position};
  }
  /// An entry that sorts after all others.
  ISOCHRON_SCALAR NarrowEntry last() { return {~0ull}; }
  ISOCHRON_INLINE Key key() const { return static_cast<Key>(bits >> 32); }
  ISOCHRON_INLINE unsigned position() const { return static_cast<unsigned>(bits); }
  ISOCHRON_INLINE bool before(NarrowEntry other) const { return bits < other.bits; }
};

struct WideEntry {
  using Key = unsigned long long;
  unsigned long long high;
  unsigned low;

  ISOCHRON_SCALAR WideEntry of(Key key, unsigned position) { return {key, position}; }
  ISOCHRON_SCALAR WideEntry last() { return {~0ull, ~0u}; }
  ISOCHRON_INLINE Key key() const { return high; }
  ISOCHRON_INLINE unsigned position() const { return low; }
  ISOCHRON_INLINE bool before(WideEntry other) const {
    return high != other.high ? high < other.high : low < other.low;
  }
};

// Keys in the order of the numbers. Both zeros are equal, and NaN comes last.
ISOCHRON_SCALAR unsigned order_key(float x) {
  if (x != x) return ~0u;
  const unsigned bits = bits_of(x == 0 ? 0.0f : x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
ISOCHRON_SCALAR unsigned long long order_key(double x) {
  if (x != x) return ~0ull;
#ifdef __CUDACC_RTC__
  const unsigned long long bits = static_cast<unsigned long long>(__double_as_longlong(x == 0 ? 0.0 : x));
#else
  unsigned long long bits;
  const double zero_is_positive = x == 0 ? 0.0 : x;
  __builtin_memcpy(&bits, &zero_is_positive, 8);
#endif
  return bits >> 63 ? ~bits : bits | 0x8000000000000000ull;
}
ISOCHRON_SCALAR unsigned order_key(int x) { return static_cast<unsigned>(x) ^ 0x80000000u; }
ISOCHRON_SCALAR unsigned long long order_key(long long x) {
  return static_cast<unsigned long long>(x) ^ 0x8000000000000000ull;
}
ISOCHRON_SCALAR unsigned order_key(unsigned char x) { return x; }
ISOCHRON_SCALAR unsigned order_key(bool x) { return x; }

/// `lines` of `count` entries, of which the first `kept` in order are wanted.
struct SortedLines {
  unsigned long long lines;
  unsigned count, kept;
};

ISOCHRON_SCALAR unsigned long long fewer(unsigned long long a, unsigned long long b) { return a < b ? a : b; }

/// Sorts each kSize of the block's kElems entries, both powers of 2 (Batcher 1968). It begins and ends with a
/// barrier.
template <unsigned kSize, unsigned kElems, typename Entry>
ISOCHRON_SCALAR void sort_shared(Entry* entries) {
  for (unsigned size = 2; size <= kSize; size *= 2) {
    for (unsigned stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (unsigned pair = threadIdx.x; pair < kElems / 2; pair += kSortThreads) {
        const unsigned low = 2 * pair - (pair & (stride - 1));
        // The halves to be merged both ascend: the first step compares them from opposite ends.
        const unsigned high = stride == size / 2 ? low ^ (size - 1) : low + stride;
        const Entry a = entries[low], b = entries[high];
        if (!b.before(a)) continue;
        entries[low] = b;
        entries[high] = a;
      }
    }
  }
  __syncthreads();
}

/// Sorts tiles of kSize entries, or whole lines that have no more. A block has kElems entries, as many tiles
/// as fit. `load(line, place)` gives an entry, `store(line, place, entry)` takes those that are kept.
template <unsigned kSize, unsigned kElems, typename Entry, typename Load, typename Store>
ISOCHRON_SCALAR void sort_tiles(const SortedLines& s, const Load& load, const Store& store) {
  using Wide = unsigned long long;
  __shared__ Entry entries[kElems];
  const Wide tiles = (s.count + Wide(kSize - 1)) / kSize;  // of a line
  for (unsigned e = threadIdx.x; e < kElems; e += kSortThreads) {
    const Wide tile = blockIdx.x * Wide(kElems / kSize) + e / kSize;
    const Wide line = tile / tiles, place = tile % tiles * kSize + e % kSize;
    const Entry entry = line < s.lines && place < s.count ? load(line, place) : Entry::last();
    entries[e] = entry;
  }
  sort_shared<kSize, kElems>(entries);
  for (unsigned e = threadIdx.x; e < kElems; e += kSortThreads) {
    const Wide tile = blockIdx.x * Wide(kElems / kSize) + e / kSize;
    const Wide line = tile / tiles, place = tile % tiles * kSize + e % kSize;
    if (line < s.lines && place < s.count && e % kSize < s.kept) store(line, place, entries[e]);
  }
}

/// How many of the first `rank` entries of the merged result come from `a`.
template <typename Entry>
ISOCHRON_SCALAR unsigned merge_split(const Entry* a, unsigned of_a, const Entry* b, unsigned of_b,
                                     unsigned rank) {
  unsigned low = rank > of_b ? rank - of_b : 0, high = rank < of_a ? rank : of_a;
  while (low < high) {
    const unsigned middle = low + (high - low) / 2;
    if (b[rank - 1 - middle].before(a[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Merges runs of `run` places each of a line, of which those that are kept lie at their beginning, two by
/// two. A block makes kSortTile entries of a pair: `store(line, place, entry)` takes them.
template <typename Entry, typename Store>
ISOCHRON_SCALAR void merge_runs(const SortedLines& s, unsigned long long run, const Entry* from,
                                const Store& store) {
  using Wide = unsigned long long;
  constexpr unsigned kEach = kSortTile / kSortThreads;
  __shared__ Entry entries[kSortTile];
  const Wide pairs = (s.count + 2 * run - 1) / (2 * run);
  const Wide tiles = (fewer(s.kept, 2 * run) + kSortTile - 1) / kSortTile;  // of a pair
  const Wide line = blockIdx.x / tiles / pairs, first = blockIdx.x / tiles % pairs * (2 * run);
  const Wide second = fewer(first + run, s.count);
  const unsigned of_a = static_cast<unsigned>(fewer(s.kept, second - first));
  const unsigned of_b = static_cast<unsigned>(fewer(s.kept, fewer(run, s.count - second)));
  const Entry *const a = from + (line * s.count + first), *const b = from + (line * s.count + second);
  const unsigned total = static_cast<unsigned>(fewer(s.kept, Wide(of_a) + of_b));
  const Wide begin = blockIdx.x % tiles * kSortTile, end = fewer(begin + kSortTile, total);
  if (begin >= end) return;
  const unsigned from_a = merge_split(a, of_a, b, of_b, static_cast<unsigned>(begin));
  const unsigned count_a = merge_split(a, of_a, b, of_b, static_cast<unsigned>(end)) - from_a;
  const unsigned from_b = static_cast<unsigned>(begin) - from_a, count = static_cast<unsigned>(end - begin);
  for (unsigned e = threadIdx.x; e < count; e += kSortThreads)
    entries[e] = e < count_a ? a[from_a + e] : b[from_b + (e - count_a)];
  __syncthreads();
  const unsigned rank = threadIdx.x * kEach;
  Entry merged[kEach];
  if (rank < count) {
    unsigned i = merge_split(entries, count_a, entries + count_a, count - count_a, rank);
    unsigned j = count_a + (rank - i);
    ISOCHRON_UNROLL
    for (unsigned e = 0; e < kEach; ++e) {
      if (rank + e >= count) continue;
      const bool takes_a = j >= count || (i < count_a && entries[i].before(entries[j]));
      merged[e] = entries[takes_a ? i++ : j++];
    }
  }
  __syncthreads();
  ISOCHRON_UNROLL
  for (unsigned e = 0; e < kEach; ++e) {
    if (rank + e < count) entries[rank + e] = merged[e];
  }
  __syncthreads();
  for (unsigned e = threadIdx.x; e < count; e += kSortThreads) store(line, first + begin + e, entries[e]);
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
