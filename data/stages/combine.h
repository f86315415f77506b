// Datasets of several datasets.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/data/pipeline/dataset.h"

namespace isochron::data {

/// Elements that join those of `datasets`, the first with the first and so on, until one ends. A dataset of
/// one tensor gives it under the name given; one of several gives them as "name/tensor". Over rows where all
/// are: its elements are then made by as many threads as the most parallel of the datasets, as far ahead as
/// the one that prefetches most, and in order unless none of them keeps it. Elsewhere each dataset keeps
/// threads of its own. Throws kInvalidArgument: no dataset, repeated names, too many tensors.
Dataset zip(std::initializer_list<std::pair<std::string_view, Dataset>> datasets);

/// The elements of `first`, then those of `second`. Over rows where both are and have one signature, made by
/// threads as `zip` says. Throws kInvalidArgument for different names, dtypes or ranks, or a first one
/// without end.
Dataset concatenate(const Dataset& first, const Dataset& second);

struct SampleOptions {
  /// None: as in ShuffleOptions.
  std::optional<uint64_t> seed = {};
  /// Ends when the first of the datasets ends; else goes on with those that are left.
  bool stop_on_empty_dataset = false;
};
/// Every element is the next one of a dataset that is drawn with a probability in proportion to its weight.
/// Throws kInvalidArgument: no dataset, weights of another number, below 0, not finite or all 0; elements of
/// different names, dtypes or ranks.
Dataset sample_from_datasets(const std::vector<Dataset>& datasets, const std::vector<double>& weights,
                             SampleOptions options = {});

/// Writes the next element through `buffer.room`; false at the end.
using Generator = std::function<bool(class ElementBuffer& buffer)>;
/// The elements of generators: `make` gives one that begins anew, for an epoch. `signature` and `names` are
/// those of every element; extents may be kAnyExtent. A generator's state can't be saved, so resuming runs
/// one up to the place. Throws kInvalidArgument for names and a signature that don't fit.
Dataset from_generator(std::vector<std::string> names, Signature signature,
                       std::function<Generator(uint64_t epoch)> make);

}  // namespace isochron::data
