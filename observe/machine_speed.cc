#include "isochron/observe/machine_speed.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "isochron/observe/statistics.h"

namespace isochron::observe {
namespace {

constexpr double kDisturbed = 1.15;  // times the usual: beyond, the clock frequency alone is no explanation
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
/// Nothing where no pair tells.
std::optional<double> exponent(std::span<const double> values, std::span<const double> reference,
                               bool disturbed) {
  struct Pair {
    double exponent;
    double weight;
  };
  const double limit = kDisturbed * usual(reference);
  const double least_change = disturbed ? std::log(kDisturbed) : 0;
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
  const double wandering = std::max(least, exponent(values, reference, false).value_or(least));
  const double disturbed = exponent(values, reference, true).value_or(wandering);
  const double level = usual(reference);
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] *= std::pow(level / reference[i], reference[i] > kDisturbed * level ? disturbed : wandering);
  }
  return result;
}

std::vector<size_t> undisturbed(std::span<const double> reference) {
  constexpr size_t kParts = 10;
  std::vector<size_t> kept;
  if (reference.empty()) return kept;
  const size_t n = reference.size();
  const double limit = kDisturbed * usual(reference);
  for (size_t part = 0; part < kParts; ++part) {
    const size_t begin = part * n / kParts;
    const size_t end = (part + 1) * n / kParts;
    size_t disturbed = 0;
    for (size_t i = begin; i < end; ++i) disturbed += reference[i] > limit;
    const bool enough_quiet = 2 * disturbed <= end - begin;
    for (size_t i = begin; i < end; ++i) {
      if (!enough_quiet || reference[i] <= limit) kept.push_back(i);
    }
  }
  return kept;
}

}  // namespace isochron::observe
