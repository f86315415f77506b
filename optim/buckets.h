// Which gradients travel together between ranks.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace isochron::optim {

/// Gradients become known from the last parameter to the first, and each bucket is sent when all of its own
/// are. A large one costs fewest calls, but what is sent last has no computation left to hide behind: so a
/// bucket holds at least `most_bytes`, or half of what is left to send where that is less, and the last ones
/// become smaller and smaller, down to kLeastBucketBytes. What would be less is sent with the bucket before.
inline constexpr size_t kLeastBucketBytes = size_t{256} << 10;  // 2 ms at 1 Gbit/s

/// `bytes`: of each gradient, in the order of parameters. The index at which each bucket begins, the first
/// one to be sent first: descending, ending with 0. Of no gradients, none.
std::vector<size_t> bucket_begins(std::span<const size_t> bytes, size_t most_bytes);

}  // namespace isochron::optim
