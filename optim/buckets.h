// Which gradients travel together between ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace isochron::optim {

/// Gradients become known from the last parameter to the first. Each bucket is sent when all its gradients
/// are known. Large buckets need the fewest calls, but the last bucket can't overlap with computation. So a
/// bucket holds at least `most_bytes`, or half of the bytes left to send if that is less: the last buckets
/// become smaller and smaller, down to kLeastBucketBytes. A smaller rest is sent with the bucket before it.
inline constexpr size_t kLeastBucketBytes = size_t{256} << 10;  // 2 ms at 1 Gbit/s

/// `bytes`: of each gradient, in the order of parameters. The index at which each bucket begins, the first
/// one to be sent first: descending, ending with 0. Of no gradients, none.
std::vector<size_t> bucket_begins(std::span<const size_t> bytes, size_t most_bytes);

}  // namespace isochron::optim
