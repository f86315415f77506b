// Datasets of several datasets.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/data/pipeline/dataset.h"

namespace isochron::data {

/// Joins the elements of `datasets`, the first with the first and so on, until one dataset ends. A dataset of
/// one tensor contributes it under the given name; a dataset of several contributes them as "name/tensor".
/// The result is over rows if all datasets are. Its elements are then made by as many threads as the most
/// parallel dataset has, and as far ahead as in the dataset that prefetches most. They come in order if at
/// least one dataset keeps its order. If the result is a stream, each dataset keeps its own threads. Throws
/// kInvalidArgument for no dataset, repeated names or too many tensors.
Dataset zip(std::initializer_list<std::pair<std::string_view, Dataset>> datasets);

/// The elements of `first`, then those of `second`. The result is over rows if both datasets are and have
/// one signature; its threads are then as for `zip`. Throws kInvalidArgument for different names, dtypes or
/// ranks, or if `first` is endless.
Dataset concatenate(const Dataset& first, const Dataset& second);

struct SampleOptions {
  /// None: as in ShuffleOptions.
  std::optional<uint64_t> seed = {};
  /// True: the dataset ends when one of the datasets ends. False: it continues with the remaining ones.
  bool stop_on_empty_dataset = false;
};
/// Takes each element from a dataset that is drawn with a probability proportional to its weight. Throws
/// kInvalidArgument for no dataset; for weights that aren't one per dataset, or are negative, not finite or
/// all 0; and for elements of different names, dtypes or ranks.
Dataset sample_from_datasets(const std::vector<Dataset>& datasets, const std::vector<double>& weights,
                             SampleOptions options = {});

/// Writes all tensors of the next element through `buffer.room` or `buffer.copy`; false at the end.
using Generator = std::function<bool(class ElementBuffer& buffer)>;
/// The elements of generators: `make` returns a new generator for an epoch. `signature` and `names` are those
/// of every element; extents may be kAnyExtent. A generator's state can't be saved, so resuming runs a
/// generator up to the saved position. Throws kInvalidArgument if `names` and `signature` don't match;
/// iterators throw it if the generator hasn't written every tensor of an element. An exception from a
/// generator is reported with epoch and element, as in map().
Dataset from_generator(std::vector<std::string> names, Signature signature,
                       std::function<Generator(uint64_t epoch)> make);

}  // namespace isochron::data
