#include "isochron/observe/record/rank_series.h"

#include <algorithm>

namespace isochron::observe {

void RankWindow::add(const RankWindow& newer) {
  last_iteration = newer.last_iteration;
  updates += newer.updates;
  longest_ns += newer.longest_ns;
  communication_ns += newer.communication_ns;
  for (size_t r = 0; r < ranks.size(); ++r) ranks[r].add(newer.ranks[r]);
}

RankSeries::RankSeries(int own, int ranks) : own_(own), ranks_(ranks), windows_(kMaxWindows) {
  for (RankWindow& window : windows_) window.ranks.resize(static_cast<size_t>(ranks));
}

void RankSeries::add(int64_t iteration, std::span<const RankTimes> times, int64_t communication_ns) {
  if (windows_.empty() || times.size() != static_cast<size_t>(ranks_)) return;
  if (used_ == 0 || windows_[used_ - 1].updates == length_) {
    if (used_ == kMaxWindows) merge_pairs();
    RankWindow& fresh = windows_[used_++];
    fresh.first_iteration = iteration;
    fresh.updates = fresh.longest_ns = fresh.communication_ns = 0;
    std::ranges::fill(fresh.ranks, RankTimes{});
  }
  RankWindow& window = windows_[used_ - 1];
  window.last_iteration = iteration;
  ++window.updates;
  int64_t longest = 0;
  for (size_t r = 0; r < times.size(); ++r) {
    window.ranks[r].add(times[r]);
    longest = std::max(longest, times[r].work_ns);
  }
  window.longest_ns += longest;
  window.communication_ns += communication_ns;
}

void RankSeries::merge_pairs() {
  for (size_t i = 0; i + 1 < used_; i += 2) {
    RankWindow& to = windows_[i / 2];
    if (i > 0) std::swap(to, windows_[i]);
    to.add(windows_[i + 1]);
  }
  used_ /= 2;
  length_ *= 2;
}

void RankSeries::clear() {
  used_ = 0;
  length_ = 1;
}

std::vector<RankWindow> RankSeries::windows() const {
  const bool open = used_ > 1 && windows_[used_ - 1].updates < length_;
  return {windows_.begin(), windows_.begin() + static_cast<std::ptrdiff_t>(used_ - (open ? 1 : 0))};
}

size_t RankSeries::bytes() const {
  return windows_.capacity() * (sizeof(RankWindow) + static_cast<size_t>(ranks_) * sizeof(RankTimes));
}

}  // namespace isochron::observe
