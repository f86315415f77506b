#include "isochron/core/base/seed.h"

#include <mutex>
#include <utility>

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

thread_local const ElementDraws* t_draws = nullptr;
thread_local uint64_t t_elements = 0;

}  // namespace

ElementDraws::ElementDraws(uint64_t stage, uint64_t epoch, uint64_t element)
    : number_(++t_elements), outer_(std::exchange(t_draws, this)) {
  const uint64_t seed = default_seed("map") + epoch;
  const PhiloxBlock block = philox4x32({static_cast<uint32_t>(element), static_cast<uint32_t>(element >> 32),
                                        static_cast<uint32_t>(stage), static_cast<uint32_t>(stage >> 32)},
                                       {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  seed_ = (uint64_t{block[1]} << 32) | block[0];
}
ElementDraws::~ElementDraws() { t_draws = outer_; }
const ElementDraws* ElementDraws::current() { return t_draws; }

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
