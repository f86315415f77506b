// Datasets of chosen rows of another one: subsets, folds of a cross-validation, rows drawn by weight.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "isochron/data/pipeline/dataset.h"

namespace isochron::data {

/// The elements of `dataset` at `rows`, in this order (PyTorch's Subset). A row may occur more than once.
/// `dataset` must be over rows: of tensors, files of rows or images, cached, and not shuffled anew in every
/// epoch; call subset before shuffle and batch. The result is over rows, too. Throws kUnsupported for another
/// dataset, kInvalidArgument for no row, kOutOfRange for a row outside [0, dataset.size()).
Dataset subset(const Dataset& dataset, std::vector<int64_t> rows);

/// `count` elements in each epoch, drawn anew and independently of each other, each row with a probability
/// proportional to its weight (PyTorch's WeightedRandomSampler with replacement). They are in random order:
/// no shuffle is needed. The draws are a function of seed and epoch, so a resumed run continues with the same
/// ones. `dataset` as for `subset`. seed: as in ShuffleOptions. Throws like `subset`, and kInvalidArgument
/// unless there is one weight per row, finite and >= 0, and not all are 0, and count >= 1.
Dataset sample_rows(const Dataset& dataset, const std::vector<double>& weights, int64_t count,
                    std::optional<uint64_t> seed = {});

/// For a cross-validation: the rows to train on and those to validate on.
struct Fold {
  std::vector<int64_t> train, validation;
};
/// Divides `rows` rows into `folds` parts, each of which validates once; sizes differ by one at most. With a
/// seed the rows are divided at random; without, in blocks. Rows of a fold ascend. Throws kInvalidArgument
/// unless 2 <= folds <= rows.
std::vector<Fold> k_folds(int64_t rows, int64_t folds, std::optional<uint64_t> seed = {});

template <size_t N>
TupleDataset<N> subset(TupleDataset<N> dataset, std::vector<int64_t> rows) {
  return TupleDataset<N>(subset(dataset.elements(), std::move(rows)));
}
template <size_t N>
TupleDataset<N> sample_rows(TupleDataset<N> dataset, const std::vector<double>& weights, int64_t count,
                            std::optional<uint64_t> seed = {}) {
  return TupleDataset<N>(sample_rows(dataset.elements(), weights, count, seed));
}

}  // namespace isochron::data
