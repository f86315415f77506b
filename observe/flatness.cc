#include "isochron/observe/flatness.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "isochron/core/error.h"
#include "isochron/observe/machine_speed.h"

namespace isochron::observe {
namespace {

constexpr size_t kPoints = 64;  // the statistics work on about as many points: longer series are grouped
constexpr size_t kFewest = 4;   // below, no statistic has a meaning
constexpr double kSmallestBaseline =
    1e-3;                            // of the largest value: growth from zero is at most a thousandfold
constexpr double kMostBound = 5;     // times the bound, for a class with hardly any of the time
constexpr double kMostLonger = 1e4;  // times: no advice to make a run still longer
constexpr double kForMost = 2.3;     // times the length that decides half of such runs: four fifths of them
constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Level = double (*)(std::span<const double>);
using Values = std::vector<double>;

/// The three statistics of one track, as differences in the track's unit.
enum Statistic : size_t { kTrend, kLastTenth, kStep };
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
  Values fit = {};                       // the points without noise
  std::optional<Statistic> shaped = {};  // whose shape that has; none: constant
  Values residuals = {};
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
  same_length(input.reference_means, "reference means");
  same_length(input.waited, "waiting times");
  check_values(input.medians, "median");
  check_values(input.means, "mean");
  check_values(input.reference, "reference time");
  check_values(input.reference_means, "mean reference time");
  check_values(input.waited, "waiting time");
  same_length(input.quiet_medians, "medians of quiet iterations");
  same_length(input.quiet_means, "means of quiet iterations");
  same_length(input.quiet_shares, "shares of quiet iterations");
  check_values(input.quiet_medians, "median of quiet iterations");
  check_values(input.quiet_means, "mean of quiet iterations");
  check_values(input.quiet_shares, "share of quiet iterations");
  require(input.quiet_shares.empty() == input.quiet_medians.empty() &&
              input.quiet_shares.empty() == input.quiet_means.empty(),
          ErrorCode::kInvalidArgument, "judge_flatness",
          "medians, means and shares of quiet iterations come together");
  require(options.bound > 0 && options.confidence > 0.5 && options.confidence < 1 &&
              options.min_windows >= 0 && options.max_warmup >= 0 && options.max_warmup <= 0.5 &&
              options.replicates >= 39 && options.series >= 1,
          ErrorCode::kInvalidArgument, "judge_flatness",
          "options out of range: need bound > 0, confidence in (0.5, 1), max_warmup in [0, 0.5], replicates "
          ">= 39, "
          "series >= 1");
}

/// First window after warm-up: the truncation that minimises the standard error of the mean of what remains,
/// once the trend of the settled part is taken out (else steady growth would pass for settling). None where
/// that lies later than warm-up may, behind a beginning that was lower: what rises then is no settling.
size_t warmup_end(std::span<const double> medians, const FlatnessOptions& options) {
  constexpr double kLookedAt = 0.25;
  const size_t n = medians.size();
  const size_t spare =
      n > static_cast<size_t>(options.min_windows) ? n - static_cast<size_t>(options.min_windows) : 0;
  const size_t most = std::min(static_cast<size_t>(options.max_warmup * static_cast<double>(n)), spare);
  if (most == 0) return 0;
  const size_t looked_at = std::max(most, static_cast<size_t>(kLookedAt * static_cast<double>(n)));
  const Line trend = theil_sen(medians.subspan(most));
  const double negligible = 1e-9 * std::fabs(median(medians));  // rounding must not look like settling
  struct Truncation {
    size_t at = 0;
    double error = kInfinity;
  };
  Truncation best, best_of_all;
  double sum = 0;
  double squares = 0;
  for (size_t i = n; i-- > 0;) {
    const double index = static_cast<double>(i) - static_cast<double>(most);
    const double residual = medians[i] - trend.intercept - trend.slope * index;
    sum += residual;
    squares += residual * residual;
    if (i > looked_at) continue;
    const double count = static_cast<double>(n - i);
    const double variance = std::max(squares - sum * sum / count, negligible * negligible * count);
    const Truncation here{i, variance / (count * count)};
    if (here.error <= best_of_all.error) best_of_all = here;
    if (i <= most && here.error <= best.error) best = here;
  }
  if (best_of_all.at <= most) return best.at;
  const double before = median(medians.first(best_of_all.at)),
               after = median(medians.subspan(best_of_all.at));
  return after > (1 + 0.5 * options.bound) * before ? 0 : best.at;
}

size_t group_size(size_t windows) { return std::max<size_t>(1, (windows + kPoints / 2) / kPoints); }

/// Groups windows so that about 64 points remain; a remainder is dropped from the beginning.
Values group(std::span<const double> values) {
  const size_t size = group_size(values.size());
  Values points;
  for (size_t at = values.size() % size; at < values.size(); at += size) {
    points.push_back(median(values.subspan(at, size)));
  }
  return points;
}

size_t tenth(size_t n) { return std::max<size_t>(1, n / 10); }

Statistics statistics_of(const Track& track, std::span<const double> points, Values& scratch) {
  const size_t n = points.size();
  const size_t k = static_cast<size_t>(track.change_point);
  return {theil_sen_slope(points, scratch) * static_cast<double>(n),
          track.level(points.last(tenth(n))) - track.level(points.first(tenth(n))),
          track.level(points.subspan(k)) - track.level(points.first(k))};
}

/// A curve through the medians of eighths of the points, straight in between; empty unless these medians rise
/// or fall throughout, which noise that merely wanders does not.
Values monotone_curve(std::span<const double> points) {
  constexpr size_t kParts = 8;
  const size_t n = points.size();
  if (n < 4 * kParts) return {};
  std::array<double, kParts> level;
  std::array<double, kParts> center;
  for (size_t part = 0; part < kParts; ++part) {
    const size_t begin = part * n / kParts;
    const size_t end = (part + 1) * n / kParts;
    level[part] = median(points.subspan(begin, end - begin));
    center[part] = 0.5 * static_cast<double>(begin + end - 1);
  }
  if (!std::is_sorted(level.begin(), level.end()) && !std::is_sorted(level.rbegin(), level.rend())) return {};
  Values curve;
  for (size_t i = 0, part = 0; i < n; ++i) {
    const double at = static_cast<double>(i);
    while (part + 2 < kParts && at > center[part + 1]) ++part;
    curve.push_back(
        std::lerp(level[part], level[part + 1], (at - center[part]) / (center[part + 1] - center[part])));
  }
  return curve;
}

/// Where the points change from one level to another, a tenth of them on either side at least, by least
/// absolute deviations. Pettitt's test finds that they change, but not well where when one side is short.
size_t best_step(std::span<const double> points) {
  const size_t n = points.size();
  size_t best = tenth(n);
  double least = kInfinity;
  for (size_t k = best; k + tenth(n) <= n; ++k) {
    const double before = median(points.first(k)), after = median(points.subspan(k));
    double deviation = 0;
    for (size_t i = 0; i < n; ++i) deviation += std::fabs(points[i] - (i < k ? before : after));
    if (deviation >= least) continue;
    least = deviation;
    best = k;
  }
  return best;
}

/// The simplest of constant, line, step and monotone curve that explains the points, by the Bayesian
/// information criterion for Laplace noise (which forgives outliers).
void fit(Track& track, bool corrected) {
  const std::span<const double> points = track.points;
  const size_t n = points.size();
  const double level = median(points);
  const Line line = theil_sen(points);
  Values straight(n);
  for (size_t i = 0; i < n; ++i) straight[i] = line.intercept + line.slope * static_cast<double>(i);
  double best_score = kInfinity;
  const auto offer = [&](int parameters, Values model, std::optional<Statistic> shaped) {
    if (model.empty()) return;
    double deviation = 0;
    for (size_t i = 0; i < n; ++i) deviation += std::fabs(points[i] - model[i]);
    const double count = static_cast<double>(n);
    const double least = 1e-12 * (1e-300 + std::fabs(level));  // rounding is no noise
    const double score = 2 * count * std::log(deviation / count + least) + parameters * std::log(count);
    if (score >= best_score) return;
    best_score = score;
    track.fit = std::move(model);
    track.shaped = shaped;
  };
  offer(1, Values(n, level), std::nullopt);
  offer(2, std::move(straight), kTrend);
  const size_t k = best_step(points);
  Values step(n, median(points.first(k)));
  std::fill(step.begin() + static_cast<std::ptrdiff_t>(k), step.end(), median(points.subspan(k)));
  offer(3, std::move(step), kStep);
  offer(8, monotone_curve(points), kLastTenth);
  const double correction =
      std::sqrt(static_cast<double>(n) / static_cast<double>(n - std::min<size_t>(n - 1, 3)));
  for (size_t i = 0; i < n; ++i) track.residuals.push_back((points[i] - track.fit[i]) * correction);
  constexpr double kEvident = 6;  // times the noise: then the step is where it was fitted
  Values noise;
  for (const double residual : track.residuals) noise.push_back(std::fabs(residual));
  const double size = std::fabs(track.fit.back() - track.fit.front());
  // In a corrected series it may be what the correction has left.
  if (track.shaped == kStep && !corrected && size > kEvident * median(noise))
    track.change_point = static_cast<int>(k);
}

/// What changes are relative to: the first tenth's level.
double baseline_of(std::span<const double> points) {
  const double largest = *std::max_element(points.begin(), points.end());
  const double baseline = std::max(median(points.first(tenth(points.size()))), kSmallestBaseline * largest);
  return baseline > 0 ? baseline : 1;  // all zero
}

Track make_track(std::span<const double> values, Level level, bool corrected) {
  Track track{.level = level, .points = group(values)};
  const size_t n = track.points.size();
  track.baseline = baseline_of(track.points);
  track.change_point = pettitt(track.points, static_cast<int>(tenth(n))).index;
  fit(track, corrected);
  Values scratch;
  track.observed = statistics_of(track, track.points, scratch);
  track.of_fit = statistics_of(track, track.fit, scratch);
  return track;
}

/// Of the medians and, where there are any, the means.
std::vector<Track> make_tracks(const FlatnessInput& input, size_t begin, bool corrected) {
  std::vector<Track> tracks{make_track(input.medians.subspan(begin), median, corrected)};
  if (!input.means.empty()) tracks.push_back(make_track(input.means.subspan(begin), midmean, corrected));
  return tracks;
}

/// What blocks of a finite length and residuals of a fit leave out of the error: the square root of the AR(1)
/// process's long-run variance over the part of it that blocks of this length carry, and of the loss of
/// degrees of freedom when only a few of the points are effectively independent. The autocorrelation is
/// corrected for its bias (Kendall 1954).
double dependence_correction(std::span<const double> residuals, int block) {
  constexpr double kFewestIndependent = 3;
  const double n = static_cast<double>(residuals.size());
  const double biased = std::max(0.0, autocorrelation(residuals, 1));
  const double rho = std::min(0.97, biased + (2 + 4 * biased) / n);
  const double long_run = (1 + rho) / (1 - rho);
  double carried = 1;
  for (int lag = 1; lag < block; ++lag)
    carried += 2 * (1 - static_cast<double>(lag) / block) * std::pow(rho, lag);
  const double independent = std::max(kFewestIndependent, n / long_run);
  return std::sqrt(long_run / carried * independent / (independent - 2));
}

/// Errors of every statistic in every bootstrap replicate, relative to the baseline: [statistic][replicate].
std::vector<Values> bootstrap_errors(std::span<const Track> tracks, const FlatnessOptions& options) {
  const size_t n = tracks[0].points.size();
  int block = 1;
  for (const Track& track : tracks) block = std::max(block, block_length(track.residuals));
  Values corrections;
  for (const Track& track : tracks) corrections.push_back(dependence_correction(track.residuals, block));
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
        errors[t * kStatistics + s][r] = corrections[t] * (statistics[s] - track.of_fit[s]) / track.baseline;
      }
    }
  }
  return errors;
}

/// Half widths of the intervals: those within which each statistic by itself passes two one-sided tests with
/// the given confidence, and those which hold for all together (by the quantile of the studentised maximum).
struct HalfWidths {
  Values own;
  Values joint;
};

HalfWidths half_widths_of(const std::vector<Values>& errors, const FlatnessOptions& options) {
  const size_t replicates = errors[0].size();
  HalfWidths result;
  Values maxima(replicates, 0);
  for (const Values& of_one : errors) {
    Values sizes;
    double squares = 0;
    for (const double error : of_one) {
      sizes.push_back(std::fabs(error));
      squares += error * error;
    }
    const double deviation = std::sqrt(squares / static_cast<double>(replicates));
    result.own.push_back(quantile(sizes, 2 * options.confidence - 1));
    result.joint.push_back(deviation);
    if (deviation == 0) continue;
    for (size_t r = 0; r < replicates; ++r) maxima[r] = std::max(maxima[r], sizes[r] / deviation);
  }
  const double critical = quantile(maxima, 1 - (1 - options.confidence) / options.series);
  for (double& width : result.joint) width *= critical;
  return result;
}

/// How many times longer a run must be: half widths shrink with the root of its length. A change that can't
/// be told from none is taken for none, which needs an interval of half the bound in all statistics. Any
/// other must come clear of the bound: growth in the joint interval of one statistic, a change within the
/// bound in each by itself.
double factor_to_decide(std::span<const ChangeEstimate> own, std::span<const ChangeEstimate> joint,
                        double bound) {
  const auto factor_of = [](const ChangeEstimate& estimate, double needed) {
    const double ratio = (estimate.high - estimate.change) / needed;
    return needed > 0 ? kForMost * ratio * ratio : kInfinity;
  };
  double flat = 1, beyond = kInfinity;
  for (size_t i = 0; i < own.size(); ++i) {
    if (within(own[i], bound)) continue;
    const double excess = std::fabs(own[i].change) - bound;
    const bool none = own[i].low <= 0 && own[i].high >= 0;
    if (excess > 0 && !none) beyond = std::min(beyond, factor_of(joint[i], excess));
    flat = std::max(flat, factor_of(own[i], none ? 0.5 * bound : -excess));
  }
  const double factor = std::isfinite(beyond) ? beyond : flat;
  return factor <= kMostLonger ? factor : kInfinity;
}

/// The one that may be farthest from none.
const ChangeEstimate& farthest(std::span<const ChangeEstimate> estimates) {
  return *std::ranges::max_element(
      estimates, {}, [](const ChangeEstimate& e) { return std::max(std::fabs(e.low), std::fabs(e.high)); });
}

std::string percent(double change) { return fmt::format("{:+.2f} %", 100 * change); }

/// Sets `reason` and, as `factor` times the run's, the iterations that would decide; 0 where it is decided.
void explain(FlatnessVerdict& verdict, const FlatnessInput& input, const FlatnessOptions& options,
             double factor) {
  const double iterations = static_cast<double>(input.medians.size()) * input.iterations_per_window;
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
  } else if (verdict.estimates.empty()) {
    verdict.reason = "fewer than four windows";
  } else if (verdict.kind == Flatness::kInconclusive) {
    const ChangeEstimate& widest = farthest(verdict.estimates);
    verdict.reason = fmt::format("{} may be {} to {}, the bound is {:.1f} %", widest.name,
                                 percent(widest.low), percent(widest.high), 100 * options.bound);
  } else if (verdict.kind == Flatness::kFlat) {
    verdict.reason = fmt::format("every change lies within {:.1f} %", 100 * options.bound);
  } else {
    verdict.reason = fmt::format("{} is {}", verdict.largest.name, percent(verdict.largest.change));
  }
  verdict.iterations_to_decide = factor == 0 ? 0 : std::ceil(factor * iterations);
}

/// Relative changes of other values at the track's statistics.
Statistics changes_at(const Track& track, std::span<const double> values) {
  const Values points = group(values);
  Values scratch;
  Statistics changes = statistics_of(track, points, scratch);
  for (double& change : changes) change /= baseline_of(points);
  return changes;
}

/// What a series was before it was corrected, and what it would be, had the correction been a little larger.
struct Correction {
  FlatnessInput before;
  FlatnessInput moved;
};

/// What long iterations in a few of the windows add to the mean, in the first and in the second half of the
/// run, as a share of the usual mean. The two longest windows of each half are left out: a stall is no
/// growth.
std::array<double, 2> rare_excess(std::span<const double> means) {
  constexpr size_t kStalls = 2;
  const double usual = midmean(means);
  std::array<double, 2> shares{};
  for (const size_t half : {size_t{0}, size_t{1}}) {
    const size_t count = means.size() / 2;
    Values excess;
    for (const double value : half == 0 ? means.first(count) : means.last(count))
      excess.push_back(std::max(0.0, value - usual));
    std::ranges::sort(excess);
    for (size_t i = 0; i + kStalls < excess.size(); ++i) shares[half] += excess[i];
    shares[half] /= usual > 0 ? usual * static_cast<double>(count) : kInfinity;
  }
  return shares;
}

/// The levels of medians and means say nothing of what only a few windows have. Where that has changed by
/// twice the bound, the run isn't called flat.
void doubt_rare_iterations(FlatnessVerdict& verdict, std::span<const double> means) {
  if (verdict.kind != Flatness::kFlat) return;
  const auto [first, second] = rare_excess(means);
  if (std::fabs(second - first) <= 2 * verdict.bound) return;
  verdict.kind = Flatness::kInconclusive;
  verdict.iterations_to_decide = kInfinity;
  verdict.reason = fmt::format(
      "the usual iteration is flat, but long ones add {:.1f} % to it in the first half and {:.1f} % in the "
      "second",
      100 * first, 100 * second);
}

/// Of the changes beyond the bound, the one that has the shape of what happened is told: a trend through a
/// step is steeper than the step.
void name_by_shape(FlatnessVerdict& verdict, std::span<const Track> tracks) {
  if (verdict.kind != Flatness::kGrowing && verdict.kind != Flatness::kShrinking) return;
  const double sign = verdict.kind == Flatness::kGrowing ? 1 : -1;
  for (size_t t = 0; t < tracks.size(); ++t) {
    if (!tracks[t].shaped) continue;
    const ChangeEstimate& shaped = verdict.estimates[t * kStatistics + *tracks[t].shaped];
    const double nearest = sign > 0 ? shaped.low : -shaped.high;
    if (nearest <= verdict.bound) continue;
    verdict.largest = shaped;
    return;
  }
}

/// The judgement without a look at the machine. Where `input` has been corrected, the intervals allow for the
/// error of that.
FlatnessVerdict judge(const FlatnessInput& input, const FlatnessOptions& options,
                      const Correction* correction = nullptr) {
  constexpr double kModelError = 0.02;  // of what the correction did to a statistic
  FlatnessVerdict verdict;
  verdict.bound = options.bound;
  const size_t begin = warmup_end(input.medians, options);
  const std::span<const double> medians = input.medians.subspan(begin);
  verdict.warmup_windows = static_cast<int>(begin);
  verdict.windows = static_cast<int>(medians.size());
  if (medians.size() < kFewest) {
    explain(verdict, input, options, 1);
    return verdict;
  }
  const std::vector<Track> tracks = make_tracks(input, begin, correction != nullptr);
  const HalfWidths widths = half_widths_of(bootstrap_errors(tracks, options), options);
  const auto lowest = [](double change, double half_width) {  // nothing falls by more than all of it
    return std::min(change, std::max(-1.0, change - half_width));
  };
  std::vector<ChangeEstimate> joint;
  for (size_t t = 0; t < tracks.size(); ++t) {
    const auto changes_of = [&](const FlatnessInput& other) {
      return changes_at(tracks[t], (t == 0 ? other.medians : other.means).subspan(begin));
    };
    const Statistics before = correction == nullptr ? Statistics{} : changes_of(correction->before);
    const Statistics moved = correction == nullptr ? Statistics{} : changes_of(correction->moved);
    for (size_t s = 0; s < kStatistics; ++s) {
      const double change = tracks[t].observed[s] / tracks[t].baseline;
      const double error =
          correction == nullptr ? 0 : std::hypot(moved[s] - change, kModelError * (before[s] - change));
      const double own = std::hypot(widths.own[t * kStatistics + s], error);
      const double all = std::hypot(widths.joint[t * kStatistics + s], error);
      verdict.estimates.push_back({kStatisticNames[t][s], change, lowest(change, own), change + own});
      joint.push_back({kStatisticNames[t][s], change, lowest(change, all), change + all});
      verdict.smallest_detectable_change = std::max(verdict.smallest_detectable_change, own);
    }
  }
  const double factor = factor_to_decide(verdict.estimates, joint, options.bound);
  decide(verdict, std::move(joint));
  name_by_shape(verdict, tracks);
  verdict.first_tenth = median(medians.first(tenth(medians.size())));
  verdict.last_tenth = median(medians.last(tenth(medians.size())));
  const size_t grouped = group_size(medians.size());
  const double iterations =
      static_cast<double>(medians.size() / grouped * grouped) * input.iterations_per_window;
  const double per_iteration = tracks[0].baseline / iterations;
  const ChangeEstimate& trend = verdict.estimates.front();
  verdict.slope = trend.change * per_iteration;
  verdict.slope_interval = {trend.low * per_iteration, trend.high * per_iteration};
  verdict.trend_test = mann_kendall(medians);
  const ChangePoint change_point = pettitt(medians, static_cast<int>(tenth(medians.size())));
  verdict.change_point = change_point.index;
  verdict.change_point_p = change_point.p_value;
  explain(verdict, input, options, verdict.kind == Flatness::kInconclusive ? factor : 0);
  if (!input.means.empty()) doubt_rare_iterations(verdict, input.means.subspan(begin));
  return verdict;
}

Values at(std::span<const double> values, std::span<const size_t> indices) {
  Values result;
  if (!values.empty()) {
    for (size_t i : indices) result.push_back(values[i]);
  }
  return result;
}

/// Windows' levels without the time in which the program could have run but others had the core. At least a
/// tenth remains: the waiting is read between iterations, and may belong to a neighbour.
Values without_waiting(std::span<const double> levels, std::span<const double> waited) {
  Values result(levels.begin(), levels.end());
  if (waited.empty()) return result;
  for (size_t i = 0; i < result.size(); ++i) result[i] = std::max(0.1 * result[i], result[i] - waited[i]);
  return result;
}

/// Windows' medians and means.
struct Levels {
  Values medians;
  Values means;
};

Levels at(const Levels& levels, std::span<const size_t> indices) {
  return {at(levels.medians, indices), at(levels.means, indices)};
}

FlatnessInput input_of(const Levels& levels, const FlatnessInput& input) {
  FlatnessInput result = input;
  result.medians = levels.medians;
  result.means = levels.means;
  return result;
}

/// How the machine's part in the means is found: by the kernel's means, or as it is in the medians.
enum class MeansBy { kMeans, kMedians };
/// Whether waiting for a core is spread over the iterations, so that it is in the medians too, or in a few.
enum class Waiting { kInFew, kInAll };

/// The series without the machine's part.
Levels corrected(const FlatnessInput& input, const ReferenceSeries& kernel, MeansBy means_by, Waiting waiting,
                 const EvenSpeedOptions& options) {
  Levels result{
      without_waiting(input.medians, waiting == Waiting::kInAll ? input.waited : std::span<const double>{}),
      without_waiting(input.means, input.waited)};
  result.medians = at_even_speed(result.medians, kernel.typical, kernel, options);
  if (means_by == MeansBy::kMeans) {
    result.means = at_even_speed(result.means, kernel.means, kernel, options);
  } else {
    for (size_t i = 0; i < result.means.size(); ++i)
      result.means[i] *= input.medians[i] > 0 ? result.medians[i] / input.medians[i] : 1;
  }
  return result;
}

/// The windows with enough quiet iterations to be judged by these alone; none where they are too few, in all
/// or in the first or last tenth.
std::vector<size_t> quiet_windows(const FlatnessInput& input) {
  constexpr double kEnough = 0.2;  // of a window's iterations
  std::vector<size_t> kept;
  const size_t n = input.quiet_shares.size();
  for (size_t i = 0; i < n; ++i) {
    if (input.quiet_shares[i] >= kEnough) kept.push_back(i);
  }
  const size_t end = n == 0 ? 0 : tenth(n);
  const auto in_first = static_cast<size_t>(std::ranges::lower_bound(kept, end) - kept.begin());
  const auto in_last = static_cast<size_t>(kept.end() - std::ranges::lower_bound(kept, n - end));
  if (3 * kept.size() < n || 4 * in_first < end || 4 * in_last < end) kept.clear();
  return kept;
}

/// Indices within the judged part of a series, as those of all its windows.
void count_all_windows(FlatnessVerdict& verdict, const std::vector<size_t>& kept) {
  if (verdict.estimates.empty()) return;
  const size_t first = static_cast<size_t>(verdict.warmup_windows);
  const size_t change = first + static_cast<size_t>(verdict.change_point);
  verdict.change_point = static_cast<int>(kept[std::min(change, kept.size() - 1)] - kept[first]);
}

/// The verdict on quiet iterations alone; nothing where there aren't enough.
std::optional<FlatnessVerdict> judge_quiet(const FlatnessInput& input, const FlatnessOptions& options) {
  const std::vector<size_t> kept = quiet_windows(input);
  if (kept.empty()) return std::nullopt;
  FlatnessInput quiet = input;
  quiet.medians = input.quiet_medians;
  quiet.means = input.quiet_means;
  const Levels all{{quiet.medians.begin(), quiet.medians.end()}, {quiet.means.begin(), quiet.means.end()}};
  const Levels levels = at(all, kept);
  const double share = static_cast<double>(kept.size()) / static_cast<double>(input.medians.size());
  FlatnessOptions own = options;
  own.min_windows = static_cast<int>(options.min_windows * share);
  FlatnessInput judged = input_of(levels, input);
  judged.iterations_per_window = input.iterations_per_window / share;
  FlatnessVerdict verdict = judge(judged, own);
  count_all_windows(verdict, kept);
  return verdict;
}

/// Whether enough time was spent waiting for a core to matter.
bool waits(const FlatnessInput& input) {
  constexpr double kMatters = 0.02;
  return !input.waited.empty() && mean(input.waited) > kMatters * mean(input.means);
}

/// The sharpest verdict on what remains of the series once the machine is taken out. Four things are a
/// matter of the run: whether the kernel's mean in a window tells more about the steps' mean there than what
/// it did to their median, whether waiting for a core is in all iterations or in a few, whether disturbed
/// windows are corrected well enough to be judged with the others, and whether the iterations that were not
/// disturbed say enough by themselves. The widths of the intervals tell, which know nothing of the change.
FlatnessVerdict judge_at_even_speed(const FlatnessInput& input, const FlatnessOptions& options,
                                    double least) {
  constexpr double kErrors = 2;  // of the exponents, for 95 %
  const ReferenceSeries kernel{input.reference,
                               input.reference_means.empty() ? input.reference : input.reference_means};
  const Levels measured{{input.medians.begin(), input.medians.end()},
                        {input.means.begin(), input.means.end()}};
  struct Attempt {
    Levels after;
    Levels moved;
  };
  std::vector<Attempt> attempts;
  const auto offer = [&](MeansBy means_by, Waiting waiting) {
    attempts.push_back({corrected(input, kernel, means_by, waiting, {.least = least}),
                        corrected(input, kernel, means_by, waiting, {.least = least, .errors = kErrors})});
  };
  offer(MeansBy::kMeans, Waiting::kInFew);
  offer(MeansBy::kMedians, Waiting::kInFew);
  if (waits(input)) offer(MeansBy::kMeans, Waiting::kInAll);
  std::vector<std::vector<size_t>> choices{undisturbed(kernel)};
  if (std::vector<size_t> kept = unmixed(kernel); kept != choices[0]) choices.push_back(std::move(kept));
  std::optional<FlatnessVerdict> sharpest = judge_quiet(input, options);
  for (const std::vector<size_t>& kept : choices) {
    const Levels before = at(measured, kept);
    const double share = static_cast<double>(kept.size()) / static_cast<double>(input.medians.size());
    FlatnessOptions own = options;
    own.min_windows = static_cast<int>(options.min_windows * share);
    for (const Attempt& attempt : attempts) {
      const Levels after = at(attempt.after, kept);
      const Levels moved = at(attempt.moved, kept);
      FlatnessInput judged = input_of(after, input);
      judged.iterations_per_window = input.iterations_per_window / share;
      const Correction correction{input_of(before, input), input_of(moved, input)};
      FlatnessVerdict verdict = judge(judged, own, &correction);
      count_all_windows(verdict, kept);
      const bool none = !sharpest || sharpest->estimates.empty();
      if (none || verdict.smallest_detectable_change < sharpest->smallest_detectable_change)
        sharpest = std::move(verdict);
    }
  }
  return *std::move(sharpest);
}

/// True when the reference kernel itself took longer and longer.
bool reference_slowed(const FlatnessInput& input, const FlatnessOptions& options) {
  FlatnessInput reference = input;
  reference.medians = input.reference;
  reference.means = input.reference_means;
  const FlatnessVerdict verdict = judge(reference, options);
  return std::any_of(verdict.estimates.begin(), verdict.estimates.end(),
                     [](const ChangeEstimate& estimate) { return estimate.low > 0; });
}

}  // namespace

std::string_view flatness_name(Flatness flatness) {
  constexpr std::string_view kNames[] = {"flat", "growing", "shrinking", "inconclusive"};
  return kNames[static_cast<size_t>(flatness)];
}

bool within(const ChangeEstimate& estimate, double bound) {
  return estimate.low >= -bound && estimate.high <= bound;
}

void decide(FlatnessVerdict& verdict, std::vector<ChangeEstimate> joint) {
  const double bound = verdict.bound;
  const auto beyond_bound = [bound](const ChangeEstimate& e) { return e.low > bound || e.high < -bound; };
  const auto lesser = [](const ChangeEstimate& a, const ChangeEstimate& b) {
    return std::fabs(a.change) < std::fabs(b.change);
  };
  std::vector<ChangeEstimate> beyond;
  std::ranges::copy_if(joint, std::back_inserter(beyond), beyond_bound);
  if (std::ranges::all_of(verdict.estimates, [bound](const auto& e) { return within(e, bound); })) {
    verdict.kind = Flatness::kFlat;
  } else if (!beyond.empty()) {
    verdict.largest = *std::ranges::max_element(beyond, lesser);
    verdict.kind = verdict.largest.change > 0 ? Flatness::kGrowing : Flatness::kShrinking;
    verdict.estimates = std::move(joint);
    return;
  } else {
    verdict.kind = Flatness::kInconclusive;
    for (size_t i = 0; i < joint.size(); ++i) {  // what isn't flat may still be growth
      if (beyond_bound(verdict.estimates[i])) verdict.estimates[i] = joint[i];
    }
  }
  verdict.largest = verdict.kind == Flatness::kFlat ? *std::ranges::max_element(verdict.estimates, lesser)
                                                    : farthest(verdict.estimates);
}

FlatnessVerdict judge_flatness(const FlatnessInput& input, const FlatnessOptions& options) {
  check(input, options);
  FlatnessVerdict verdict = judge(input, options);
  if (verdict.kind == Flatness::kFlat || input.reference.empty()) return verdict;
  const bool growing = verdict.kind == Flatness::kGrowing;
  FlatnessVerdict even = judge_at_even_speed(input, options, 0);
  const auto cleared = [&even] { return even.kind == Flatness::kFlat || even.kind == Flatness::kShrinking; };
  const bool slowed = growing && !cleared() && reference_slowed(input, options);
  if (slowed && even.kind == Flatness::kGrowing) {
    // A machine that slows steadily shows nothing between neighbours; then the program is taken to slow
    // alike.
    even = judge_at_even_speed(input, options, 1);
  }
  if (growing && even.kind == Flatness::kShrinking && waits(input)) {
    // Not all of the waiting is in the steps: what they did without it lies between.
    even.reason = fmt::format("{} as measured, {} without the time that was waited for a core",
                              percent(verdict.largest.change), percent(even.largest.change));
    even.kind = Flatness::kInconclusive;
    even.iterations_to_decide = kInfinity;
    return even;
  }
  const bool sharper = even.smallest_detectable_change < verdict.smallest_detectable_change;
  // Growth that a sharper look doesn't find may be the machine's.
  const bool doubtful = sharper && even.kind == Flatness::kInconclusive;
  if (growing && !cleared() && !doubtful && (!slowed || even.kind == Flatness::kGrowing)) return verdict;
  if (even.kind == verdict.kind && !sharper) return verdict;
  even.machine_slowed = growing && cleared();
  even.reason = fmt::format("{}{}, at even speed of the machine",
                            even.machine_slowed ? "the machine slowed, not the program: " : "", even.reason);
  return even;
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
  const auto weight =
      [](const FlatnessVerdict& verdict) {  // growing decides before shrinking before inconclusive
        constexpr int kWeights[] = {0, 3, 2, 1};
        return kWeights[static_cast<size_t>(verdict.kind)];
      };
  std::optional<FlatnessVerdict> deciding;
  double deciding_rank = 0;
  bool machine_slowed = false;
  for (const ClassInput* one : judged) {
    FlatnessOptions own = options;
    own.series *= static_cast<int>(judged.size());
    own.bound *= std::clamp(kMinorShare / std::max(1e-9, one->time_share), 1.0, kMostBound);
    FlatnessVerdict verdict = judge_flatness(one->input, own);
    machine_slowed = machine_slowed || verdict.machine_slowed;
    // Of flat classes the one with most of the time speaks, else the one that has changed most.
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
