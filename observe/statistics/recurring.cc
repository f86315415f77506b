#include "isochron/observe/statistics/recurring.h"

#include <algorithm>
#include <cmath>

#include "isochron/core/base/error.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {
namespace {

using Values = std::vector<double>;

/// The windows with long iterations: their addition is at least a third of the mean addition, where each
/// addition is weighted by itself.
std::vector<size_t> events_in(std::span<const double> additions) {
  constexpr double kPart = 1.0 / 3;
  double sum = 0, squares = 0;
  for (const double one : additions) {
    sum += one;
    squares += one * one;
  }
  std::vector<size_t> events;
  if (sum <= 0) return events;
  for (size_t i = 0; i < additions.size(); ++i) {
    if (additions[i] >= kPart * squares / sum) events.push_back(i);
  }
  return events;
}

/// Spreads each event's addition over the windows since the previous event. The intervals at both ends of the
/// series are assumed to be as long as the neighboring interval, or longer if they contain more windows.
Values spread(std::span<const double> additions, std::span<const size_t> events) {
  Values result(additions.size(), 0);
  const auto give = [&](size_t begin, size_t end, double rate) {
    for (size_t i = begin; i < end; ++i) result[i] = rate;
  };
  const size_t first = events.front(), last = events.back(), n = additions.size();
  const size_t first_gap = std::max(first + 1, events[1] - first);
  give(0, first + 1, additions[first] / static_cast<double>(first_gap));
  for (size_t k = 1; k < events.size(); ++k)
    give(events[k - 1] + 1, events[k] + 1,
         additions[events[k]] / static_cast<double>(events[k] - events[k - 1]));
  const size_t last_gap = std::max(n - last, last - events[events.size() - 2]);
  give(last + 1, n, additions[last] / static_cast<double>(last_gap));
  return result;
}

/// The typical values. A window that stalled for most of its iterations gets the median of its neighborhood.
Values without_stalled_windows(std::span<const double> typical) {
  constexpr size_t kReach = 2;      // neighbors on either side
  constexpr double kStalled = 1.5;  // times their median
  Values result(typical.begin(), typical.end());
  for (size_t i = 0; i < typical.size(); ++i) {
    const size_t begin = i - std::min(i, kReach), end = std::min(typical.size(), i + kReach + 1);
    const double usual = median(typical.subspan(begin, end - begin));
    if (typical[i] > kStalled * usual) result[i] = usual;
  }
  return result;
}

}  // namespace

void cut_stalls(Values& values) {
  if (values.size() <= kStalls + 1) return;
  Values descending = values;
  std::ranges::nth_element(descending, descending.begin() + kStalls, std::greater{});
  for (double& one : values) one = std::min(one, descending[kStalls]);
}

Values with_long_iterations_spread(std::span<const double> typical_values, std::span<const double> means) {
  require(typical_values.size() == means.size(), ErrorCode::kShapeMismatch, "with_long_iterations_spread",
          "{} typical values but {} means", typical_values.size(), means.size());
  const size_t n = means.size();
  const Values typical = without_stalled_windows(typical_values);
  Values additions(n);
  for (size_t i = 0; i < n; ++i) additions[i] = means[i] - typical[i];
  if (n <= kStalls + 1) return {means.begin(), means.end()};
  const double usual = quantile(additions, 0.1);
  for (double& one : additions) one -= usual;
  cut_stalls(additions);
  Values positive = additions;
  for (double& one : positive) one = std::max(one, 0.0);
  const std::vector<size_t> events = events_in(positive);
  if (!events.empty()) {  // then long iterations recur, since stalls were cut
    const Values spread_ones = spread(additions, events);
    for (const size_t at : events) additions[at] = 0;
    for (size_t i = 0; i < n; ++i) additions[i] += spread_ones[i];
  }
  Values result(n);
  for (size_t i = 0; i < n; ++i) result[i] = typical[i] + usual + additions[i];
  return result;
}

namespace {

constexpr double kFewestPeriods = 4;
constexpr double kFewPeriods = 8;  // with fewer periods, only a coarse profile is known
constexpr size_t kMaxBinsOfFew = 8, kMaxBins = 32;

/// The mean deviation of the values in each of `bins` parts of a period of 1 / frequency.
struct Folded {
  Values profile;
  double explained = 0;
};

size_t bin_of(size_t i, double frequency, size_t bins) {
  const double cycles = static_cast<double>(i) * frequency;
  return std::min(bins - 1, static_cast<size_t>((cycles - std::floor(cycles)) * static_cast<double>(bins)));
}

Folded fold(std::span<const double> values, double frequency, size_t bins, double total) {
  const double n = static_cast<double>(values.size());
  Values sums(bins, 0), counts(bins, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t bin = bin_of(i, frequency, bins);
    sums[bin] += values[i];
    counts[bin] += 1;
  }
  double between = 0;
  for (size_t bin = 0; bin < bins; ++bin) {
    if (counts[bin] == 0) return {};
    sums[bin] /= counts[bin];
    between += counts[bin] * sums[bin] * sums[bin];
  }
  const double within = std::max(0.0, total - between) / (n - static_cast<double>(bins));
  return {std::move(sums), 1 - within / (total / (n - 1))};
}

}  // namespace

std::optional<Season> find_season(std::span<const double> values) {
  constexpr double kMinExplained = 0.6, kMinExplainedByFew = 0.8;
  constexpr double kAsGood = 0.02;  // within this, a multiple of the period explains no more
  const size_t n = values.size();
  if (static_cast<double>(n) < 2 * kFewestPeriods) return std::nullopt;
  const Line line = theil_sen(values);
  Values around(n);
  for (size_t i = 0; i < n; ++i) around[i] = values[i] - line.intercept - line.slope * static_cast<double>(i);
  const double level = mean(around);
  double total = 0;
  for (double& value : around) {
    value -= level;
    total += value * value;
  }
  const double negligible = 1e-9 * std::fabs(median(values));
  if (total <= negligible * negligible * static_cast<double>(n)) return std::nullopt;
  Season best;
  const double step = 1 / (4 * static_cast<double>(n));
  for (double frequency = 0.5;; frequency -= step) {
    const double periods = frequency * static_cast<double>(n);
    if (periods < kFewestPeriods) break;
    const size_t most = periods < kFewPeriods ? kMaxBinsOfFew : kMaxBins;
    const size_t bins = std::clamp<size_t>(static_cast<size_t>(std::lround(1 / frequency)), 2, most);
    Folded folded = fold(around, frequency, bins, total);
    const double least = periods < kFewPeriods ? kMinExplainedByFew : kMinExplained;
    if (folded.explained < std::max(least, best.explained + kAsGood)) continue;
    best = {1 / frequency, folded.explained, std::move(folded.profile)};
  }
  if (best.windows == 0) return std::nullopt;
  return best;
}

Values without(const Season& season, std::span<const double> values) {
  Values result(values.begin(), values.end());
  for (size_t i = 0; i < result.size(); ++i)
    result[i] -= season.profile[bin_of(i, 1 / season.windows, season.profile.size())];
  return result;
}

}  // namespace isochron::observe
