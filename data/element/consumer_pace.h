// ConsumerPace: computes how long a loader's worker may sleep if all slots are full, from the rate at which
// the consumer frees them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace isochron::data {

/// Not thread-safe.
class ConsumerPace {
 public:
  static constexpr int64_t kLongestNapNs = 100'000'000;

  /// Called when a worker finds no free slot at `now_ns`; `freed`: the number of slots freed since the start.
  /// Returns the expected time until half of the `slots` are free. Returns nullopt if the pace isn't known
  /// yet; the consumer must then wake the worker.
  std::optional<int64_t> nap_ns(int64_t now_ns, uint64_t freed, size_t slots) {
    if (freed > freed_) {
      if (began_ns_ > 0) {
        const int64_t latest = (now_ns - began_ns_) / static_cast<int64_t>(freed - freed_);
        slot_ns_ = slot_ns_ > 0 ? std::min(latest, 2 * slot_ns_) : latest;  // limits the effect of a pause
      }
      began_ns_ = now_ns;
      freed_ = freed;
    }
    if (slot_ns_ == 0) return std::nullopt;
    const int64_t half = static_cast<int64_t>(std::max<size_t>(1, slots / 2)) * slot_ns_;
    return std::min(half, kLongestNapNs);
  }
  /// The length of the next nap if no slot was free after a nap of `nap_ns`: twice as long, up to the
  /// longest; nullopt after the longest.
  std::optional<int64_t> next_nap_ns(int64_t nap_ns) const {
    if (nap_ns >= kLongestNapNs) return std::nullopt;
    return std::min(2 * nap_ns, kLongestNapNs);
  }

 private:
  int64_t began_ns_ = 0;  // when a worker last found no free slot
  uint64_t freed_ = 0;
  int64_t slot_ns_ = 0;
};

}  // namespace isochron::data
