#include "isochron/core/base/seed.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>
#include <optional>

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

thread_local std::optional<ProcessSeed> t_seed;  // of threads other than the main thread

/// 64 random bits for a pair of numbers.
uint64_t random_bits(uint64_t seed, uint64_t a, uint64_t b) {
  const PhiloxBlock block = philox4x32({static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32),
                                        static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32)},
                                       {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return (uint64_t{block[1]} << 32) | block[0];
}

}  // namespace

bool is_main_thread() {
  thread_local const bool main = ::syscall(SYS_gettid) == ::getpid();
  return main;
}

bool thread_has_seed() { return t_seed.has_value(); }

ProcessSeed process_seed() {
  if (t_seed) return *t_seed;
  const std::lock_guard lock(holder().mutex);
  return holder().seed;
}

void set_process_seed(uint64_t seed) {
  const std::lock_guard lock(holder().mutex);
  holder().seed = {seed, holder().seed.calls + 1};
  if (!is_main_thread()) t_seed = holder().seed;
}

uint64_t derived_seed(uint64_t seed, std::string_view stream) {
  return random_bits(seed, hash_more(kHashOfNothing, stream), 0);
}

uint64_t default_seed(std::string_view stream) {
  const ProcessSeed seed = process_seed();
  return seed.calls == 0 ? 0 : derived_seed(seed.value, stream);
}

uint64_t ElementDraws::seed() const {
  return random_bits(default_seed("map") + epoch_, element_, stage_ ^ branch_);
}

}  // namespace isochron
