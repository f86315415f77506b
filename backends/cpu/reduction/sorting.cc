#include "isochron/backends/cpu/reduction/sorting.h"

#include <array>
#include <bit>
#include <limits>
#include <utility>

#include "isochron/backends/cpu/common/axis_kernels.h"
#include "isochron/core/base/checked.h"

namespace isochron::ops {
namespace {

using graph::KernelArgs;
using graph::KernelRequest;

// Each element is converted to an unsigned key with the same order and paired with its position. Entries with
// equal keys differ by position, so every sorting algorithm gives the same stable order. Descending order
// uses the complement of the keys.

/// An entry for dtypes of up to 32 bits: the key in the upper half, the position in the lower half.
struct HalfEntry {
  using Key = uint32_t;
  static constexpr int kFirstDigit = 4;  // first byte of the key in `bits`
  static constexpr int kDigits = 8;
  static constexpr int64_t kRadixElems = 256;  // from this length on, radix sort is used
  uint64_t bits;
  static HalfEntry of(Key key, int64_t position) {
    return {uint64_t{key} << 32 | static_cast<uint64_t>(position)};
  }
  int64_t position() const { return static_cast<int64_t>(bits & 0xffffffffu); }
  unsigned digit(int i) const { return static_cast<unsigned>(bits >> (8 * i) & 0xff); }
  friend bool operator<(HalfEntry a, HalfEntry b) { return a.bits < b.bits; }
};

struct WideEntry {
  using Key = uint64_t;
  static constexpr int kFirstDigit = 0;
  static constexpr int kDigits = 8;
  static constexpr int64_t kRadixElems = 1024;
  uint64_t key;
  int64_t at;
  static WideEntry of(Key key, int64_t position) { return {key, position}; }
  int64_t position() const { return at; }
  unsigned digit(int i) const { return static_cast<unsigned>(key >> (8 * i) & 0xff); }
  friend bool operator<(WideEntry a, WideEntry b) { return a.key != b.key ? a.key < b.key : a.at < b.at; }
};

template <typename T>
auto order_key(T element) {
  const auto x = widen(element);
  using Number = std::remove_const_t<decltype(x)>;
  using Key = std::conditional_t<sizeof(Number) == 8, uint64_t, uint32_t>;
  constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
  if constexpr (std::is_floating_point_v<Number>) {
    if (x != x) return std::numeric_limits<Key>::max();
    const Key bits = std::bit_cast<Key>(x == 0 ? Number(0) : x);
    return bits & kSign ? Key(~bits) : Key(bits | kSign);
  } else if constexpr (std::is_signed_v<Number>) {
    return Key(static_cast<Key>(x) ^ kSign);
  } else {
    return Key(x);
  }
}

/// If at most 1 / kFew of a line is kept, a heap selects these elements in one pass, because few elements
/// change the heap.
constexpr int64_t kFew = 16;

/// Sorts `count` entries by digits, least significant first; `spare` has room for `count` entries. Returns
/// the sorted entries, which are in `entries` or in `spare`.
template <typename Entry>
Entry* radix_sort(Entry* entries, Entry* spare, int64_t count) {
  for (int d = Entry::kFirstDigit; d < Entry::kDigits; ++d) {
    std::array<int64_t, 256> starts{};
    for (int64_t i = 0; i < count; ++i) ++starts[entries[i].digit(d)];
    if (starts[entries[0].digit(d)] == count) continue;
    int64_t total = 0;
    for (int64_t& start : starts) start = std::exchange(total, total + start);
    for (int64_t i = 0; i < count; ++i) spare[starts[entries[i].digit(d)]++] = entries[i];
    std::swap(entries, spare);
  }
  return entries;
}

template <typename T>
class TopKKernel final : public graph::Kernel {
 public:
  using Key = decltype(order_key(T()));
  using Entry = std::conditional_t<sizeof(Key) == 8, WideEntry, HalfEntry>;

  TopKKernel(const KernelRequest& request)
      : view_(request.inputs[0].shape, axis_of(request)),
        count_(request.attributes.get<int64_t>("k")),
        flip_(request.attributes.get<bool>("largest") ? std::numeric_limits<Key>::max() : Key(0)),
        few_(count_ <= view_.extent / kFew),
        radix_(count_ == view_.extent && count_ >= Entry::kRadixElems) {
    require(sizeof(Key) == 8 || view_.extent <= int64_t{std::numeric_limits<uint32_t>::max()},
            ErrorCode::kUnsupported, request.op.name, "{} has more than 2^32 elements along its axis",
            request.inputs[0].str());
    const int64_t lines = view_.outer * view_.inner;
    threads_ = lines > 1 && lines * view_.extent >= kElemsPerThread / 4 ? request.threads : 1;
  }

  size_t workspace_bytes() const override {
    const size_t entries = checked_mul(static_cast<size_t>(view_.extent) * (radix_ ? 2 : 1), sizeof(Entry));
    return checked_mul(entries, static_cast<size_t>(threads_));
  }

  void run(const KernelArgs& args) override {
    const int64_t lines = view_.outer * view_.inner;
    if (count_ == 0) return;
    parallel_for(threads_, threads_, [&](int64_t first, int64_t last) {
      for (int64_t thread = first; thread < last; ++thread) {  // one per thread
        Entry* own = reinterpret_cast<Entry*>(args.workspace) + thread * view_.extent * (radix_ ? 2 : 1);
        for (int64_t i = lines * thread / threads_; i < lines * (thread + 1) / threads_; ++i)
          order(args, own, i);
      }
    });
  }

 private:
  void order(const KernelArgs& args, Entry* entries, int64_t line) const {
    const int64_t outer = line / view_.inner;
    const int64_t inner = line % view_.inner;
    const T* x = reinterpret_cast<const T*>(args.inputs[0]) + outer * view_.extent * view_.inner + inner;
    const auto entry = [&](int64_t k) { return Entry::of(order_key(x[k * view_.inner]) ^ flip_, k); };
    const int64_t held = few_ ? count_ : view_.extent;
    for (int64_t k = 0; k < held; ++k) entries[k] = entry(k);
    if (few_) {
      std::make_heap(entries, entries + count_);  // the last of the k entries on top
      for (int64_t k = count_; k < view_.extent; ++k) {
        const Entry candidate = entry(k);
        if (!(candidate < entries[0])) continue;
        std::pop_heap(entries, entries + count_);
        entries[count_ - 1] = candidate;
        std::push_heap(entries, entries + count_);
      }
      std::sort_heap(entries, entries + count_);
    } else if (radix_) {
      entries = radix_sort(entries, entries + view_.extent, view_.extent);
    } else {
      if (count_ < view_.extent) std::nth_element(entries, entries + count_ - 1, entries + view_.extent);
      std::sort(entries, entries + count_);
    }
    const int64_t start = outer * count_ * view_.inner + inner;
    T* values = reinterpret_cast<T*>(args.outputs[0]);
    int64_t* positions = reinterpret_cast<int64_t*>(args.outputs[1]);
    for (int64_t k = 0; k < count_; ++k) {
      const int64_t position = entries[k].position();
      if (values) values[start + k * view_.inner] = x[position * view_.inner];
      if (positions) positions[start + k * view_.inner] = position;
    }
  }

  AxisView view_;
  int64_t count_;
  Key flip_;
  bool few_;
  bool radix_;
  int threads_ = 1;
};

template <typename T>
class SearchKernel final : public graph::Kernel {
 public:
  SearchKernel(const KernelRequest& request)
      : extent_(request.inputs[0].shape.back()),
        each_(request.inputs[1].shape.back()),
        elems_(request.inputs[1].shape.elems()),
        right_(request.attributes.get<bool>("right")) {
    threads_ = elems_ >= kElemsPerThread / 4 ? request.threads : 1;
  }

  void run(const graph::KernelArgs& args) override {
    const T* sorted = reinterpret_cast<const T*>(args.inputs[0]);
    const T* values = reinterpret_cast<const T*>(args.inputs[1]);
    int64_t* out = reinterpret_cast<int64_t*>(args.outputs[0]);
    parallel_for(threads_, elems_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* line = sorted + i / each_ * extent_;
        const auto value = widen(values[i]);
        const bool nan = value != value;  // ordered after all numbers
        const auto goes_before = [&](T element) {
          const auto x = widen(element);
          return right_ ? x <= value || nan : x < value || (nan && x == x);
        };
        out[i] = std::partition_point(line, line + extent_, goes_before) - line;
      }
    });
  }

 private:
  int64_t extent_, each_, elems_;
  bool right_;
  int threads_ = 1;
};

}  // namespace

std::unique_ptr<graph::Kernel> prepare_top_k(const KernelRequest& request) {
  return dispatch_dtype(request.inputs[0].dtype, [&]<typename T>(T) -> std::unique_ptr<graph::Kernel> {
    return std::make_unique<TopKKernel<T>>(request);
  });
}

std::unique_ptr<graph::Kernel> prepare_searchsorted(const KernelRequest& request) {
  return dispatch_dtype(request.inputs[0].dtype, [&]<typename T>(T) -> std::unique_ptr<graph::Kernel> {
    return std::make_unique<SearchKernel<T>>(request);
  });
}

}  // namespace isochron::ops
