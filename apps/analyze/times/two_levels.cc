#include "isochron/apps/analyze/times/two_levels.h"

#include <algorithm>
#include <cmath>

namespace isochron::apps {
namespace {

constexpr size_t kFewest = 64;
constexpr size_t kMinShare = 16;   // a level has at least one in this many times
constexpr double kMinRatio = 1.2;  // of the shortest longer time to the longest shorter time
constexpr size_t kBlocks = 8;
constexpr double kMinOfShare = 0.5, kMaxOfShare = 1.8;  // a block's share of longer times over the run's

double ratio(double a, double b) { return std::log(a / b); }

/// The index of the first time after the widest gap in `sorted` that leaves enough times on both sides.
size_t widest_gap(std::span<const double> sorted) {
  const size_t n = sorted.size(), margin = (n + kMinShare - 1) / kMinShare;
  size_t best = margin;
  for (size_t i = margin; i <= n - margin; ++i) {
    if (ratio(sorted[i], sorted[i - 1]) > ratio(sorted[best], sorted[best - 1])) best = i;
  }
  return best;
}

/// The spread of the middle four fifths of a level, as the logarithm of a ratio.
double spread(std::span<const double> sorted) {
  const size_t tenth = sorted.size() / 10;
  return ratio(sorted[sorted.size() - 1 - tenth], sorted[tenth]);
}

bool share_stays(std::span<const double> ns, double least_longer, size_t longer) {
  const size_t n = ns.size();
  const double share = static_cast<double>(longer) / static_cast<double>(n);
  for (size_t block = 0; block < kBlocks; ++block) {
    const size_t begin = n * block / kBlocks, end = n * (block + 1) / kBlocks;
    const auto count = std::ranges::count_if(ns.subspan(begin, end - begin),
                                             [&](double one) { return one >= least_longer; });
    const double part = static_cast<double>(count) / static_cast<double>(end - begin) / share;
    if (part < kMinOfShare || part > kMaxOfShare) return false;
  }
  return true;
}

}  // namespace

std::optional<TwoLevels> two_levels(std::span<const double> ns) {
  if (ns.size() < kFewest) return std::nullopt;
  std::vector<double> sorted(ns.begin(), ns.end());
  std::ranges::sort(sorted);
  if (sorted.front() <= 0) return std::nullopt;
  const size_t at = widest_gap(sorted);
  const std::span<const double> shorter = std::span(sorted).first(at), longer = std::span(sorted).subspan(at);
  const double gap = ratio(longer.front(), shorter.back());
  if (gap < std::log(kMinRatio) || gap < spread(shorter) || gap < spread(longer)) return std::nullopt;
  if (!share_stays(ns, longer.front(), longer.size())) return std::nullopt;
  TwoLevels levels;
  for (const double one : ns) (one < longer.front() ? levels.shorter : levels.longer).push_back(one);
  return levels;
}

}  // namespace isochron::apps
