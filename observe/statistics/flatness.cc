#include "isochron/observe/statistics/flatness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "isochron/core/base/error.h"
#include "isochron/observe/statistics/even_speed.h"
#include "isochron/observe/statistics/series_verdict.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {
namespace {

constexpr double kMaxBound = 5;  // the bound's largest factor, for a class with little time

void check_values(std::span<const double> values, std::string_view what) {
  for (size_t i = 0; i < values.size(); ++i) {
    require(std::isfinite(values[i]), ErrorCode::kNotANumber, "judge_flatness", "{} of window {} is {}", what,
            i, values[i]);
    require(values[i] >= 0, ErrorCode::kInvalidArgument, "judge_flatness", "{} of window {} is {}, below 0",
            what, i, values[i]);
  }
}

void check(const FlatnessInput& input, const FlatnessOptions& options) {
  const auto same_length = [&](std::span<const double> values, std::string_view what) {
    require(values.empty() || values.size() == input.medians.size(), ErrorCode::kShapeMismatch,
            "judge_flatness", "{} medians but {} {}; give one per window", input.medians.size(),
            values.size(), what);
  };
  same_length(input.trimmed_means, "trimmed means");
  same_length(input.means, "means");
  same_length(input.reference, "reference times");
  same_length(input.reference_means, "reference means");
  same_length(input.waited, "waiting times");
  check_values(input.medians, "median");
  check_values(input.trimmed_means, "trimmed mean");
  check_values(input.means, "mean");
  check_values(input.reference, "reference time");
  check_values(input.reference_means, "mean reference time");
  check_values(input.waited, "waiting time");
  require(input.starts.empty() || input.starts.size() == input.medians.size() + 1, ErrorCode::kShapeMismatch,
          "judge_flatness", "{} medians but {} starts; give one per window and the end", input.medians.size(),
          input.starts.size());
  same_length(input.quiet_medians, "medians of quiet iterations");
  same_length(input.quiet_means, "means of quiet iterations");
  same_length(input.quiet_shares, "shares of quiet iterations");
  check_values(input.quiet_medians, "median of quiet iterations");
  check_values(input.quiet_means, "mean of quiet iterations");
  check_values(input.quiet_shares, "share of quiet iterations");
  require(input.quiet_shares.empty() == input.quiet_medians.empty() &&
              input.quiet_shares.empty() == input.quiet_means.empty(),
          ErrorCode::kInvalidArgument, "judge_flatness",
          "medians, means and shares of quiet iterations must be given together");
  require(options.bound > 0 && options.confidence > 0.5 && options.confidence < 1 &&
              options.min_windows >= 0 && options.max_warmup >= 0 && options.max_warmup <= 0.5 &&
              options.replicates >= 39 && options.series >= 1,
          ErrorCode::kInvalidArgument, "judge_flatness",
          "options out of range: need bound > 0, confidence in (0.5, 1), max_warmup in [0, 0.5], replicates "
          ">= 39, "
          "series >= 1");
}

/// An inconclusive verdict. Not all of the time spent waiting for a core is part of the steps, so the steps'
/// own change lies between the changes as measured and without that time.
FlatnessVerdict between_waiting_and_none(const FlatnessVerdict& measured, FlatnessVerdict without) {
  doubt(without, fmt::format("{} as measured, {} without the time spent waiting for a core",
                             percent(measured.largest.change), percent(without.largest.change)));
  return without;
}

/// Whether, from the first to the last third, the time spent waiting for a core grows at least half as much
/// as the iteration time.
bool waiting_grows_alike(const FlatnessInput& input) {
  if (!waits(input)) return false;
  const auto gained = [](std::span<const double> values) {
    const size_t third = std::max<size_t>(1, values.size() / 3);
    return trimmed_mean(values.last(third), 0.1) - trimmed_mean(values.first(third), 0.1);
  };
  const double grown = gained(input.means.empty() ? input.medians : input.means);
  return grown > 0 && gained(input.waited) >= 0.5 * grown;
}

/// The verdict on the reference kernel itself.
FlatnessVerdict judge_reference(const FlatnessInput& input, const FlatnessOptions& options) {
  FlatnessInput reference = input;
  reference.medians = input.reference;
  reference.trimmed_means = {};
  reference.means = input.reference_means;
  return judge_series(reference, options);
}

/// Whether the kernel slowed down steadily.
bool reference_slowed(const FlatnessInput& input, const FlatnessOptions& options) {
  return std::ranges::any_of(judge_reference(input, options).estimates,
                             [](const ChangeEstimate& estimate) { return estimate.low > 0; });
}

/// The verdict without the machine's influence on a series that isn't growing as measured. The time spent
/// waiting for a core is removed only if that makes the intervals narrower, because threads also wait between
/// and beside the steps. Growth that only shows after this removal is inconclusive.
FlatnessVerdict judge_hidden_growth(const FlatnessVerdict& measured, const FlatnessInput& input,
                                    const FlatnessOptions& options) {
  FlatnessVerdict even = judge_at_even_speed(input, options, 0);
  if (!waits(input)) return even;
  FlatnessInput all = input;
  all.waited = {};
  FlatnessVerdict with_waiting = judge_at_even_speed(all, options, 0);
  if (with_waiting.smallest_detectable_change <= even.smallest_detectable_change) return with_waiting;
  if (even.kind != Flatness::kGrowing || with_waiting.kind == Flatness::kGrowing) return even;
  return between_waiting_and_none(measured, std::move(even));
}

/// Checks whether a run is flat only because the machine became faster. `verdict` is flat as measured. The
/// result is growing if the correction by the measured exponents finds growth, inconclusive if only the
/// correction with exponents of at least 1 does, and otherwise `verdict`.
FlatnessVerdict doubt_beside_a_faster_machine(FlatnessVerdict verdict, const FlatnessInput& input,
                                              const FlatnessOptions& options) {
  const FlatnessVerdict reference = judge_reference(input, options);
  if (reference.kind != Flatness::kShrinking) return verdict;
  FlatnessVerdict even = judge_hidden_growth(verdict, input, options);
  if (even.kind == Flatness::kGrowing) {
    even.reason = fmt::format("the machine became faster ({}), which hides a change of the program: {}",
                              percent(reference.largest.change), even.reason);
    return even;
  }
  even = judge_at_even_speed(input, options, 1);
  if (even.kind != Flatness::kGrowing) return verdict;
  doubt(verdict, fmt::format("flat as measured, but the machine became faster ({}): for a program that "
                             "follows the machine's speed, this is a change of {}",
                             percent(reference.largest.change), percent(even.largest.change)));
  return verdict;
}

}  // namespace

FlatnessVerdict judge_flatness(const FlatnessInput& input, const FlatnessOptions& options) {
  check(input, options);
  FlatnessVerdict verdict = judge_series(input, options);
  // If a run is too short, a correction for the machine's speed can't decide.
  const bool brief = input.seconds && *input.seconds < options.min_seconds;
  if (input.reference.empty() || brief || verdict.windows < options.min_windows) return verdict;
  if (verdict.kind == Flatness::kFlat)
    return doubt_beside_a_faster_machine(std::move(verdict), input, options);
  const bool growing = verdict.kind == Flatness::kGrowing;
  FlatnessVerdict even =
      growing ? judge_at_even_speed(input, options, 0) : judge_hidden_growth(verdict, input, options);
  const auto cleared = [&even] { return even.kind == Flatness::kFlat || even.kind == Flatness::kShrinking; };
  const bool slowed = growing && !cleared() && reference_slowed(input, options);
  if (slowed && even.kind == Flatness::kGrowing) {
    // If the machine slows steadily, neighboring windows don't show it; the program is then assumed to slow
    // down in proportion.
    even = judge_at_even_speed(input, options, 1);
  }
  if (growing && even.kind == Flatness::kShrinking && waits(input))
    return between_waiting_and_none(verdict, std::move(even));
  if (growing && !cleared() && waiting_grows_alike(input)) {
    FlatnessVerdict without = judge_without_waiting(input, options);
    if (without.kind != Flatness::kGrowing) return between_waiting_and_none(verdict, std::move(without));
  }
  const bool sharper = even.smallest_detectable_change < verdict.smallest_detectable_change;
  // Growth that the corrected, sharper verdict doesn't confirm may be due to the machine.
  const bool doubtful = sharper && even.kind == Flatness::kInconclusive;
  if (growing && !cleared() && !doubtful && (!slowed || even.kind == Flatness::kGrowing)) return verdict;
  if (even.kind == verdict.kind && !sharper) return verdict;
  even.machine_slowed = growing && cleared();
  even.reason = fmt::format("{}{}, corrected for the speed of the machine",
                            even.machine_slowed ? "the machine slowed, not the program: " : "", even.reason);
  return even;
}

double bound_of_class(double bound, double time_share) {
  return bound * std::clamp(kMinorShare / std::max(1e-9, time_share), 1.0, kMaxBound);
}

FlatnessVerdict judge_classes(std::span<const ClassInput> classes, const FlatnessOptions& options) {
  require(!classes.empty(), ErrorCode::kInvalidArgument, "judge_classes", "no class of steps to judge");
  std::vector<const ClassInput*> judged;
  for (const ClassInput& one : classes) {
    const bool few = one.input.medians.size() < static_cast<size_t>(options.min_windows);
    if (!few || one.time_share >= kMinorShare / 2) judged.push_back(&one);
  }
  if (judged.empty()) {
    judged.push_back(&*std::max_element(
        classes.begin(), classes.end(),
        [](const ClassInput& a, const ClassInput& b) { return a.time_share < b.time_share; }));
  }
  const auto weight = [](const FlatnessVerdict& verdict) {  // precedence: growing, shrinking, inconclusive
    constexpr int kWeights[] = {0, 3, 2, 1};
    return kWeights[static_cast<size_t>(verdict.kind)];
  };
  std::optional<FlatnessVerdict> deciding;
  double deciding_rank = 0;
  bool machine_slowed = false;
  for (const ClassInput* one : judged) {
    FlatnessOptions own = options;
    own.series *= static_cast<int>(judged.size());
    own.bound = bound_of_class(own.bound, one->time_share);
    FlatnessVerdict verdict = judge_flatness(one->input, own);
    machine_slowed = machine_slowed || verdict.machine_slowed;
    // Among flat classes, the one with most of the time decides; otherwise the one that changed most.
    const double rank =
        verdict.kind == Flatness::kFlat ? one->time_share : std::fabs(verdict.largest.change) / own.bound;
    const bool larger = deciding && weight(verdict) == weight(*deciding) && rank > deciding_rank;
    if (deciding && weight(verdict) <= weight(*deciding) && !larger) continue;
    deciding = std::move(verdict);
    deciding_rank = rank;
  }
  deciding->machine_slowed = machine_slowed && deciding->kind != Flatness::kGrowing;
  return *deciding;
}

}  // namespace isochron::observe
