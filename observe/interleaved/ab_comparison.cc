#include "isochron/observe/interleaved/ab_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "isochron/core/base/error.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {
namespace {

/// The share of the pairs that is trimmed on each side.
constexpr double kTrimmed = 0.2;
/// Shares of a turn's iterations. kLongest is more than one in seven: work that is done every eight or ten
/// iterations must not count as usual in one turn and not in the next.
constexpr double kLongest = 0.15, kFirst = 0.1;
constexpr size_t kFewest = 4;
/// Normal quantiles: for flat, of two one-sided tests of each change; for growing and shrinking, of a
/// two-sided test of both changes. The error probability is divided among three looks.
constexpr double kFlatQuantile = 2.13, kChangeQuantile = 2.64;
/// Relative standard deviation of unrelated changes between two processes during the run.
constexpr double kUnknown = 0.003;

struct Mean {
  double value = 0;
  double error = 0;  // standard error
};

Mean trimmed_mean(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t trimmed = static_cast<size_t>(kTrimmed * static_cast<double>(values.size()));
  const std::span<const double> kept(values.data() + trimmed, values.size() - 2 * trimmed);
  const double value = mean(kept);
  double center = 0, squares = 0;
  for (double& winsorized : values) {
    winsorized = std::clamp(winsorized, kept.front(), kept.back());
    center += winsorized / static_cast<double>(values.size());
  }
  for (const double winsorized : values) squares += (winsorized - center) * (winsorized - center);
  const double variance = squares / static_cast<double>(values.size() - 1);
  return {value, std::sqrt(variance / static_cast<double>(values.size())) / (1 - 2 * kTrimmed)};
}

Mean level_of(std::span<const TurnPair> pairs, double TurnTimes::*time) {
  std::vector<double> logarithms;
  for (const TurnPair& pair : pairs) {
    require(pair.loop.*time > 0 && pair.twin.*time > 0, ErrorCode::kInvalidArgument, "side by side",
            "a turn without iterations");
    logarithms.push_back(std::log(pair.loop.*time / pair.twin.*time));
  }
  return trimmed_mean(std::move(logarithms));
}

ChangeEstimate estimate_of(std::string_view name, const Mean& change, double quantile) {
  const double half_width = quantile * change.error;
  return {name, std::expm1(change.value), std::expm1(change.value - half_width),
          std::expm1(change.value + half_width)};
}

std::string interval_text(const ChangeEstimate& estimate) {
  return fmt::format("{} {:+.1f} % [{:+.1f}, {:+.1f}]", estimate.name, 100 * estimate.change,
                     100 * estimate.low, 100 * estimate.high);
}

}  // namespace

TurnTimes turn_times(std::span<double> durations_ns) {
  if (durations_ns.empty()) return {};
  size_t first = static_cast<size_t>(kFirst * static_cast<double>(durations_ns.size()));
  if (durations_ns.size() >= kFewest) first = std::max<size_t>(first, 1);
  const std::span<double> rest = durations_ns.subspan(first);
  const auto longest = static_cast<size_t>(kLongest * static_cast<double>(rest.size()));
  const std::span<double> usual = rest.first(rest.size() - longest);
  std::nth_element(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(usual.size() - 1), rest.end());
  return {
      .iterations = static_cast<int64_t>(rest.size()), .median_ns = median(rest), .usual_ns = mean(usual)};
}

double turn_pairs_error(std::span<const TurnPair> pairs) {
  if (pairs.size() < kMinTurnPairs) return std::numeric_limits<double>::infinity();
  return std::max(level_of(pairs, &TurnTimes::median_ns).error, level_of(pairs, &TurnTimes::usual_ns).error);
}

FlatnessVerdict judge_ab_comparison(FlatnessVerdict alone, const TwinTurns& turns, double bound) {
  const std::span<const TurnPair> before = turns.before, after = turns.after;
  if (std::min(before.size(), after.size()) < kMinTurnPairs) return alone;
  FlatnessVerdict verdict = alone;
  verdict.bound = bound;  // the bound of `alone` may be that of a class
  verdict.estimates.clear();
  std::vector<ChangeEstimate> joint;
  const auto add = [&](std::string_view name, double TurnTimes::*time) {
    const Mean from = level_of(before, time), to = level_of(after, time);
    const Mean change{to.value - from.value, std::hypot(from.error, to.error, kUnknown)};
    verdict.estimates.push_back(estimate_of(name, change, kFlatQuantile));
    joint.push_back(estimate_of(name, change, kChangeQuantile));
  };
  add("medians relative to the twin", &TurnTimes::median_ns);
  add("usual means relative to the twin", &TurnTimes::usual_ns);
  decide(verdict, std::move(joint));
  if (verdict.kind == Flatness::kInconclusive && alone.kind == Flatness::kFlat) return alone;
  verdict.smallest_detectable_change = 0;
  for (const ChangeEstimate& e : verdict.estimates)
    verdict.smallest_detectable_change = std::max(verdict.smallest_detectable_change, 0.5 * (e.high - e.low));
  // More turns would decide, not more iterations.
  const bool decided = verdict.kind != Flatness::kInconclusive;
  verdict.iterations_to_decide = decided ? 0 : std::numeric_limits<double>::infinity();
  verdict.reason = fmt::format("{} and {}, in {} and {} pairs of turns; the bound is {:.1f} %",
                               interval_text(verdict.estimates[0]), interval_text(verdict.estimates[1]),
                               before.size(), after.size(), 100 * verdict.bound);
  const bool changed = alone.kind == Flatness::kGrowing || alone.kind == Flatness::kShrinking;
  verdict.machine_slowed =
      verdict.kind == Flatness::kFlat && (alone.kind == Flatness::kGrowing || alone.machine_slowed);
  if (changed && verdict.kind != alone.kind)
    verdict.reason +=
        fmt::format("; without the twin it was {} ({})", flatness_name(alone.kind), alone.reason);
  return verdict;
}

}  // namespace isochron::observe
