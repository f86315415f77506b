#include "isochron/comm/group/rank_notes.h"

#include <algorithm>
#include <cstring>

#include "isochron/core/base/clock.h"

namespace isochron::comm {

RankNotes::RankNotes(int rank, int ranks)
    : rank_(static_cast<size_t>(rank)), all_(static_cast<size_t>(ranks)), ended_ns_(now_ns()) {}

int64_t RankNotes::requests() const {
  return std::ranges::count_if(all_, [](const RankNote& note) { return note.request > 0; });
}

void RankNotes::write(std::byte* to, int64_t waited_ns) {
  std::memset(to, 0, bytes());
  const int64_t work_ns = std::max<int64_t>(0, now_ns() - ended_ns_ - (waited_ns - waited_ns_));
  const RankNote own{asked_ ? 1.0 : 0.0, static_cast<double>(work_ns), static_cast<double>(input_ns_)};
  std::memcpy(to + rank_ * sizeof(RankNote), &own, sizeof(own));
  input_ns_ = 0;
}

void RankNotes::read(const std::byte* sums, int64_t waited_ns) {
  std::memcpy(all_.data(), sums, bytes());
  ++exchanges_;
  ended_ns_ = now_ns();
  exposed_ns_ = waited_ns - waited_ns_;
  waited_ns_ = waited_ns;
  const auto longest = std::ranges::max_element(all_, {}, &RankNote::work_ns);
  rank_wait_ns_ = std::min(exposed_ns_, static_cast<int64_t>(longest->work_ns - all_[rank_].work_ns));
}

}  // namespace isochron::comm
