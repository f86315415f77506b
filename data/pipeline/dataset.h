// Datasets: from tensors to batches in a few chained calls.
//
//   auto batches = data::from_tensor_slices(features, targets).shuffle(1000).batch(32).prefetch();
//   for (int epoch = 0; epoch < 10; ++epoch)
//     for (auto& [x, y] : batches) step(x, y);
//
// A dataset is a recipe over a source (source.h). Over rows, such as those of tensors, the order of elements
// (shuffle, repeat, take, skip, shard, batch) is computed on row numbers alone. An element is made from its
// row numbers only when it is delivered. Shuffling therefore moves no data, a batch is gathered directly
// from the source into its slot, and an element is a pure function of (recipe, epoch, position). Over a
// stream (a file of records, a generator, the result of a filter) the same stages order the buffers that
// hold the elements.
//
// Every loop over a dataset is one epoch, counted from 0; shuffles differ from epoch to epoch. An element is
// a view that is valid until the next element is requested; later reads throw kStale. Elements are stored in
// a ring of slots that the first loop allocates; after that, iterating allocates nothing. Copying a dataset
// copies the recipe; the copy starts at epoch 0. Only one thread at a time may iterate over a dataset.
#pragma once

#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "isochron/data/element/element.h"
#include "isochron/data/element/position.h"
#include "isochron/data/pipeline/autotune.h"

namespace isochron::data {

struct MapStage;
struct Recipe;
class ElementBuffer;
class Loader;
class RowSource;
class StreamSource;

/// Value of `prefetch` and `MapOptions::parallel`: chosen automatically.
inline constexpr int64_t kAutotune = -1;
/// `size()` of a dataset that repeats without end.
inline constexpr int64_t kInfinite = -1;
/// `size()` of a dataset whose elements can be counted only by reading them: a file of records, the result
/// of a filter.
inline constexpr int64_t kUnknown = -2;

struct ShuffleOptions {
  /// nullopt: derived from the process seed (random::set_seed) when the dataset is made; 0 if none was set.
  /// The parts of a joined dataset (zip, concatenate, interleave, ...) then have orders of their own, unless
  /// `reshuffle` is false.
  std::optional<uint64_t> seed = {};
  bool reshuffle = true;  // another order in every epoch
};
struct BatchOptions {
  /// Leaves out an incomplete last batch.
  bool drop_remainder = false;
  /// Pads an incomplete last batch with zeros, and adds a tensor "valid" to every batch: bool (batch_elems),
  /// true for the elements that aren't padding.
  bool pad_remainder = false;
};
struct PaddedBatchOptions {
  bool drop_remainder = false;
  /// As in BatchOptions, but filled with `padding`.
  bool pad_remainder = false;
  /// By tensor name: the shape to pad to; kAnyExtent stands for the largest extent in the batch. In a tensor
  /// not named here, each extent that varies is padded to the largest in the batch.
  std::vector<std::pair<std::string, Shape>> shapes = {};
  /// By tensor name: the padding value; 0 for tensors not named here.
  std::vector<std::pair<std::string, double>> padding = {};
};

struct InterleaveOptions {
  int64_t cycle = 4;  // datasets that are open at the same time
  int64_t block = 1;  // consecutive elements taken from each of them
};

struct MapOptions {
  /// Threads that may call the function at the same time; above 1 it must be thread-safe. The pipeline has
  /// as many workers as its most parallel map allows; they make elements ahead of the consumer, as with
  /// `prefetch`.
  int64_t parallel = 1;
  /// False: elements are delivered as they are finished, in any order within an epoch.
  bool deterministic = true;
  /// The signature of the function's result. Empty: inferred from the result for the first element. If
  /// extents vary, give it here with kAnyExtent.
  Signature result = {};
};
/// Replaces the tensors of an element. The tensors passed in may be the source's own memory and must not be
/// written to. Called on the pipeline's threads, and on several at once only if `parallel` allows it. Must
/// be pure: it may be called again for the same element.
using MapFunction = std::function<void(Element&, const Position&)>;
/// Writes an element made from `input` to the memory that `output.room` returns. Must be pure, like a
/// MapFunction.
using IntoFunction = std::function<void(const Element& input, ElementBuffer& output, const Position&)>;

class Dataset {
 public:
  class Iterator;

  /// One element per row of `sources`, under the same names. The tensors are (N, ...) with equal N,
  /// contiguous, and are shared, not copied. Throws kInvalidArgument for no tensor, a scalar, no row or a
  /// strided tensor, and kShapeMismatch for different N.
  explicit Dataset(const Element& sources);
  /// A dataset over a custom source. Throws kInvalidArgument if the source has no rows.
  explicit Dataset(std::shared_ptr<const RowSource> rows);
  explicit Dataset(std::shared_ptr<const StreamSource> stream);
  /// The dataset that `recipe` describes; for datasets built from other datasets.
  explicit Dataset(std::shared_ptr<const Recipe> recipe);
  Dataset(const Dataset& other);
  /// Moves the prefetched elements, too. `other` keeps its recipe and can still be used.
  Dataset(Dataset&& other) noexcept;
  Dataset& operator=(Dataset other) noexcept;
  /// Stops and joins the pipeline's threads; waits for user functions that are running.
  ~Dataset();

  /// Applies `function` to every element. To learn the signature of the result, it is called here once per
  /// signature of the input, on an element made from the first ones (from zeros if there are none). All
  /// results must have the same names and signature; another one, or an exception, is reported on delivery
  /// with stage, epoch, element and row. Throws kInvalidArgument unless `parallel` is kAutotune or in [1,
  /// 256].
  Dataset map(std::function<Element(Element)> function, MapOptions options = {}) const;
  /// The same for a function that also needs the element's position: a key for random numbers that doesn't
  /// depend on the number of threads.
  Dataset map_with_position(MapFunction function, MapOptions options = {}) const;
  /// The same for a function that writes its result to reused memory, so that nothing is allocated per
  /// element. `names` and `signature` describe the result, all of which `function` must write; extents may
  /// be kAnyExtent. Throws kInvalidArgument if `names` and `signature` don't match.
  Dataset map_into(std::vector<std::string> names, Signature signature, IntoFunction function,
                   MapOptions options = {}) const;
  /// The elements for which `keep` returns true. The elements of the input are made one after another, or
  /// ahead by its own workers if it has `prefetch` or parallel maps.
  Dataset filter(std::function<bool(const Element&)> keep) const;
  /// Concatenates the datasets that `function` returns for the elements; all must have the same signature.
  /// Each element gets a new dataset, which is read in the epoch of this dataset: a shuffle in it therefore
  /// differs from epoch to epoch.
  Dataset flat_map(std::function<Dataset(const Element&)> function) const;
  /// The same with `cycle` datasets open at a time; takes `block` elements from each, round-robin. Throws
  /// kInvalidArgument unless cycle is in [1, 65536] and block >= 1.
  Dataset interleave(std::function<Dataset(const Element&)> function, InterleaveOptions options = {}) const;
  /// Splits batches into their elements. Throws kInvalidArgument if a tensor is a scalar.
  Dataset unbatch() const;
  /// Elements in random order: each is drawn from a buffer of the next `buffer_elems` elements. Over rows
  /// the buffer holds row numbers only; instead of a buffer for the whole epoch, a permutation is computed
  /// (permutation.h). Over a stream the buffer holds the elements themselves. Throws kInvalidArgument unless
  /// buffer_elems >= 1.
  Dataset shuffle(int64_t buffer_elems, ShuffleOptions options = {}) const;
  /// Stacks `batch_elems` elements along a new first axis. Throws kInvalidArgument if batch_elems < 1, if
  /// nothing is left after dropping the remainder, if the elements have several signatures or extents that
  /// vary, or if a remainder of unknown size is neither dropped nor padded.
  Dataset batch(int64_t batch_elems, BatchOptions options = {}) const;
  /// The same for elements whose extents vary: smaller ones are padded at the end of their axes. Throws like
  /// `batch`; on delivery, kShapeMismatch for an element larger than the shape given for it.
  Dataset padded_batch(int64_t batch_elems, PaddedBatchOptions options = {}) const;
  /// Repeats the elements `times` times (kInfinite: endlessly); shuffles before it differ in each pass.
  /// Throws kInvalidArgument.
  Dataset repeat(int64_t times = kInfinite) const;
  /// The first `elems` elements. Throws kInvalidArgument unless elems >= 1.
  Dataset take(int64_t elems) const;
  /// All elements except the first `elems`. Throws kInvalidArgument if `elems` is negative or no element is
  /// left.
  Dataset skip(int64_t elems) const;
  /// Every `shards`th block of `block` consecutive elements, starting with block `index`. To divide batches
  /// among `shards` processes, set `block` to the batches per update of one process. An incomplete last
  /// batch goes to the shard that its number belongs to. A shard may be empty: `size()` is then 0, and an
  /// epoch ends at once. If no later stage changes the order, maps get the number before sharding as
  /// Position::element, so that all shards together give what the unsharded dataset gives. Throws
  /// kInvalidArgument unless 0 <= index < shards and 1 <= block, and if shards * block exceeds 64 bits.
  Dataset shard(int64_t shards, int64_t index, int64_t block = 1) const;
  /// Iterates over the dataset once, in this call, and keeps its elements in memory. The result is a dataset
  /// over rows of known size. Throws kOutOfMemory if the elements exceed `limit_bytes` or the memory budget
  /// of pipelines (pipeline_memory.h), kInvalidArgument for extents that vary or an endless dataset, and any
  /// error from making the elements.
  Dataset cache(size_t limit_bytes = SIZE_MAX) const;
  /// Makes up to `elems` elements ahead, and on into the next epoch, on a background thread (on several if a
  /// map is parallel). kAutotune: as many as fill 32 MiB, but at least 2 and at most 16, plus one per
  /// further worker; fewer, down to 1, if the memory budget requires it (pipeline_memory.h). Throws
  /// kOutOfMemory, before the first element, if one element alone, or the given number, exceeds that budget.
  /// The queue is at the end of the chain, wherever `prefetch` is called in it. With a single core, elements
  /// are made on request instead if they are in memory and no function is applied to them. Throws
  /// kInvalidArgument unless `elems` is kAutotune or in [1, 1024].
  Dataset prefetch(int64_t elems = kAutotune) const;

  /// The signatures that elements may have: first that of a full element, then, if there can be one, that of
  /// an incomplete last batch. Over a stream, all signatures of its elements; extents may be kAnyExtent.
  std::vector<Signature> signatures() const;
  /// The names of an element's tensors, in its order.
  const std::vector<std::string>& names() const;
  /// The number of elements per epoch, kInfinite or kUnknown.
  int64_t size() const;

  /// Begins the next epoch; iterators of the previous epoch throw kStale when advanced.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }
  /// The next `begin` of this object begins epoch `epoch`; later calls continue counting from it. Copies,
  /// and datasets made from this one, begin at epoch 0.
  void set_epoch(uint64_t epoch) { next_epoch_ = epoch; }
  /// The epoch that the next `begin` of this object begins.
  uint64_t next_epoch() const;

  /// Loops that begin after this call make their elements in page-locked memory, from which `device` copies
  /// while the training thread continues (PyTorch: pin_memory). Use it if the step is captured for `device`.
  /// Don't write to an element after a step has taken it. This call has no effect on the CPU, after the first
  /// loop of this object has begun, if the system has no such memory, and on tensors stored elsewhere (rows
  /// without batch(), results of a map). Throws like cuda::gpu.
  void pin_memory(Device device);

  /// The state of the iteration: the position after the last element that an iterator returned. Over rows,
  /// fewer than 100 bytes; otherwise it also holds what the stages hold (a shuffle's buffer, prefetched
  /// elements, an error found ahead). Waits for user functions that are running (maps, generators), but not
  /// until the next element is found.
  std::string state();
  /// Continues from `state`, which a dataset made by the same chain of calls over an equal source saved. The
  /// iterator is at the next element of that epoch, or at its end: iterate from it, since a `for` over the
  /// dataset begins the next epoch. A file that has changed meanwhile isn't noticed unless its size shows it.
  /// Throws kBadFormat for a state that is damaged or belongs to another dataset.
  ///
  /// Over rows, if `shard` is the last stage that changes the order, the two datasets may be sharded
  /// differently, or one of them not at all. A state that a shard saves after whole blocks then represents
  /// all shards, each after the same number of blocks; keep the state of shard 0, which ends last. The
  /// position must be a multiple of this dataset's shards * block elements, or the end of the epoch. Throws
  /// kInvalidArgument otherwise, for a position within a block unless shards and block are equal, and for
  /// different sharding over a stream.
  Iterator resume(std::string_view state);

  /// What the pipeline uses; all 0 before the first loop.
  PipelineStats stats() const;
  /// The recipe that the chain of calls describes (recipe.h); for datasets built from other datasets.
  const std::shared_ptr<const Recipe>& recipe() const { return recipe_; }

 private:
  Dataset interleaved(std::function<Dataset(const Element&)> function, InterleaveOptions options,
                      const char* where) const;
  Dataset after(std::shared_ptr<const StreamSource> stream) const;
  Dataset with_map(MapStage map, const MapOptions& options) const;
  Dataset with_batches(int64_t batch_elems, const PaddedBatchOptions& options, bool padded) const;
  Loader& loader();

  std::shared_ptr<const Recipe> recipe_;
  std::unique_ptr<Loader> loader_;      // made by the first `begin`
  std::optional<uint64_t> next_epoch_;  // none: the one that follows
};

/// Input iterator over one epoch.
class Dataset::Iterator {
 public:
  using value_type = Element;
  using difference_type = std::ptrdiff_t;

  const Element& operator*() const { return *element_; }
  const Element* operator->() const { return element_; }
  /// Throws what a map function threw, and kStale if `begin` was called on the dataset again.
  Iterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& a, std::default_sentinel_t) { return a.element_ == nullptr; }

 private:
  friend class Dataset;
  explicit Iterator(Loader& loader);

  Loader* loader_;
  uint64_t epoch_, loop_;
  const Element* element_;
};

/// A dataset whose elements are N unnamed tensors, for structured bindings. It has the chain of calls of
/// Dataset; internally the tensors are named "0", "1", ...
template <size_t N>
class TupleDataset {
 public:
  class Iterator;

  explicit TupleDataset(Dataset dataset) : dataset_(std::move(dataset)) {}

  /// `function` takes N tensors and gives a Tensor, a std::array or a std::tuple of tensors. See
  /// Dataset::map.
  template <typename Function>
  auto map(Function function, MapOptions options = {}) const;
  /// `keep` takes N tensors. See Dataset::filter.
  template <typename Function>
  TupleDataset filter(Function keep) const;
  TupleDataset shuffle(int64_t buffer_elems, ShuffleOptions options = {}) const {
    return TupleDataset(dataset_.shuffle(buffer_elems, options));
  }
  TupleDataset batch(int64_t batch_elems, BatchOptions options = {}) const {
    return TupleDataset(dataset_.batch(batch_elems, options));
  }
  TupleDataset repeat(int64_t times = kInfinite) const { return TupleDataset(dataset_.repeat(times)); }
  TupleDataset take(int64_t elems) const { return TupleDataset(dataset_.take(elems)); }
  TupleDataset skip(int64_t elems) const { return TupleDataset(dataset_.skip(elems)); }
  TupleDataset shard(int64_t shards, int64_t index, int64_t block = 1) const {
    return TupleDataset(dataset_.shard(shards, index, block));
  }
  TupleDataset unbatch() const { return TupleDataset(dataset_.unbatch()); }
  TupleDataset cache(size_t limit_bytes = SIZE_MAX) const {
    return TupleDataset(dataset_.cache(limit_bytes));
  }
  TupleDataset prefetch(int64_t elems = kAutotune) const { return TupleDataset(dataset_.prefetch(elems)); }

  std::vector<Signature> signatures() const { return dataset_.signatures(); }
  int64_t size() const { return dataset_.size(); }
  /// The underlying dataset, whose tensors are named "0", "1", ...
  Dataset& elements() { return dataset_; }
  Iterator begin() { return Iterator(dataset_.begin()); }
  std::default_sentinel_t end() const { return {}; }
  void set_epoch(uint64_t epoch) { dataset_.set_epoch(epoch); }
  void pin_memory(Device device) { dataset_.pin_memory(device); }
  std::string state() { return dataset_.state(); }
  Iterator resume(std::string_view state) { return Iterator(dataset_.resume(state)); }

 private:
  Dataset dataset_;
};

template <size_t N>
class TupleDataset<N>::Iterator {
 public:
  using value_type = std::array<Tensor, N>;
  using difference_type = std::ptrdiff_t;

  explicit Iterator(Dataset::Iterator at) : at_(at) { take_apart(); }
  const value_type& operator*() const& { return tensors_; }
  /// For a temporary iterator, as in `const auto& [x, y] = *dataset.begin()`.
  value_type operator*() && { return std::move(tensors_); }
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

/// Replaces the numbered tensors of `element` by the given ones.
template <typename... Tensors>
void replace(Element& element, Tensors&&... tensors) {
  if (element.size() != sizeof...(Tensors)) {
    element = numbered(tensors...);
    return;
  }
  int i = 0;
  ((element[i++] = std::forward<Tensors>(tensors)), ...);
}

/// How many tensors a map function's result holds.
template <typename Result>
struct ResultArity : std::tuple_size<Result> {};
template <>
struct ResultArity<Tensor> : std::integral_constant<size_t, 1> {};

}  // namespace internal

template <size_t N>
template <typename Function>
auto TupleDataset<N>::map(Function function, MapOptions options) const {
  auto call = [function = std::move(function)]<size_t... I>(const Element& element,
                                                            std::index_sequence<I...>) mutable {
    return function(element[static_cast<int>(I)]...);
  };
  using Result =
      decltype(std::declval<decltype(call)>()(std::declval<Element>(), std::make_index_sequence<N>()));
  return TupleDataset<internal::ResultArity<Result>::value>(dataset_.map_with_position(
      [call](Element& element, const Position&) mutable {
        auto result = call(element, std::make_index_sequence<N>());
        if constexpr (std::is_same_v<Result, Tensor>) {
          internal::replace(element, std::move(result));
        } else {
          std::apply([&](auto&... tensors) { internal::replace(element, std::move(tensors)...); }, result);
        }
      },
      std::move(options)));
}

template <size_t N>
template <typename Function>
TupleDataset<N> TupleDataset<N>::filter(Function keep) const {
  return TupleDataset(dataset_.filter([keep = std::move(keep)](const Element& element) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return static_cast<bool>(keep(element[static_cast<int>(I)]...));
    }
    (std::make_index_sequence<N>());
  }));
}

/// One element per row: `from_tensor_slices(features, targets)`. See Dataset's constructor.
template <typename... Tensors>
requires(sizeof...(Tensors) >= 1 && (std::is_same_v<Tensors, Tensor> && ...))
    TupleDataset<sizeof...(Tensors)> from_tensor_slices(const Tensors&... tensors) {
  return TupleDataset<sizeof...(Tensors)>(Dataset(internal::numbered(tensors...)));
}

/// One element per row, with names: `from_tensor_slices({{"images", images}, {"labels", labels}})`.
inline Dataset from_tensor_slices(std::initializer_list<std::pair<std::string_view, Tensor>> sources) {
  return Dataset(Element(sources));
}

}  // namespace isochron::data
