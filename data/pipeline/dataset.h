// Datasets: from tensors to batches in a few chained calls.
//
//   auto batches = data::from_tensor_slices(features, targets).shuffle(1000).batch(32).prefetch();
//   for (int epoch = 0; epoch < 10; ++epoch)
//     for (auto& [x, y] : batches) step(x, y);
//
// A dataset is a recipe over a source (source.h). Over rows, such as those of tensors, the order of elements
// (shuffle, repeat, take, skip, shard, batch) is computed on row numbers alone, and an element is made from
// its row numbers only when it is delivered. So shuffling moves no data, a batch is gathered straight from
// the source into its slot, and an element is a pure function of (recipe, epoch, position). Over a stream (a
// file of records, a generator, what a filter leaves) the same stages order the buffers that were read.
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

/// `prefetch` and `MapOptions::parallel` choose by themselves.
inline constexpr int64_t kAutotune = -1;
/// `size()` of a dataset that repeats without end.
inline constexpr int64_t kInfinite = -1;
/// `size()` of a dataset whose elements must be read to be counted: a file of records, what a filter leaves.
inline constexpr int64_t kUnknown = -2;

struct ShuffleOptions {
  /// None: derived from the seed of the process (random::set_seed) when the dataset is made, or 0.
  std::optional<uint64_t> seed = {};
  bool reshuffle = true;  // another order in every epoch
};
struct BatchOptions {
  /// Leaves out an incomplete last batch.
  bool drop_remainder = false;
  /// Fills an incomplete last batch up with zeros, and gives every batch one more tensor, "valid": bool
  /// (batch_elems), true for the elements that count.
  bool pad_remainder = false;
};
struct PaddedBatchOptions {
  bool drop_remainder = false;
  bool pad_remainder = false;
  /// By name, the shape that a tensor is padded to, kAnyExtent standing for the largest extent in the batch.
  /// For tensors not named here: every extent that varies is that of the largest.
  std::vector<std::pair<std::string, Shape>> shapes = {};
  /// By name, what is put there; else 0.
  std::vector<std::pair<std::string, double>> padding = {};
};

struct InterleaveOptions {
  int64_t cycle = 4;  // datasets that are read in turns
  int64_t block = 1;  // elements of each before it is the next one's turn
};

struct MapOptions {
  /// Threads that may call the function at the same time; it must be safe to. The pipeline's elements are
  /// made by as many threads as its most parallel map allows, ahead of the consumer as with `prefetch`.
  int64_t parallel = 1;
  /// False: elements are delivered as they are finished, in any order within an epoch.
  bool deterministic = true;
  /// What the function gives. Empty: inferred from its result for the first element. Extents that vary need
  /// kAnyExtent here.
  Signature result = {};
};
/// Puts tensors in place of an element's. Those it is given may be the source's own memory and are not to be
/// written to. Called from the pipeline's threads, from several at once only where `parallel` says so. Must
/// be pure: it may be called again for the same element.
using MapFunction = std::function<void(Element&, const Position&)>;
/// Writes an element made from `input` to the memory that `output.room` gives; as pure as a MapFunction.
using IntoFunction = std::function<void(const Element& input, ElementBuffer& output, const Position&)>;

class Dataset {
 public:
  class Iterator;

  /// One element a row of `sources` (all (N, ...), contiguous, equal N), under their names; the tensors are
  /// shared, not copied. Throws kInvalidArgument (no tensor, a scalar, no row, strided), kShapeMismatch
  /// (different N).
  explicit Dataset(const Element& sources);
  /// Over a source of one's own. Throws kInvalidArgument for one without rows.
  explicit Dataset(std::shared_ptr<const RowSource> rows);
  explicit Dataset(std::shared_ptr<const StreamSource> stream);
  /// What `recipe` describes, for datasets made of datasets.
  explicit Dataset(std::shared_ptr<const Recipe> recipe);
  Dataset(const Dataset& other);
  /// What was read ahead goes along; `other` stays the dataset that it was.
  Dataset(Dataset&& other) noexcept;
  Dataset& operator=(Dataset other) noexcept;
  /// Stops and joins the pipeline's threads; waits for functions of users that are at work.
  ~Dataset();

  /// `function` applied to every element. It is called here once for each signature of the input, on elements
  /// made of the first ones (of zeros where there is none), to learn its result's signature. All results must
  /// have the same names and signature; a different one, or an exception, is reported on delivery with stage,
  /// epoch, element and row. Throws kInvalidArgument for `parallel` outside kAutotune and [1, 256].
  Dataset map(std::function<Element(Element)> function, MapOptions options = {}) const;
  /// The same for a function that needs to know where it stands: a key for
  /// random numbers that doesn't depend on the number of threads.
  Dataset map_with_position(MapFunction function, MapOptions options = {}) const;
  /// The same for a function that writes its result to memory that is used again and again, so that nothing
  /// is allocated for an element. `names` and `signature` are those of the result, which `function` must
  /// write whole; extents may be kAnyExtent. Throws kInvalidArgument for names and a signature that don't
  /// fit.
  Dataset map_into(std::vector<std::string> names, Signature signature, IntoFunction function,
                   MapOptions options = {}) const;
  /// The elements for which `keep` is true. Its input is made one after the other, by the threads of its own
  /// `prefetch` and parallel maps if it has any.
  Dataset filter(std::function<bool(const Element&)> keep) const;
  /// For every element the elements of the dataset that `function` gives for it, one after the other; all
  /// must have the same signature. A dataset is made anew for each element, and of it the epoch with the
  /// number of this dataset's is taken, so that one that shuffles does so anew in each epoch.
  Dataset flat_map(std::function<Dataset(const Element&)> function) const;
  /// The same with `cycle` datasets open at a time, `block` elements of each in turn. Throws
  /// kInvalidArgument.
  Dataset interleave(std::function<Dataset(const Element&)> function, InterleaveOptions options = {}) const;
  /// The elements that batches consist of. Throws kInvalidArgument where a tensor is a scalar.
  Dataset unbatch() const;
  /// Elements in random order: each is drawn from a buffer of the next `buffer_elems` ones. Over rows only
  /// row numbers are buffered, and a buffer that holds the whole epoch is none: the order is then a
  /// permutation that is computed (permutation.h). Over a stream the elements themselves are held. Throws
  /// kInvalidArgument unless 1 <= buffer_elems.
  Dataset shuffle(int64_t buffer_elems, ShuffleOptions options = {}) const;
  /// `batch_elems` elements stacked along a new first axis. Throws kInvalidArgument: batch_elems < 1, a
  /// remainder dropped where there is nothing else, elements of several signatures, extents that vary, a
  /// remainder of unknown size that is neither dropped nor padded.
  Dataset batch(int64_t batch_elems, BatchOptions options = {}) const;
  /// The same for elements whose extents vary: smaller ones are padded at the end of their axes. Throws as
  /// `batch`, and on delivery kShapeMismatch for an element larger than the shape given for it.
  Dataset padded_batch(int64_t batch_elems, PaddedBatchOptions options = {}) const;
  /// The elements `times` times over (kInfinite: without end), each time shuffled anew. Throws
  /// kInvalidArgument.
  Dataset repeat(int64_t times = kInfinite) const;
  /// The first `elems` elements. Throws kInvalidArgument unless elems >= 1.
  Dataset take(int64_t elems) const;
  /// All but the first `elems` elements. Throws kInvalidArgument when negative or nothing is left.
  Dataset skip(int64_t elems) const;
  /// Every `shards`th block of `block` consecutive elements, from the `index`th block on: what one of
  /// `shards` processes gets of batches, `block` for each of its updates. An odd last batch goes to the shard
  /// that its number belongs to. There may be no element at all: `size()` is then 0, and an epoch ends at
  /// once. Where no other stage that acts on the order follows, Position::element of maps is the number
  /// before sharding, so that together the shards give what the dataset itself gives. Throws kInvalidArgument
  /// unless 0 <= index < shards and 1 <= block, and where shards * block exceeds 64 bits.
  Dataset shard(int64_t shards, int64_t index, int64_t block = 1) const;
  /// Runs the dataset once, here, and keeps its elements in memory: what follows is over rows, of known
  /// number. Throws kOutOfMemory when they exceed `limit_bytes` or the budget of pipelines
  /// (pipeline_memory.h), kInvalidArgument for extents that vary or no end, and what making the elements
  /// throws.
  Dataset cache(size_t limit_bytes = SIZE_MAX) const;
  /// Elements are made by a background thread (by several where a map is parallel), up to `elems` ahead and
  /// on into the next epoch. kAutotune: 32 MiB of them, at least 2, at most 16, and one more
  /// for every further worker; fewer, down to one, where the memory budget ends (pipeline_memory.h): that one
  /// doesn't fit, or that a number given doesn't, is kOutOfMemory before the first element. Wherever it
  /// stands in the chain, the queue stands at its end. A process with a single core to count on makes what is
  /// in memory and passes no function when it is asked for. Throws kInvalidArgument unless kAutotune or in
  /// [1, 1024].
  Dataset prefetch(int64_t elems = kAutotune) const;

  /// The signatures that elements may have: that of a full element, then that of an odd last batch if there
  /// can be one. Over a stream, all that its elements may have; extents may be kAnyExtent.
  std::vector<Signature> signatures() const;
  /// The names of an element's tensors, in its order.
  const std::vector<std::string>& names() const;
  /// Elements an epoch, kInfinite or kUnknown.
  int64_t size() const;

  /// Begins the next epoch; iterators of the one before throw kStale when advanced.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }
  /// The next `begin` of this object begins epoch `epoch` rather than the one that follows, and those after
  /// it go on from there. Copies, and datasets that are made of this one, begin at epoch 0.
  void set_epoch(uint64_t epoch) { next_epoch_ = epoch; }
  /// The epoch that the next `begin` of this object begins.
  uint64_t next_epoch() const;

  /// Loops that haven't begun make their elements in page-locked memory, from which `device` copies by itself
  /// while the thread of the training goes on: for a step that is captured for it (PyTorch: pin_memory). An
  /// element must not be written to after a step took it. Without effect on the CPU, once a loop of this
  /// object was begun, where the system has no such memory, and on tensors that lie elsewhere (rows without
  /// batch(), results of a map). Throws as cuda::gpu.
  void pin_memory(Device device);

  /// Where the iteration stands: after the element that an iterator gave last. Fewer than 100 bytes over
  /// rows; else also what stages hold (a shuffle's buffer, elements made ahead, an error that was met ahead).
  /// Waits for functions of users that are at work (maps, generators), not for an element to be found.
  std::string state();
  /// Goes on from `state`, of a dataset made by the same chain of calls over an equal source: the iterator is
  /// at the next element of that epoch, or at its end. Throws kBadFormat for a damaged or foreign state.
  ///
  /// Over rows, where `shard` is the last stage that acts on the order, the two datasets may be sharded
  /// differently, or one of them not at all. A state that a shard saves after whole blocks then stands for
  /// all shards, each after as many blocks; keep that of shard 0, which is the last to end. The place must be
  /// a multiple of shards * block elements here, or the epoch's end. Throws kInvalidArgument where it isn't,
  /// for a place within a block unless shards and block are equal, and for another sharding over a stream.
  Iterator resume(std::string_view state);

  /// What the pipeline uses; all 0 before the first loop.
  PipelineStats stats() const;
  /// What the chain of calls describes (recipe.h), for datasets made of datasets.
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
  /// Throws what a map function threw, kStale when the dataset was begun again.
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
  /// The same dataset seen as one of elements named "0", "1", ...
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
  /// Of an iterator that is about to go, as in `const auto& [x, y] = *dataset.begin()`.
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

/// Puts the given tensors, numbered, in place of numbered ones.
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
