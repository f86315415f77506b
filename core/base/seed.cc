#include "isochron/core/base/seed.h"

#include <mutex>

#include "isochron/core/base/hash.h"
#include "isochron/core/base/rng.h"

namespace isochron {
namespace {

struct Holder {
  std::mutex mutex;
  ProcessSeed seed;
};
Holder& holder() {
  static Holder instance;
  return instance;
}

}  // namespace

uint64_t ElementDraws::seed() const {
  const uint64_t seed = default_seed("map") + epoch_;
  const PhiloxBlock block =
      philox4x32({static_cast<uint32_t>(element_), static_cast<uint32_t>(element_ >> 32),
                  static_cast<uint32_t>(stage_), static_cast<uint32_t>(stage_ >> 32)},
                 {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return (uint64_t{block[1]} << 32) | block[0];
}

ProcessSeed process_seed() {
  const std::lock_guard lock(holder().mutex);
  return holder().seed;
}

void set_process_seed(uint64_t seed) {
  const std::lock_guard lock(holder().mutex);
  holder().seed = {seed, holder().seed.calls + 1};
}

uint64_t derived_seed(uint64_t seed, std::string_view stream) {
  const uint64_t name = hash_more(kHashOfNothing, stream);
  const PhiloxBlock block = philox4x32({static_cast<uint32_t>(name), static_cast<uint32_t>(name >> 32), 0, 0},
                                       {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return (uint64_t{block[1]} << 32) | block[0];
}

uint64_t default_seed(std::string_view stream) {
  const ProcessSeed seed = process_seed();
  return seed.calls == 0 ? 0 : derived_seed(seed.value, stream);
}

}  // namespace isochron
