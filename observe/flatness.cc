#include "isochron/observe/flatness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "isochron/core/error.h"

namespace isochron::observe {
namespace {

constexpr size_t kPoints = 64;  // the statistics work on 64 to 127 points: longer series are grouped
constexpr size_t kFewest = 4;   // below, no statistic has a meaning
constexpr double kSmallestBaseline =
    1e-3;  // of the largest value: growth from zero is at most a thousandfold
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Level = double (*)(std::span<const double>);
using Values = std::vector<double>;

/// The three statistics of one track, as differences in the track's unit.
using Statistics = std::array<double, 3>;
constexpr size_t kStatistics = std::tuple_size_v<Statistics>;
constexpr std::string_view kStatisticNames[2][kStatistics] = {
    {"trend of medians", "last tenth of medians", "change point of medians"},
    {"trend of means", "last tenth of means", "change point of means"}};

/// Medians or means on their way through the judgement.
struct Track {
  Level level;  // how a stretch of windows is summed up
  Values points;
  double baseline = 1;
  int change_point = 0;
  Values fit;  // the points without noise
  Values residuals;
  Statistics observed{};
  Statistics of_fit{};
};

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
            "judge_flatness", "{} medians but {} {}; give one a window", input.medians.size(), values.size(),
            what);
  };
  same_length(input.means, "means");
  same_length(input.reference, "reference times");
  check_values(input.medians, "median");
  check_values(input.means, "mean");
  check_values(input.reference, "reference time");
  require(
      options.bound > 0 && options.confidence > 0 && options.confidence < 1 && options.min_windows >= 0 &&
          options.max_warmup >= 0 && options.max_warmup <= 0.5 && options.replicates >= 39,
      ErrorCode::kInvalidArgument, "judge_flatness",
      "options out of range: need bound > 0, confidence in (0, 1), max_warmup in [0, 0.5], replicates >= 39");
}

/// First window after warm-up: the truncation that minimises the standard error of the mean of what remains.
size_t warmup_end(std::span<const double> medians, const FlatnessOptions& options) {
  const size_t n = medians.size();
  const size_t spare =
      n > static_cast<size_t>(options.min_windows) ? n - static_cast<size_t>(options.min_windows) : 0;
  const size_t most = std::min(static_cast<size_t>(options.max_warmup * static_cast<double>(n)), spare);
  double sum = 0;
  double squares = 0;
  const double center = medians.empty() ? 0 : medians[n - 1];  // keeps the squares small
  size_t best = 0;
  double best_error = kInfinity;
  for (size_t i = n; i-- > 0;) {
    sum += medians[i] - center;
    squares += (medians[i] - center) * (medians[i] - center);
    if (i > most) continue;
    const double count = static_cast<double>(n - i);
    const double error = (squares - sum * sum / count) / (count * count);
    if (error <= best_error * (1 + 1e-12)) {
      best = i;
      best_error = std::min(error, best_error);
    }
  }
  return best;
}

/// Groups windows so that 64 to 127 points remain; a remainder is dropped from the beginning.
Values group(std::span<const double> values, double (*combine)(std::span<const double>)) {
  const size_t size = std::max<size_t>(1, values.size() / kPoints);
  Values points;
  for (size_t at = values.size() % size; at < values.size(); at += size) {
    points.push_back(combine(values.subspan(at, size)));
  }
  return points;
}

size_t tenth(size_t n) { return std::max<size_t>(1, n / 10); }

Statistics statistics_of(const Track& track, std::span<const double> points, Values& scratch) {
  const size_t n = points.size();
  const size_t k = static_cast<size_t>(track.change_point);
  return {theil_sen_slope(points, scratch) * static_cast<double>(n - 1),
          track.level(points.last(tenth(n))) - track.level(points.first(tenth(n))),
          track.level(points.subspan(k)) - track.level(points.first(k))};
}

/// The simplest of constant, line and step that explains the points, by the Bayesian information criterion
/// for Laplace noise (which forgives outliers).
void fit(Track& track) {
  const std::span<const double> points = track.points;
  const size_t n = points.size();
  const size_t k = static_cast<size_t>(track.change_point);
  const Line line = theil_sen(points);
  const double level = median(points);
  const double before = median(points.first(k));
  const double after = median(points.subspan(k));
  const auto value = [&](int model, size_t i) {
    if (model == 0) return level;
    if (model == 1) return line.intercept + line.slope * static_cast<double>(i);
    return i < k ? before : after;
  };
  int best = 0;
  double best_score = kInfinity;
  for (int model = 0; model < 3; ++model) {
    double deviation = 0;
    for (size_t i = 0; i < n; ++i) deviation += std::fabs(points[i] - value(model, i));
    deviation /= static_cast<double>(n);
    const double tiny = 1e-12 * (1e-300 + std::fabs(level));
    const double count = static_cast<double>(n);
    const double score = 2 * count * std::log(deviation + tiny) + (model + 1) * std::log(count);
    if (score >= best_score) continue;
    best = model;
    best_score = score;
  }
  for (size_t i = 0; i < n; ++i) track.fit.push_back(value(best, i));
  const double correction =
      std::sqrt(static_cast<double>(n) / static_cast<double>(n - std::min<size_t>(n - 1, 3)));
  for (size_t i = 0; i < n; ++i) track.residuals.push_back((points[i] - track.fit[i]) * correction);
}

Track make_track(std::span<const double> values, Level level, double (*combine)(std::span<const double>)) {
  Track track{level, group(values, combine), 1, 0, {}, {}, {}, {}};
  const size_t n = track.points.size();
  const double largest = *std::max_element(track.points.begin(), track.points.end());
  const double start = median(std::span<const double>(track.points).first(tenth(n)));
  track.baseline = std::max(start, kSmallestBaseline * largest);
  if (track.baseline == 0) track.baseline = 1;  // all zero
  track.change_point = pettitt(track.points, static_cast<int>(tenth(n))).index;
  fit(track);
  Values scratch;
  track.observed = statistics_of(track, track.points, scratch);
  track.of_fit = statistics_of(track, track.fit, scratch);
  return track;
}

/// Errors of every statistic in every bootstrap replicate, relative to the baseline: [statistic][replicate].
std::vector<Values> bootstrap_errors(std::span<const Track> tracks, const FlatnessOptions& options) {
  const size_t n = tracks[0].points.size();
  int block = 1;
  for (const Track& track : tracks) block = std::max(block, block_length(track.residuals));
  Rng rng(options.seed);
  std::vector<int> indices(n);
  Values drawn(n);
  Values scratch;
  std::vector<Values> errors(tracks.size() * kStatistics, Values(static_cast<size_t>(options.replicates)));
  for (size_t r = 0; r < static_cast<size_t>(options.replicates); ++r) {
    draw_circular_blocks(indices, block, rng);
    for (size_t t = 0; t < tracks.size(); ++t) {
      const Track& track = tracks[t];
      for (size_t i = 0; i < n; ++i)
        drawn[i] = track.fit[i] + track.residuals[static_cast<size_t>(indices[i])];
      const Statistics statistics = statistics_of(track, drawn, scratch);
      for (size_t s = 0; s < kStatistics; ++s) {
        errors[t * kStatistics + s][r] = (statistics[s] - track.of_fit[s]) / track.baseline;
      }
    }
  }
  return errors;
}

/// Half widths that hold for all statistics together with the given confidence: the quantile of the
/// studentised maximum.
Values joint_half_widths(const std::vector<Values>& errors, double confidence) {
  Values deviations;
  for (const Values& of_one : errors) {
    double squares = 0;
    for (double error : of_one) squares += error * error;
    deviations.push_back(std::sqrt(squares / static_cast<double>(of_one.size())));
  }
  Values maxima(errors[0].size(), 0);
  for (size_t s = 0; s < errors.size(); ++s) {
    if (deviations[s] == 0) continue;
    for (size_t r = 0; r < maxima.size(); ++r) {
      maxima[r] = std::max(maxima[r], std::fabs(errors[s][r]) / deviations[s]);
    }
  }
  const double critical = quantile(maxima, confidence);
  for (double& deviation : deviations) deviation *= critical;
  return deviations;
}

Flatness decide(std::span<const ChangeEstimate> estimates, double bound) {
  bool flat = true;
  const ChangeEstimate* outside = nullptr;
  for (const ChangeEstimate& estimate : estimates) {
    flat = flat && estimate.low >= -bound && estimate.high <= bound;
    const bool beyond = estimate.low > bound || estimate.high < -bound;
    if (beyond && (outside == nullptr || std::fabs(estimate.change) > std::fabs(outside->change)))
      outside = &estimate;
  }
  if (flat) return Flatness::kFlat;
  if (outside == nullptr) return Flatness::kInconclusive;
  return outside->change > 0 ? Flatness::kGrowing : Flatness::kShrinking;
}

/// How many times longer a run must be: half widths shrink with the root of its length.
double factor_to_decide(std::span<const ChangeEstimate> estimates, double bound) {
  double factor = 1;
  for (const ChangeEstimate& estimate : estimates) {
    const double half_width = 0.5 * (estimate.high - estimate.low);
    const double margin = std::fabs(bound - std::fabs(estimate.change));
    if (half_width <= margin) continue;
    factor = std::max(factor, margin > 0 ? (half_width / margin) * (half_width / margin) : kInfinity);
  }
  return factor;
}

std::string percent(double change) { return fmt::format("{:+.2f} %", 100 * change); }

void explain(FlatnessVerdict& verdict, const FlatnessInput& input, const FlatnessOptions& options) {
  const double iterations = static_cast<double>(input.medians.size()) * input.iterations_per_window;
  double factor =
      verdict.kind == Flatness::kInconclusive ? factor_to_decide(verdict.estimates, options.bound) : 0;
  const bool few = verdict.windows < options.min_windows;
  const bool brief = input.seconds && *input.seconds < options.min_seconds;
  if (few || brief) {
    const double windows = static_cast<double>(options.min_windows) / std::max(1, verdict.windows);
    const double seconds = brief && *input.seconds > 0 ? options.min_seconds / *input.seconds : 1;
    factor = std::max({factor, windows, seconds});
    verdict.kind = Flatness::kInconclusive;
    verdict.reason =
        few ? fmt::format("too short: {} windows, {} needed", verdict.windows, options.min_windows)
            : fmt::format("too short: {:.2f} s, {:.1f} s needed", *input.seconds, options.min_seconds);
  } else if (verdict.kind == Flatness::kInconclusive) {
    verdict.reason =
        fmt::format("{} may be {} to {}, the bound is {:.1f} %", verdict.largest.name,
                    percent(verdict.largest.low), percent(verdict.largest.high), 100 * options.bound);
  } else if (verdict.kind == Flatness::kFlat) {
    verdict.reason = fmt::format("every change lies within {:.1f} %", 100 * options.bound);
  } else {
    verdict.reason = fmt::format("{} is {}", verdict.largest.name, percent(verdict.largest.change));
  }
  verdict.iterations_to_decide = factor == 0 ? 0 : std::ceil(factor * iterations);
}

/// The judgement without a look at the machine.
FlatnessVerdict judge(const FlatnessInput& input, const FlatnessOptions& options) {
  FlatnessVerdict verdict;
  const size_t begin = warmup_end(input.medians, options);
  const std::span<const double> medians = input.medians.subspan(begin);
  verdict.warmup_windows = static_cast<int>(begin);
  verdict.windows = static_cast<int>(medians.size());
  if (medians.size() < kFewest) {
    explain(verdict, input, options);
    if (verdict.reason.empty()) verdict.reason = "fewer than four windows";
    verdict.kind = Flatness::kInconclusive;
    return verdict;
  }
  std::vector<Track> tracks{make_track(medians, median, median)};
  if (!input.means.empty()) tracks.push_back(make_track(input.means.subspan(begin), midmean, mean));
  const Values half_widths = joint_half_widths(bootstrap_errors(tracks, options), options.confidence);
  for (size_t t = 0; t < tracks.size(); ++t) {
    for (size_t s = 0; s < kStatistics; ++s) {
      const double change = tracks[t].observed[s] / tracks[t].baseline;
      const double half_width = half_widths[t * kStatistics + s];
      verdict.estimates.push_back({kStatisticNames[t][s], change, change - half_width, change + half_width});
      verdict.smallest_detectable_change = std::max(verdict.smallest_detectable_change, half_width);
    }
  }
  verdict.kind = decide(verdict.estimates, options.bound);
  verdict.largest = *std::max_element(verdict.estimates.begin(), verdict.estimates.end(),
                                      [](const ChangeEstimate& a, const ChangeEstimate& b) {
                                        return std::fabs(a.change) < std::fabs(b.change);
                                      });
  verdict.first_tenth = median(medians.first(tenth(medians.size())));
  verdict.last_tenth = median(medians.last(tenth(medians.size())));
  const double iterations = static_cast<double>(medians.size() - 1) * input.iterations_per_window;
  const double per_iteration = tracks[0].baseline / iterations;
  const ChangeEstimate& trend = verdict.estimates.front();
  verdict.slope = trend.change * per_iteration;
  verdict.slope_interval = {trend.low * per_iteration, trend.high * per_iteration};
  verdict.trend_test = mann_kendall(medians);
  const ChangePoint change_point = pettitt(medians, static_cast<int>(tenth(medians.size())));
  verdict.change_point = change_point.index;
  verdict.change_point_p = change_point.p_value;
  explain(verdict, input, options);
  return verdict;
}

/// The series with the reference kernel's (smoothed) time divided out, so that a slower machine cancels.
Values divide_out(std::span<const double> values, std::span<const double> reference) {
  constexpr size_t kReach = 4;  // windows to either side: the kernel is short, single timings are noisy
  const double usual = median(reference);
  Values result(values.begin(), values.end());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t begin = i < kReach ? 0 : i - kReach;
    const double local = median(reference.subspan(begin, std::min(i + kReach + 1, values.size()) - begin));
    if (local > 0) result[i] *= usual / local;
  }
  return result;
}

}  // namespace

std::string_view flatness_name(Flatness flatness) {
  constexpr std::string_view kNames[] = {"flat", "growing", "shrinking", "inconclusive"};
  return kNames[static_cast<size_t>(flatness)];
}

FlatnessVerdict judge_flatness(const FlatnessInput& input, const FlatnessOptions& options) {
  check(input, options);
  FlatnessVerdict verdict = judge(input, options);
  if (verdict.kind != Flatness::kGrowing || input.reference.empty()) return verdict;
  FlatnessInput reference = input;
  reference.medians = input.reference;
  reference.means = {};
  const FlatnessVerdict of_reference = judge(reference, options);
  const bool reference_slowed = std::any_of(of_reference.estimates.begin(), of_reference.estimates.end(),
                                            [](const ChangeEstimate& estimate) { return estimate.low > 0; });
  if (!reference_slowed) return verdict;
  const Values medians = divide_out(input.medians, input.reference);
  const Values means = divide_out(input.means, input.reference);
  FlatnessInput corrected = input;
  corrected.medians = medians;
  corrected.means = means;
  FlatnessVerdict exonerated = judge(corrected, options);
  if (exonerated.kind == Flatness::kGrowing) return verdict;
  exonerated.machine_slowed = true;
  exonerated.reason = fmt::format("the machine slowed, not the program: the reference kernel's {} is {}",
                                  of_reference.largest.name, percent(of_reference.largest.change));
  return exonerated;
}

FlatnessVerdict judge_classes(std::span<const ClassInput> classes, const FlatnessOptions& options) {
  require(!classes.empty(), ErrorCode::kInvalidArgument, "judge_classes", "no class of steps to judge");
  std::vector<const ClassInput*> judged;
  for (const ClassInput& one : classes) {
    const bool few = one.input.medians.size() < static_cast<size_t>(options.min_windows);
    if (!few || one.time_share >= kMinorShare) judged.push_back(&one);
  }
  if (judged.empty()) {
    judged.push_back(&*std::max_element(
        classes.begin(), classes.end(),
        [](const ClassInput& a, const ClassInput& b) { return a.time_share < b.time_share; }));
  }
  FlatnessOptions shared = options;
  shared.confidence = 1 - (1 - options.confidence) / static_cast<double>(judged.size());
  const auto weight =
      [](const FlatnessVerdict& verdict) {  // growing decides before shrinking before inconclusive
        constexpr int kWeights[] = {0, 3, 2, 1};
        return kWeights[static_cast<size_t>(verdict.kind)];
      };
  std::optional<FlatnessVerdict> deciding;
  bool machine_slowed = false;
  for (const ClassInput* one : judged) {
    FlatnessVerdict verdict = judge_flatness(one->input, shared);
    machine_slowed = machine_slowed || verdict.machine_slowed;
    const bool larger = deciding && weight(verdict) == weight(*deciding) &&
                        std::fabs(verdict.largest.change) > std::fabs(deciding->largest.change);
    if (!deciding || weight(verdict) > weight(*deciding) || larger) deciding = std::move(verdict);
  }
  deciding->machine_slowed = machine_slowed && deciding->kind != Flatness::kGrowing;
  return *deciding;
}

std::string verdict_text(const FlatnessVerdict& verdict) {
  std::string text(flatness_name(verdict.kind));
  if (!verdict.largest.name.empty()) {
    text += fmt::format(": {} [{}, {}] ({})", percent(verdict.largest.change), percent(verdict.largest.low),
                        percent(verdict.largest.high), verdict.largest.name);
  }
  if (verdict.machine_slowed) text += "; the machine slowed, not the program";
  return text;
}

}  // namespace isochron::observe
