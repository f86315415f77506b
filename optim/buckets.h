// Groups gradients into the buckets that ranks exchange.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace isochron::optim {

/// Gradients are computed from the last parameter to the first. Each bucket is sent when all its gradients
/// are available. Large buckets need the fewest calls, but the last bucket can't overlap with computation. So
/// a bucket holds at least `most_bytes`, or half of the bytes left to send if that is less: the last buckets
/// become smaller and smaller, down to kMinBucketBytes. A smaller remainder is sent with the bucket before
/// it.
inline constexpr size_t kMinBucketBytes = size_t{256} << 10;  // 2 ms at 1 Gbit/s

/// `bytes`: the size of each gradient, in the order of parameters. Returns the index at which each bucket
/// begins, in the order of sending, so the indices descend and end with 0. Returns no indices if there are no
/// gradients.
std::vector<size_t> bucket_begins(std::span<const size_t> bytes, size_t most_bytes);

}  // namespace isochron::optim
