// Kernels that sum elements by index. Comes after element_prelude() in the compiled source.
#ifndef ISOCHRON_OPS_CUDA_INDEXING_TEXT_H_
#define ISOCHRON_OPS_CUDA_INDEXING_TEXT_H_

namespace isochron {
namespace ops {
namespace element {

/// Adds the elements of a column of `updates` to those of a column of `sums` that `indices` name, in their
/// order. Columns have their elements `inner` apart; `updates` and `indices` have `count` of them, `sums` has
/// `extent`.
template <typename Sum, typename T, typename Index>
ISOCHRON_SCALAR void put_add_column(const T* updates, const Index* indices, unsigned count,
                                    unsigned long long inner, unsigned extent, Sum* sums) {
  constexpr unsigned kAtOnce = 4;  // elements that are asked for before one is waited for
  for (unsigned long long k = 0; k < count; k += kAtOnce) {
    long long index[kAtOnce];
    Sum update[kAtOnce];
    ISOCHRON_UNROLL
    for (unsigned i = 0; i < kAtOnce; ++i) {
      if (k + i >= count) continue;
      index[i] = indices[(k + i) * inner];
      update[i] = widen(updates[(k + i) * inner]);
    }
    ISOCHRON_UNROLL
    for (unsigned i = 0; i < kAtOnce; ++i) {
      if (k + i >= count) continue;
      Sum& sum = sums[checked_index(index[i], extent, "put_add_along_axis") * inner];
      sum = static_cast<Sum>(sum + update[i]);
    }
  }
}

/// The sum of what `update(position)` gives for a run of entries of one key, sort_text.h, from `first` on, in
/// their order; `count`: where the entries end.
template <typename Sum, typename Entry, typename Update>
ISOCHRON_SCALAR Sum sum_of_run(const Entry* entries, unsigned long long first, unsigned long long count,
                               const Update& update) {
  constexpr unsigned kAtOnce = 4;  // elements that are asked for before one is waited for
  const auto key = entries[first].key();
  Sum sum = 0;
  for (unsigned long long k = first; k < count && entries[k].key() == key; k += kAtOnce) {
    Sum values[kAtOnce];
    ISOCHRON_UNROLL
    for (unsigned i = 0; i < kAtOnce; ++i) {
      values[i] = 0;  // adds nothing: no sum is -0
      if (k + i < count && entries[k + i].key() == key) values[i] = update(entries[k + i].position());
    }
    ISOCHRON_UNROLL
    for (unsigned i = 0; i < kAtOnce; ++i) sum = static_cast<Sum>(sum + values[i]);
  }
  return sum;
}

/// 1 where a run of entries that weren't left out begins, else 0.
template <typename Entry>
ISOCHRON_SCALAR unsigned begins_run(const Entry* entries, unsigned long long at) {
  const Entry entry = entries[at];
  return entry.before(Entry::last()) && (at == 0 || entries[at - 1].key() != entry.key());
}

/// Whether the last of a run of equal keys among `count` entries is at `at`.
template <typename Entry>
ISOCHRON_SCALAR bool ends_run(const Entry* entries, unsigned long long at, unsigned long long count) {
  return at + 1 == count || entries[at + 1].key() != entries[at].key();
}

/// Puts the largest of *chosen and of the elements updates[position * inner] for a run of entries of one key,
/// from `first` on, into *chosen, else the smallest; of equals, and of NaNs, the first one. *place, if there
/// is one, gets its position, if it is an update.
template <bool kLargest, typename Entry, typename T>
ISOCHRON_SCALAR void extreme_of_run(const Entry* entries, unsigned long long first, unsigned long long count,
                                    const T* updates, unsigned long long inner, T* chosen, long long* place) {
  const auto key = entries[first].key();
  auto best = widen(*chosen);
  long long at = -1;
  for (unsigned long long k = first; k < count && entries[k].key() == key; ++k) {
    const auto x = widen(updates[entries[k].position() * inner]);
    if (!(kLargest ? x > best : x < best) && !(x != x && best == best)) continue;
    best = x;
    at = entries[k].position();
  }
  if (at < 0) return;
  *chosen = updates[at * inner];
  if (place) *place = at;
}

/// The indices of a bag.
struct Bag {
  unsigned begin, end;
};

/// Bag number `bag`, from `offsets`, which ascend from 0. The last of `bags` bags ends at `count` or, with
/// `closed`, at one more offset.
template <typename Offset>
ISOCHRON_SCALAR Bag bag_between(const Offset* offsets, unsigned bag, unsigned bags, unsigned count,
                                bool closed) {
  constexpr const char* kOffset = "embedding_bag's offset";
  const bool last = bag + 1 == bags;
  unsigned end = count;
  if (!last || closed) end = checked_index(offsets[bag + 1], count + 1, kOffset);
  if (last) checked_index(count - end, 1, "embedding_bag's indices behind the last offset");
  return {checked_index(offsets[bag], bag == 0 ? 1 : end + 1, kOffset), end};
}

/// The sum of a column of the rows of `table` that the indices of a bag name, or their mean. `table`: the
/// column's first element; `weights`: null, or a factor for each index. Rows at `padding` are left out.
template <typename Sum, typename T, typename Index>
ISOCHRON_SCALAR void sum_of_bag(const T* table, unsigned rows, unsigned long long width, const Index* indices,
                                Bag bag, long long padding, const T* weights, bool mean, T* out) {
  Sum sum = 0;
  unsigned taken = 0;
  ISOCHRON_UNROLL_BY(4)
  for (unsigned i = bag.begin; i < bag.end; ++i) {
    const unsigned row = checked_index(indices[i], rows, "embedding_bag");
    if (row == padding) continue;
    const Sum x = widen(table[row * width]);
    sum += weights ? widen(weights[i]) * x : x;
    ++taken;
  }
  put(out, mean && taken > 1 ? sum / static_cast<Sum>(taken) : sum);
}

/// The largest element of such a column, and the position of its index; 0 and -1 if there is none. Of equal
/// elements, and of NaNs, the first one is taken.
template <typename Sum, typename T, typename Index>
ISOCHRON_SCALAR void largest_of_bag(const T* table, unsigned rows, unsigned long long width,
                                    const Index* indices, Bag bag, long long padding, T* out,
                                    long long* position) {
  Sum largest = 0;
  long long place = -1;
  ISOCHRON_UNROLL_BY(4)
  for (unsigned i = bag.begin; i < bag.end; ++i) {
    const unsigned row = checked_index(indices[i], rows, "embedding_bag");
    if (row == padding) continue;
    const Sum x = widen(table[row * width]);
    if (place >= 0 && !(x > largest) && !(x != x && largest == largest)) continue;
    largest = x;
    place = i;
  }
  put(out, largest);
  *position = place;
}

}  // namespace element
}  // namespace ops
}  // namespace isochron

#endif
