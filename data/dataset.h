// Datasets: from tensors to batches in a few chained calls.
//
//   auto batches = data::from_tensor_slices(features, targets).shuffle(1000).batch(32).prefetch();
//   for (int epoch = 0; epoch < 10; ++epoch)
//     for (auto& [x, y] : batches) step(x, y);
//
// A dataset is a recipe: its order of elements (shuffle, repeat, take, skip, batch) is computed on row
// numbers alone, and an element is made from its row numbers only when it is delivered. So shuffling moves no
// data, a batch is gathered straight from the source into its slot, and an element is a pure function of
// (recipe, epoch, position).
//
// Every loop over a dataset is one epoch, counted from 0; shuffles differ from epoch to epoch. An element is
// a view that is valid until the next one is asked for (later reads throw kStale). Elements lie in a ring of
// slots allocated at the first loop; after that iterating allocates nothing. Copying a dataset copies the
// recipe; the copy starts at epoch 0. One thread may iterate over a dataset at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "isochron/data/element.h"

namespace isochron::data {

struct Recipe;
class Loader;

/// `prefetch` chooses the number of elements itself: 32 MiB of them, at least 2, at most 16.
inline constexpr int64_t kAutotune = -1;
/// `size()` of a dataset that repeats without end.
inline constexpr int64_t kInfinite = -1;

struct ShuffleOptions {
  uint64_t seed = 0;
  bool reshuffle = true;  // another order in every epoch
};
struct BatchOptions {
  bool drop_remainder = false;  // leave out an incomplete last batch
};
/// Gives an element for an element. May be called from the pipeline's thread, never from two at once.
using MapFunction = std::function<Element(Element)>;

class Dataset {
 public:
  class Iterator;

  /// One element a row of `sources` (all (N, ...), contiguous, equal N), under their names; the tensors are
  /// shared, not copied. Throws kInvalidArgument (no tensor, a scalar, no row, strided), kShapeMismatch
  /// (different N).
  explicit Dataset(const Element& sources);
  Dataset(const Dataset& other);
  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset other) noexcept;
  ~Dataset();  // stops and joins the pipeline's thread

  /// `function` applied to every element. It is called here once for each signature of the input, on elements
  /// made of the first rows, to learn its result's signature. All results must have the same names and
  /// signature; a different one, or an exception, is reported on delivery with stage, epoch, element and row.
  Dataset map(MapFunction function) const;
  /// Elements in random order: each is drawn from a buffer of the next `buffer_elems` ones (the whole epoch
  /// when it is at least `size()`). Only row numbers are buffered. Throws kInvalidArgument unless 1 <=
  /// buffer_elems.
  Dataset shuffle(int64_t buffer_elems, ShuffleOptions options = {}) const;
  /// `batch_elems` elements stacked along a new first axis. Throws kInvalidArgument: batch_elems < 1, a
  /// remainder dropped where there is nothing else, elements of several signatures.
  Dataset batch(int64_t batch_elems, BatchOptions options = {}) const;
  /// The elements `times` times over (kInfinite: without end), each time shuffled anew. Throws
  /// kInvalidArgument.
  Dataset repeat(int64_t times = kInfinite) const;
  /// The first `elems` elements. Throws kInvalidArgument unless elems >= 1.
  Dataset take(int64_t elems) const;
  /// All but the first `elems` elements. Throws kInvalidArgument when negative or nothing is left.
  Dataset skip(int64_t elems) const;
  /// Elements are made by a background thread, up to `elems` ahead and on into the next epoch. Wherever it
  /// stands in the chain, the queue stands at its end. Throws kInvalidArgument unless kAutotune or in [1,
  /// 1024].
  Dataset prefetch(int64_t elems = kAutotune) const;

  /// The signatures that elements may have: that of a full element, then that of an odd last batch if there
  /// can be one.
  std::vector<Signature> signatures() const;
  /// The names of an element's tensors, in its order.
  const std::vector<std::string>& names() const;
  /// Elements an epoch, or kInfinite.
  int64_t size() const;

  /// Begins the next epoch; iterators of the one before throw kStale when advanced.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }

  /// Where the iteration stands, after the element last taken; to be saved.
  std::string state() const;
  /// Goes on from a state of an equal recipe: the iterator is at the next element of that epoch, or at its
  /// end; `begin` then begins the epoch after it. Throws kBadFormat for anything but a state.
  Iterator resume(std::string_view state);

 private:
  explicit Dataset(std::shared_ptr<const Recipe> recipe);

  std::shared_ptr<const Recipe> recipe_;
  std::unique_ptr<Loader> loader_;  // made by the first `begin`
};

/// Input iterator over one epoch.
class Dataset::Iterator {
 public:
  using value_type = Element;
  using difference_type = std::ptrdiff_t;

  const Element& operator*() const { return *element_; }
  const Element* operator->() const { return element_; }
  /// Throws what a map function threw, kStale when the dataset was begun again.
  Iterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& a, std::default_sentinel_t) { return a.element_ == nullptr; }

 private:
  friend class Dataset;
  explicit Iterator(Loader& loader);

  Loader* loader_;
  uint64_t epoch_;
  const Element* element_;
};

/// A dataset whose elements are N unnamed tensors, so that structured bindings take them apart. The chain is
/// that of Dataset; inside, the names are "0", "1", ...
template <size_t N>
class TupleDataset {
 public:
  class Iterator;

  explicit TupleDataset(Dataset dataset) : dataset_(std::move(dataset)) {}

  /// `function` takes N tensors and gives a Tensor, a std::array or a std::tuple of tensors. See
  /// Dataset::map.
  template <typename Function>
  auto map(Function function) const;
  TupleDataset shuffle(int64_t buffer_elems, ShuffleOptions options = {}) const {
    return TupleDataset(dataset_.shuffle(buffer_elems, options));
  }
  TupleDataset batch(int64_t batch_elems, BatchOptions options = {}) const {
    return TupleDataset(dataset_.batch(batch_elems, options));
  }
  TupleDataset repeat(int64_t times = kInfinite) const { return TupleDataset(dataset_.repeat(times)); }
  TupleDataset take(int64_t elems) const { return TupleDataset(dataset_.take(elems)); }
  TupleDataset skip(int64_t elems) const { return TupleDataset(dataset_.skip(elems)); }
  TupleDataset prefetch(int64_t elems = kAutotune) const { return TupleDataset(dataset_.prefetch(elems)); }

  std::vector<Signature> signatures() const { return dataset_.signatures(); }
  int64_t size() const { return dataset_.size(); }
  /// The same dataset seen as one of elements named "0", "1", ...
  Dataset& elements() { return dataset_; }
  Iterator begin() { return Iterator(dataset_.begin()); }
  std::default_sentinel_t end() const { return {}; }

 private:
  Dataset dataset_;
};

template <size_t N>
class TupleDataset<N>::Iterator {
 public:
  using value_type = std::array<Tensor, N>;
  using difference_type = std::ptrdiff_t;

  explicit Iterator(Dataset::Iterator at) : at_(at) { take_apart(); }
  const value_type& operator*() const { return tensors_; }
  const value_type* operator->() const { return &tensors_; }
  Iterator& operator++() {
    ++at_;
    take_apart();
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& a, std::default_sentinel_t end) { return a.at_ == end; }

 private:
  void take_apart() {
    if (at_ == std::default_sentinel) return;
    for (size_t i = 0; i < N; ++i) tensors_[i] = (*at_)[static_cast<int>(i)];
  }

  Dataset::Iterator at_;
  value_type tensors_;
};

namespace internal {

/// An element of the given tensors under the names "0", "1", ...
template <typename... Tensors>
Element numbered(const Tensors&... tensors) {
  static_assert(sizeof...(Tensors) >= 1 && sizeof...(Tensors) <= kMaxElementTensors);
  Element element;
  (element.add(std::string(1, static_cast<char>('0' + element.size())), tensors), ...);
  return element;
}

/// How many tensors a map function's result holds.
template <typename Result>
struct ResultArity : std::tuple_size<Result> {};
template <>
struct ResultArity<Tensor> : std::integral_constant<size_t, 1> {};

}  // namespace internal

template <size_t N>
template <typename Function>
auto TupleDataset<N>::map(Function function) const {
  auto call = [function = std::move(function)]<size_t... I>(const Element& element,
                                                            std::index_sequence<I...>) mutable {
    return function(element[static_cast<int>(I)]...);
  };
  using Result =
      decltype(std::declval<decltype(call)>()(std::declval<Element>(), std::make_index_sequence<N>()));
  return TupleDataset<internal::ResultArity<Result>::value>(
      dataset_.map([call](const Element& element) mutable {
        auto result = call(element, std::make_index_sequence<N>());
        if constexpr (std::is_same_v<Result, Tensor>) {
          return internal::numbered(result);
        } else {
          return std::apply([](const auto&... tensors) { return internal::numbered(tensors...); }, result);
        }
      }));
}

/// One element a row: `from_tensor_slices(features, targets)`. See Dataset's constructor.
template <typename... Tensors>
requires(sizeof...(Tensors) >= 1 && (std::is_same_v<Tensors, Tensor> && ...))
    TupleDataset<sizeof...(Tensors)> from_tensor_slices(const Tensors&... tensors) {
  return TupleDataset<sizeof...(Tensors)>(Dataset(internal::numbered(tensors...)));
}

/// One element a row, named: `from_tensor_slices({{"images", images}, {"labels", labels}})`.
inline Dataset from_tensor_slices(std::initializer_list<std::pair<std::string_view, Tensor>> sources) {
  return Dataset(Element(sources));
}

}  // namespace isochron::data
