#include "isochron/observe/statistics/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>

#include "isochron/core/base/error.h"

namespace isochron::observe {
namespace {

void require_values(std::span<const double> values, size_t at_least, std::string_view where) {
  require(values.size() >= at_least, ErrorCode::kInvalidArgument, where, "needs at least {} values, got {}",
          at_least, values.size());
}

double two_sided_p(double z) { return std::erfc(std::fabs(z) / std::sqrt(2.0)); }

/// The median of `values`, which are reordered.
double median_in_place(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

std::vector<double> sorted(std::span<const double> values) {
  std::vector<double> result(values.begin(), values.end());
  std::sort(result.begin(), result.end());
  return result;
}

double quantile_of_sorted(std::span<const double> values, double fraction) {
  const double position = fraction * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], position - static_cast<double>(below));
}

/// Variance of Mann-Kendall's S for n independent values whose ranks may tie.
double kendall_variance(std::span<const double> values) {
  const auto term = [](double n) { return n * (n - 1) * (2 * n + 5); };
  double variance = term(static_cast<double>(values.size()));
  const std::vector<double> order = sorted(values);
  for (auto group = order.begin(); group != order.end();) {
    const auto end = std::upper_bound(group, order.end(), *group);
    variance -= term(static_cast<double>(end - group));
    group = end;
  }
  return variance / 18;
}

/// Hamed and Rao's factor n/n*: the effect of dependence on the variance of S.
double hamed_rao_factor(std::span<const double> values, double slope) {
  std::vector<double> detrended(values.begin(), values.end());
  for (size_t i = 0; i < detrended.size(); ++i) detrended[i] -= slope * static_cast<double>(i);
  const std::vector<double> rank = ranks(detrended);
  const double n = static_cast<double>(values.size());
  const double significant = 1.96 / std::sqrt(n);
  double sum = 0;
  for (int lag = 1; lag + 2 < static_cast<int>(n); ++lag) {
    const double rho = autocorrelation(rank, lag);
    if (std::fabs(rho) <= significant) break;  // larger lags would be significant only by chance
    sum += (n - lag) * (n - lag - 1) * (n - lag - 2) * rho;
  }
  // Negative sums would give less variance than perfectly regular noise has; the lower limit prevents that.
  return std::max(0.1, 1 + 2 * sum / (n * (n - 1) * (n - 2)));
}

/// The number of iterations in the largest residue class modulo `length`.
size_t largest_residue_class(std::span<const int64_t> iterations, int64_t length) {
  std::map<int64_t, size_t> classes;
  size_t largest = 0;
  for (int64_t iteration : iterations) largest = std::max(largest, ++classes[iteration % length]);
  return largest;
}

/// Upper bound (Chernoff) of the chance that `hits` or more of `count` fall into one given class of
/// probability `p`.
double chance_of(size_t hits, size_t count, double p) {
  const double share = static_cast<double>(hits) / static_cast<double>(count);
  if (share <= p) return 1;
  double divergence = share * std::log(share / p);
  if (share < 1) divergence += (1 - share) * std::log((1 - share) / (1 - p));
  return std::exp(-static_cast<double>(count) * divergence);
}

}  // namespace

double mean(std::span<const double> values) {
  require_values(values, 1, "mean");
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::span<const double> values) {
  require_values(values, 1, "median");
  std::vector<double> copy(values.begin(), values.end());
  return median_in_place(copy);
}

double quantile(std::span<const double> values, double fraction) {
  require_values(values, 1, "quantile");
  require(fraction >= 0 && fraction <= 1, ErrorCode::kOutOfRange, "quantile", "fraction {} is not in [0, 1]",
          fraction);
  return quantile_of_sorted(sorted(values), fraction);
}

double trimmed_mean(std::span<const double> values, double part) {
  require_values(values, 1, "trimmed_mean");
  require(part >= 0 && part < 0.5, ErrorCode::kOutOfRange, "trimmed_mean", "part {}, expected [0, 0.5)",
          part);
  std::vector<double> order = sorted(values);
  const auto cut = static_cast<size_t>(part * static_cast<double>(order.size()));
  return mean(std::span<const double>(order).subspan(cut, order.size() - 2 * cut));
}

std::vector<double> ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double shared = 0.5 * static_cast<double>(begin + 1 + end);
    for (; begin < end; ++begin) result[order[begin]] = shared;
  }
  return result;
}

double autocorrelation(std::span<const double> values, int lag) {
  require_values(values, 1, "autocorrelation");
  require(lag >= 0, ErrorCode::kOutOfRange, "autocorrelation", "lag {} is negative", lag);
  const double center = mean(values);
  double variance = 0;
  double covariance = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    variance += (values[i] - center) * (values[i] - center);
    const size_t later = i + static_cast<size_t>(lag);
    if (later < values.size()) covariance += (values[i] - center) * (values[later] - center);
  }
  return variance > 0 ? covariance / variance : 0;
}

double theil_sen_slope(std::span<const double> values, std::vector<double>& scratch) {
  if (values.size() < 2) return 0;
  scratch.resize(values.size() * (values.size() - 1) / 2);
  double* next = scratch.data();
  for (size_t distance = 1; distance < values.size(); ++distance) {
    const double inverse = 1.0 / static_cast<double>(distance);
    for (size_t i = 0; i + distance < values.size(); ++i)
      *next++ = (values[i + distance] - values[i]) * inverse;
  }
  return median_in_place(scratch);
}

Line theil_sen(std::span<const double> values) {
  require_values(values, 1, "theil_sen");
  std::vector<double> scratch;
  const double slope = theil_sen_slope(values, scratch);
  scratch.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) scratch[i] = values[i] - slope * static_cast<double>(i);
  return {slope, median_in_place(scratch)};
}

double least_squares_slope(std::span<const double> values) {
  const double n = static_cast<double>(values.size());
  if (values.size() < 2) return 0;
  const double middle = (n - 1) / 2;
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += (static_cast<double>(i) - middle) * values[i];
  return sum / (n * (n * n - 1) / 12);
}

MannKendall mann_kendall(std::span<const double> values) {
  require_values(values, 4, "mann_kendall");
  int64_t score = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t j = i + 1; j < values.size(); ++j) score += (values[j] > values[i]) - (values[j] < values[i]);
  }
  const double n = static_cast<double>(values.size());
  const double s = static_cast<double>(score);
  const double variance = kendall_variance(values);
  MannKendall result;
  result.tau = s / (0.5 * n * (n - 1));
  if (variance <= 0 || score == 0) return result;
  const double continuous = s > 0 ? s - 1 : s + 1;
  std::vector<double> scratch;
  const double factor = hamed_rao_factor(values, theil_sen_slope(values, scratch));
  result.z = continuous / std::sqrt(variance * factor);
  result.p_value = two_sided_p(result.z);
  result.plain_p_value = two_sided_p(continuous / std::sqrt(variance));
  return result;
}

ChangePoint pettitt(std::span<const double> values, int margin) {
  require(margin >= 1, ErrorCode::kInvalidArgument, "pettitt", "margin {} is below 1", margin);
  require_values(values, 2 * static_cast<size_t>(margin), "pettitt");
  const std::vector<double> rank = ranks(values);
  const double n = static_cast<double>(values.size());
  ChangePoint result;
  result.index = static_cast<int>(values.size() / 2);
  double sum = 0;
  for (int k = 1; k + margin <= static_cast<int>(values.size()); ++k) {
    sum += rank[static_cast<size_t>(k - 1)];
    const double u = std::fabs(2 * sum - k * (n + 1));
    if (k < margin || u <= result.statistic) continue;
    result.index = k;
    result.statistic = u;
  }
  result.p_value =
      std::min(1.0, 2 * std::exp(-6 * result.statistic * result.statistic / (n * n * n + n * n)));
  return result;
}

int block_length(std::span<const double> residuals) {
  require_values(residuals, 1, "block_length");
  const double n = static_cast<double>(residuals.size());
  const double rho = std::clamp(autocorrelation(residuals, 1), 0.0, 0.97);
  const double spectrum = 6 * rho * rho / ((1 - rho * rho) * (1 - rho * rho));
  const double length = std::cbrt(std::max(1.0, spectrum) * n);
  return std::max(1, static_cast<int>(std::min(std::ceil(length), n / 4)));
}

void draw_circular_blocks(std::span<int> indices, int block, Rng& rng) {
  const size_t n = indices.size();
  for (size_t filled = 0; filled < n;) {
    size_t index = rng.below(n);
    for (int i = 0; i < block && filled < n; ++i, ++filled) {
      indices[filled] = static_cast<int>(index);
      if (++index == n) index = 0;
    }
  }
}

Interval bootstrap_interval(std::span<const double> values,
                            const std::function<double(std::span<const double>)>& statistic,
                            const BootstrapOptions& options) {
  require_values(values, 2, "bootstrap_interval");
  require(options.replicates >= 1 && options.confidence > 0 && options.confidence < 1,
          ErrorCode::kInvalidArgument, "bootstrap_interval",
          "needs replicates >= 1 and confidence in (0, 1), got {} and {}", options.replicates,
          options.confidence);
  const double estimate = statistic(values);
  const int block = block_length(values);
  Rng rng(options.seed);
  std::vector<int> indices(values.size());
  std::vector<double> drawn(values.size());
  std::vector<double> replicates;
  for (int r = 0; r < options.replicates; ++r) {
    draw_circular_blocks(indices, block, rng);
    for (size_t i = 0; i < drawn.size(); ++i) drawn[i] = values[static_cast<size_t>(indices[i])];
    replicates.push_back(statistic(drawn));
  }
  std::sort(replicates.begin(), replicates.end());
  const double tail = 0.5 * (1 - options.confidence);
  return {2 * estimate - quantile_of_sorted(replicates, 1 - tail),
          2 * estimate - quantile_of_sorted(replicates, tail)};
}

double student_quantile(double confidence, int degrees) {
  require(confidence > 0 && confidence < 1 && degrees >= 1, ErrorCode::kInvalidArgument, "student_quantile",
          "needs a confidence in (0, 1) and degrees of freedom >= 1, got {} and {}", confidence, degrees);
  const auto within = [degrees](double t) {
    const double angle = std::atan(t / std::sqrt(degrees)), cosine = std::cos(angle);
    const bool odd = degrees % 2 == 1;
    double term = odd ? cosine : 1, sum = degrees == 1 ? 0 : term;
    for (int k = odd ? 2 : 1; k < degrees - 2; k += 2) {
      term *= cosine * cosine * k / (k + 1);
      sum += term;
    }
    return odd ? 2 / std::numbers::pi * (angle + std::sin(angle) * sum) : std::sin(angle) * sum;
  };
  double low = 0, high = 1;
  while (within(high) < confidence) high *= 2;
  while (high - low > 1e-10 * high) {
    const double middle = low + 0.5 * (high - low);
    (within(middle) < confidence ? low : high) = middle;
  }
  return high;
}

std::optional<Period> find_period(std::span<const int64_t> iterations) {
  constexpr size_t kNeighbors = 3;
  constexpr size_t kMin = 4;
  if (iterations.size() < kMin) return std::nullopt;
  std::map<int64_t, size_t> gaps;  // length -> number of occurrences
  for (size_t i = 0; i < iterations.size(); ++i) {
    for (size_t j = i + 1; j < std::min(i + 1 + kNeighbors, iterations.size()); ++j) {
      if (iterations[j] - iterations[i] >= 2) ++gaps[iterations[j] - iterations[i]];
    }
  }
  std::optional<Period> best;
  for (const auto& [length, seen] : gaps) {
    if (seen < kMin - 1) continue;
    const size_t hits = largest_residue_class(iterations, length);
    const double beats = static_cast<double>((iterations.back() - iterations.front()) / length + 1);
    const Period period{length, static_cast<double>(hits) / static_cast<double>(iterations.size()),
                        static_cast<double>(hits) / beats};
    const double tried = static_cast<double>(length) * static_cast<double>(gaps.size());
    const bool chance = tried * chance_of(hits, iterations.size(), 1.0 / static_cast<double>(length)) > 1e-3;
    if (hits < kMin || period.share < 0.5 || period.coverage < 0.5 || chance) continue;
    if (!best || period.share * period.coverage > best->share * best->coverage) best = period;
  }
  return best;
}

}  // namespace isochron::observe
