#include "flatness_peers.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "isochron/core/base/rng.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::bench {
namespace {

using observe::mean;

double relative_change(double before, double after) { return std::fabs(after / before - 1); }

struct Split {
  size_t at = 0;
  double statistic = -1;
};

/// The split with the largest energy distance between the values before and after it. As the split moves, the
/// sums over pairs within each side and across the split are updated.
Split best_split(std::span<const double> values) {
  const size_t n = values.size();
  const auto distance_sum = [&](double value, size_t begin, size_t end) {
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += std::fabs(value - values[i]);
    return sum;
  };
  double before = 0, after = 0, across = 0;
  for (size_t i = 0; i < n; ++i) after += distance_sum(values[i], i + 1, n);
  Split best;
  for (size_t at = 1; at + 1 < n; ++at) {  // values[at - 1] moves to the first side
    const double to_before = distance_sum(values[at - 1], 0, at - 1);
    const double to_after = distance_sum(values[at - 1], at, n);
    before += to_before;
    after -= to_after;
    across += to_after - to_before;
    const double a = static_cast<double>(at), b = static_cast<double>(n - at);
    if (at < 2 || b < 2) continue;
    const double energy = 2 * across / (a * b) - 2 * before / (a * (a - 1)) - 2 * after / (b * (b - 1));
    const double statistic = a * b / (a + b) * energy;
    if (statistic > best.statistic) best = {at, statistic};
  }
  return best;
}

}  // namespace

bool tenths_differ(std::span<const double> values, double bound) {
  const size_t tenth = std::max<size_t>(1, values.size() / 10);
  return relative_change(mean(values.first(tenth)), mean(values.last(tenth))) > bound;
}

bool mann_kendall_alarms(std::span<const double> values) {
  return observe::mann_kendall(values).plain_p_value < 0.05;
}

bool energy_change_point(std::span<const double> values, double bound, uint64_t seed) {
  constexpr int kPermutations = 199;
  const Split found = best_split(values);
  if (found.at == 0 || relative_change(mean(values.first(found.at)), mean(values.subspan(found.at))) <= bound)
    return false;
  Rng rng(seed, 0xED1);
  std::vector<double> shuffled(values.begin(), values.end());
  int as_large = 0;
  for (int k = 0; k < kPermutations; ++k) {
    for (size_t i = shuffled.size(); i-- > 1;)
      std::swap(shuffled[i], shuffled[static_cast<size_t>(rng.uniform() * static_cast<double>(i + 1))]);
    as_large += best_split(shuffled).statistic >= found.statistic;
  }
  return as_large + 1 <= 0.05 * (kPermutations + 1);
}

}  // namespace isochron::bench
