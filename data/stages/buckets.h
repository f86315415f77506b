// Batches of elements of like length, so that little is padded and few shapes occur.
#pragma once

#include <functional>
#include <vector>

#include "isochron/data/pipeline/dataset.h"

namespace isochron::data {

struct BucketOptions {
  /// The longest element of each bucket, ascending. A bucket's batches are padded to it, in every extent that
  /// varies.
  std::vector<int64_t> longest = {};
  /// Elements in a batch of each bucket; one number stands for all.
  std::vector<int64_t> batch_elems = {};
  /// What becomes of the last elements of a bucket: left out, or else filled up with zeros and marked in a
  /// tensor "valid": bool (batch_elems).
  bool drop_remainder = true;
  /// By name, what is put where elements end; else 0.
  std::vector<std::pair<std::string, double>> padding = {};
};

/// Every element goes to the first bucket whose `longest` is no less than its length, and a bucket that is
/// full is a batch; at the end the incomplete ones follow, shortest first. One signature a bucket, all
/// planned beforehand. Throws kInvalidArgument for buckets that aren't ascending, sizes below 1, elements
/// without extents that vary; on delivery kShapeMismatch for an element that is longer than the last bucket.
Dataset bucket_by_sequence_length(const Dataset& dataset, std::function<int64_t(const Element&)> length,
                                  BucketOptions options);

}  // namespace isochron::data
