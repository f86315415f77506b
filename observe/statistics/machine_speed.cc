#include "isochron/observe/statistics/machine_speed.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {
namespace {

/// Bands of the kernel's time, by their upper limits as multiples of its usual time. In the first band, the
/// clock frequency explains the time; in the second, another program had the core for part of the time; in
/// the third, the cores were moved apart.
constexpr std::array kBands{1.05, 1.5, std::numeric_limits<double>::infinity()};
constexpr double kLost = 1.15;  // above this ratio, not every program can be corrected
constexpr double kMixed =
    0.15;  // of the typical time; if the mean differs by more, the machine changed within the window
constexpr double kMaxExponent = 2;
constexpr size_t kMaxApart = 8;  // distance of compared windows

/// The kernel's level on the quiet machine, if the machine was quiet for at least a quarter of the run.
double usual(std::span<const double> reference) { return quantile(reference, 0.25); }

size_t band_of(double times_usual) {
  return static_cast<size_t>(std::ranges::find_if(kBands, [&](double most) { return times_usual <= most; }) -
                             kBands.begin());
}

bool mixed(const ReferenceSeries& kernel, size_t i) {
  return std::fabs(kernel.means[i] - kernel.typical[i]) > kMixed * kernel.typical[i];
}

/// The logarithms of the ratios of values that are `apart` windows apart, minus their median, which is the
/// trend.
std::vector<double> changes(std::span<const double> values, size_t apart) {
  std::vector<double> result;
  for (size_t i = apart; i < values.size(); ++i) result.push_back(std::log(values[i] / values[i - apart]));
  if (result.empty()) return result;
  const double trend = median(result);
  for (double& change : result) change -= trend;
  return result;
}

struct Weighted {
  double value;
  double weight;
};

double weighted_median(std::vector<Weighted>& values) {
  std::sort(values.begin(), values.end(),
            [](const Weighted& a, const Weighted& b) { return a.value < b.value; });
  double total = 0;
  for (const Weighted& one : values) total += one.weight;
  double below = 0;
  for (const Weighted& one : values) {
    below += one.weight;
    if (2 * below >= total) return one.value;
  }
  return 0;
}

struct Exponent {
  double value = 0;
  double error = 0;  // standard
};

/// The exponents that relate the series' changes to the kernel's, one per band. A pair of windows belongs to
/// the band of the more disturbed one. An exponent is the median over the pairs, weighted by the square of
/// the kernel's change; it is missing if the kernel never changed by more than `least_change` (a logarithm)
/// within a pair. In the first band, every change counts.
std::array<std::optional<Exponent>, kBands.size()> exponents(std::span<const double> values,
                                                             std::span<const double> reference,
                                                             const ReferenceSeries& kernel,
                                                             double least_change) {
  const double level = usual(reference);
  std::array<std::vector<Weighted>, kBands.size()> pairs;
  for (size_t apart = 1; apart <= kMaxApart; ++apart) {
    const std::vector<double> machine = changes(reference, apart);
    const std::vector<double> series = changes(values, apart);
    for (size_t i = 0; i < machine.size(); ++i) {
      const size_t band = band_of(std::max(reference[i], reference[i + apart]) / level);
      if (std::fabs(machine[i]) <= (band == 0 ? 0 : least_change)) continue;
      if (mixed(kernel, i) || mixed(kernel, i + apart)) continue;
      pairs[band].push_back({series[i] / machine[i], machine[i] * machine[i]});
    }
  }
  std::array<std::optional<Exponent>, kBands.size()> result;
  for (size_t band = 0; band < kBands.size(); ++band) {
    if (pairs[band].empty()) continue;
    const double exponent = weighted_median(pairs[band]);
    // Pairs share windows. If the machine changes once, k windows on either side make k * k pairs, which
    // carry only as much information as k pairs.
    constexpr double kDeviations = 1.4826;  // a normal standard deviation, in median absolute ones
    const double independent = std::sqrt(static_cast<double>(pairs[band].size()));
    for (Weighted& pair : pairs[band]) pair.value = std::fabs(pair.value - exponent);
    const double error = kDeviations * weighted_median(pairs[band]) / std::sqrt(independent);
    result[band] = {std::clamp(exponent, 0.0, kMaxExponent), error};
  }
  return result;
}

bool all_positive(std::span<const double> values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return value > 0; });
}

template <typename Fit>
std::vector<size_t> keep(size_t n, const Fit& fit) {
  constexpr size_t kParts = 10;
  std::vector<size_t> kept;
  for (size_t part = 0; part < kParts; ++part) {
    const size_t begin = part * n / kParts;
    const size_t end = (part + 1) * n / kParts;
    size_t fit_ones = 0;
    for (size_t i = begin; i < end; ++i) fit_ones += fit(i);
    const bool at_an_end = part == 0 || part + 1 == kParts;
    const bool enough = !at_an_end || 4 * fit_ones >= end - begin;
    for (size_t i = begin; i < end; ++i) {
      if (!enough || fit(i)) kept.push_back(i);
    }
  }
  if (3 * kept.size() >= n) return kept;
  kept.resize(n);
  std::iota(kept.begin(), kept.end(), size_t{0});
  return kept;
}

}  // namespace

std::vector<double> at_even_speed(std::span<const double> values, std::span<const double> reference,
                                  const ReferenceSeries& kernel, const EvenSpeedOptions& options) {
  std::vector<double> result(values.begin(), values.end());
  if (values.empty() || !all_positive(values) || !all_positive(reference)) return result;
  const double telling = std::log(options.least > 0 ? kLost : kBands[0]);
  const auto shown = exponents(values, reference, kernel, telling);
  // Small changes always yield an exponent, although it may be near 0 because of noise. A steady change isn't
  // seen in neighboring windows, so `least` applies to small changes.
  Exponent of_band = shown[0].value_or(Exponent{});
  if (of_band.value < options.least) of_band = {options.least};
  std::array<double, kBands.size()> exponent;
  for (size_t band = 0; band < kBands.size(); ++band) {
    if (band > 0) of_band = shown[band].value_or(of_band);  // if unknown, the exponent of the next lower band
    exponent[band] = of_band.value + options.errors * of_band.error;
  }
  const double level = usual(reference);
  for (size_t i = 0; i < result.size(); ++i) {
    result[i] *= std::pow(level / reference[i], exponent[band_of(reference[i] / level)]);
  }
  return result;
}

std::vector<size_t> undisturbed(const ReferenceSeries& kernel) {
  if (kernel.means.empty()) return {};
  const double limit = kLost * usual(kernel.means);
  return keep(kernel.means.size(), [&](size_t i) { return kernel.means[i] <= limit; });
}

std::vector<size_t> unmixed(const ReferenceSeries& kernel) {
  return keep(kernel.means.size(), [&](size_t i) { return !mixed(kernel, i); });
}

}  // namespace isochron::observe
