#include "isochron/observe/machine_speed.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "isochron/observe/statistics.h"

namespace isochron::observe {
namespace {

constexpr double kWandering =
    1.05;  // times the usual, by the clock's frequency: beyond, somebody else had the core for a part of it
constexpr double kLost = 1.15;  // and for so long that no correction is good enough
constexpr double kMostExponent = 2;
constexpr size_t kMostApart = 4;  // beyond a window in which a disturbance began or ended

/// The kernel's level on the quiet machine, provided it was quiet for a quarter of the run.
double usual(std::span<const double> reference) { return quantile(reference, 0.25); }

/// Logarithms of the ratios of values so many windows apart, less their median, which is the trend's.
std::vector<double> changes(std::span<const double> values, size_t apart) {
  std::vector<double> result;
  for (size_t i = apart; i < values.size(); ++i) result.push_back(std::log(values[i] / values[i - apart]));
  if (result.empty()) return result;
  const double trend = median(result);
  for (double& change : result) change -= trend;
  return result;
}

/// The exponent that takes the kernel's changes to the series', among the pairs of which one is disturbed, or
/// among the others: the median of the pairs' exponents, weighted by the square of what the kernel changed.
/// Nothing where it changed by no more than `least_change` (a logarithm) between any.
std::optional<double> exponent(std::span<const double> values, std::span<const double> reference,
                               bool disturbed, double least_change) {
  struct Pair {
    double exponent;
    double weight;
  };
  const double limit = kWandering * usual(reference);
  std::vector<Pair> pairs;
  double total = 0;
  for (size_t apart = 1; apart <= kMostApart; ++apart) {
    const std::vector<double> machine = changes(reference, apart);
    const std::vector<double> series = changes(values, apart);
    for (size_t i = 0; i < machine.size(); ++i) {
      if ((std::max(reference[i], reference[i + apart]) > limit) != disturbed) continue;
      if (std::fabs(machine[i]) <= least_change) continue;
      pairs.push_back({series[i] / machine[i], machine[i] * machine[i]});
      total += machine[i] * machine[i];
    }
  }
  std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.exponent < b.exponent; });
  double below = 0;
  for (const Pair& pair : pairs) {
    below += pair.weight;
    if (2 * below >= total) return std::clamp(pair.exponent, 0.0, kMostExponent);
  }
  return std::nullopt;
}

bool all_positive(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return value > 0; });
}

}  // namespace

std::vector<double> at_even_speed(std::span<const double> values, std::span<const double> reference,
                                  double least) {
  std::vector<double> result(values.begin(), values.end());
  if (values.empty() || !all_positive(values) || !all_positive(reference)) return result;
  // Small changes always show an exponent, if only noise's near 0; that they are steady is what hides them.
  const double wandering = std::max(least, exponent(values, reference, false, 0).value_or(least));
  const double telling = std::log(least > 0 ? kLost : kWandering);
  const double disturbed = exponent(values, reference, true, telling).value_or(wandering);
  const double level = usual(reference);
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] *= std::pow(level / reference[i], reference[i] > kWandering * level ? disturbed : wandering);
  }
  return result;
}

std::vector<size_t> undisturbed(std::span<const double> reference) {
  constexpr size_t kParts = 10;
  const size_t n = reference.size();
  std::vector<size_t> kept;
  if (n == 0) return kept;
  const double limit = kLost * usual(reference);
  const auto quiet = [&](size_t i) { return reference[i] <= limit; };
  for (size_t part = 0; part < kParts; ++part) {
    const size_t begin = part * n / kParts;
    const size_t end = (part + 1) * n / kParts;
    size_t quiet_ones = 0;
    for (size_t i = begin; i < end; ++i) quiet_ones += quiet(i);
    const bool at_an_end = part == 0 || part + 1 == kParts;
    const bool enough = !at_an_end || 4 * quiet_ones >= end - begin;
    for (size_t i = begin; i < end; ++i) {
      if (!enough || quiet(i)) kept.push_back(i);
    }
  }
  if (3 * kept.size() >= n) return kept;
  kept.resize(n);
  std::iota(kept.begin(), kept.end(), size_t{0});
  return kept;
}

}  // namespace isochron::observe
