// Batches of elements of similar length, so that there is little padding and there are few shapes.
#pragma once

#include <functional>
#include <vector>

#include "isochron/data/pipeline/dataset.h"

namespace isochron::data {

struct BucketOptions {
  /// The longest element of each bucket, ascending. A bucket's batches are padded to it, in every extent that
  /// varies.
  std::vector<int64_t> longest = {};
  /// The batch size of each bucket; a single number applies to all buckets.
  std::vector<int64_t> batch_elems = {};
  /// Drops the last elements of a bucket that don't fill a batch. False: their batch is filled with
  /// padding, and a tensor "valid": bool (batch_elems) marks the elements.
  bool drop_remainder = true;
  /// By tensor name: the padding value; 0 for tensors not named here.
  std::vector<std::pair<std::string, double>> padding = {};
};

/// Puts every element into the first bucket whose `longest` is at least its length. A full bucket becomes a
/// batch; at the end the incomplete ones follow, shortest first. There is one signature per bucket, all
/// known in advance. Throws kInvalidArgument for buckets that aren't ascending, sizes below 1, and elements
/// without extents that vary; on delivery, kShapeMismatch for an element longer than the last bucket.
Dataset bucket_by_sequence_length(const Dataset& dataset, std::function<int64_t(const Element&)> length,
                                  BucketOptions options);

}  // namespace isochron::data
