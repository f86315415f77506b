#include "isochron/optim/buckets.h"

#include <algorithm>
#include <numeric>

namespace isochron::optim {

std::vector<size_t> bucket_begins(std::span<const size_t> bytes, size_t most_bytes) {
  const size_t least_bytes = std::min(kMinBucketBytes, most_bytes);
  size_t left = std::accumulate(bytes.begin(), bytes.end(), size_t{0});  // not in a closed bucket
  std::vector<size_t> begins;
  size_t bucket = 0;
  for (size_t i = bytes.size(); i-- > 0;) {
    bucket += bytes[i];
    const size_t rest = left - bucket;
    const bool full = bucket >= std::clamp(left / 2, least_bytes, most_bytes);
    if ((!full || rest < least_bytes) && i > 0) continue;
    begins.push_back(i);
    left = rest;
    bucket = 0;
  }
  return begins;
}

}  // namespace isochron::optim
