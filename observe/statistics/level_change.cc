#include "isochron/observe/statistics/level_change.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "isochron/core/base/rng.h"
#include "isochron/observe/statistics/recurring.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {
namespace {

constexpr size_t kPoints = 64;  // longer series are grouped into about this many points
constexpr double kSmallestBaseline =
    1e-3;  // of the largest value, so that growth from zero is at most a thousandfold
constexpr int kFewestDegrees = 3;

using Values = std::vector<double>;

bool robust(Track track) { return track != Track::kMeans; }

double level_of(Track track, std::span<const double> points) {
  return robust(track) ? trimmed_mean(points, 0.2) : mean(points);
}

double slope_of(Track track, std::span<const double> points, Values& scratch) {
  return robust(track) ? theil_sen_slope(points, scratch) : least_squares_slope(points);
}

/// Groups windows into points. A remainder is dropped at the beginning.
Values grouped(Track track, std::span<const double> values) {
  const size_t size = windows_per_point(values.size());
  Values points;
  for (size_t at = values.size() % size; at < values.size(); at += size)
    points.push_back(level_of(track, values.subspan(at, size)));
  return points;
}

/// Replaces the season by its mean, or in a robust track by its median, so that rare long iterations don't
/// raise the level with which changes are compared.
Values without_season(Track track, Values values) {
  std::optional<Season> season = find_season(values);
  if (!season) return values;
  if (robust(track)) {
    const double usual = median(season->profile);
    for (double& deviation : season->profile) deviation -= usual;
  }
  return without(*season, values);
}

std::span<const double> values_of(Track track, const WindowLevels& levels) {
  switch (track) {
    case Track::kMedians:
      return levels.medians;
    case Track::kTrimmedMeans:
      return levels.trimmed_means;
    case Track::kMeans:
      return levels.means;
  }
  return {};
}

Values points_of(Track track, const WindowLevels& levels) {
  const std::span<const double> values = values_of(track, levels);
  if (robust(track)) return grouped(track, without_season(track, {values.begin(), values.end()}));
  const bool trimmed = !levels.trimmed_means.empty();
  return grouped(track,
                 without_season(track, with_long_iterations_spread(
                                           trimmed ? levels.trimmed_means : levels.medians, levels.means)));
}

Statistics statistics_of(Track track, size_t change_point, std::span<const double> points, Values& scratch) {
  const size_t n = points.size();
  return {slope_of(track, points, scratch) * static_cast<double>(n),
          level_of(track, points.last(tenth(n))) - level_of(track, points.first(tenth(n))),
          level_of(track, points.subspan(change_point)) - level_of(track, points.first(change_point)),
          level_of(track, points.last(tenth(n))) - level_of(track, points.first(n - tenth(n)))};
}

/// The level that changes are relative to, which is that of the first tenth.
double baseline_of(std::span<const double> points) {
  const double largest = *std::max_element(points.begin(), points.end());
  const double baseline = std::max(median(points.first(tenth(points.size()))), kSmallestBaseline * largest);
  return baseline > 0 ? baseline : 1;  // all zero
}

/// A piecewise linear curve through the medians of eighths of the points, extrapolated at both ends. Empty
/// unless these medians always rise or always fall, which slowly wandering noise doesn't.
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

/// The position of the step from one level to another that has the least absolute deviations, with at least a
/// tenth of the points on each side. Pettitt's test detects a step, but locates it poorly if one side is
/// short.
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

/// A step: one level before point `at`, another from there on.
Values step(std::span<const double> points, size_t at) {
  Values fit(points.size(), median(points.first(at)));
  std::fill(fit.begin() + static_cast<std::ptrdiff_t>(at), fit.end(), median(points.subspan(at)));
  return fit;
}

/// Whether a step is several times larger than the noise around it, so that its fitted position is right.
bool is_evident(const Values& step, std::span<const double> points) {
  constexpr double kEvident = 6;
  Values sizes;
  for (size_t i = 0; i < points.size(); ++i) sizes.push_back(std::fabs(points[i] - step[i]));
  return std::fabs(step.back() - step.front()) > kEvident * median(sizes);
}

/// A gradual step: one level before point `begin`, another from `end` on, and a straight line in between. If
/// there are no points before `begin` or from `end` on, the line is extended from the known level.
Values ramp(std::span<const double> points, size_t begin, size_t end) {
  const size_t n = points.size();
  const size_t length = end - begin;
  double before = begin > 0 ? median(points.first(begin)) : 0;
  double after = end < n ? median(points.subspan(end)) : 0;
  constexpr size_t kFar = 4;  // points beyond a quarter of the way from the known end
  Values slopes;              // of the lines from the known level to the far points
  for (size_t i = begin; i < end; ++i) {
    const double from_begin = static_cast<double>(i - begin + 1), to_end = static_cast<double>(end - i);
    if (end == n && kFar * (i - begin) >= length) slopes.push_back((points[i] - before) / from_begin);
    if (begin == 0 && kFar * (end - i) >= length) slopes.push_back((after - points[i]) / to_end);
  }
  if (end == n) after = before + median(slopes) * static_cast<double>(length);
  if (begin == 0) before = after - median(slopes) * static_cast<double>(length);
  Values fit(n, before);
  for (size_t i = begin; i < n; ++i) {
    const double part = static_cast<double>(i - begin + 1) / static_cast<double>(length + 1);
    fit[i] = i < end ? std::lerp(before, after, part) : after;
  }
  return fit;
}

/// Approximately the ramp with the least absolute deviations: starts with the best ramp whose ends are whole
/// tenths of the points, and moves to a better one nearby as long as there is one. Each part of the ramp has
/// at least a tenth of the points or is missing.
Values best_ramp(std::span<const double> points) {
  constexpr size_t kParts = 10;
  const size_t n = points.size();
  Values best;
  double least = kInfinity;
  size_t begin = 0, end = 0;
  const auto offer = [&](size_t b, size_t e) {
    const auto too_short = [n](size_t length) { return length > 0 && length < tenth(n); };
    if (e > n || e < b + tenth(n) || too_short(b) || too_short(n - e) || e - b == n) return;  // n: a line
    Values fit = ramp(points, b, e);
    double deviation = 0;
    for (size_t i = 0; i < n; ++i) deviation += std::fabs(points[i] - fit[i]);
    if (deviation >= least) return;
    least = deviation;
    best = std::move(fit);
    begin = b;
    end = e;
  };
  for (size_t b = 0; b < kParts; ++b) {
    for (size_t e = b + 1; e <= kParts; ++e) offer(b * n / kParts, e * n / kParts);
  }
  for (size_t step = std::max<size_t>(1, n / 20); step > 0;) {
    const size_t b = begin, e = end;
    for (const size_t moved_begin : {b - std::min(b, step), b, b + step}) {
      for (const size_t moved_end : {e - step, e, e + step}) offer(moved_begin, moved_end);
    }
    if (b == begin && e == end) step /= 2;
  }
  return best;
}

/// Three levels with the least squared deviations. The first and the last have at least a tenth of the
/// points, the middle one at least a twentieth. They are an excursion if the middle one isn't between the
/// others.
std::pair<Values, std::optional<Excursion>> best_three_levels(std::span<const double> points) {
  const size_t n = points.size(), at_ends = tenth(n), between = std::max<size_t>(1, n / 20);
  Values sums(n + 1, 0);
  for (size_t i = 0; i < n; ++i) sums[i + 1] = sums[i] + points[i];
  const auto explained = [&](size_t begin, size_t end) {  // sum of squares that a level explains
    const double sum = sums[end] - sums[begin];
    return sum * sum / static_cast<double>(end - begin);
  };
  double most = -kInfinity;
  size_t first = 0, second = 0;
  for (size_t a = at_ends; a + between + at_ends <= n; ++a) {
    for (size_t b = a + between; b + at_ends <= n; ++b) {
      const double here = explained(0, a) + explained(a, b) + explained(b, n);
      if (here <= most) continue;
      most = here;
      first = a;
      second = b;
    }
  }
  const double before = median(points.first(first)), during = median(points.subspan(first, second - first));
  Values fit(n, before);
  std::fill(fit.begin() + static_cast<std::ptrdiff_t>(first),
            fit.begin() + static_cast<std::ptrdiff_t>(second), during);
  const double behind = median(points.subspan(second));
  std::fill(fit.begin() + static_cast<std::ptrdiff_t>(second), fit.end(), behind);
  std::optional<Excursion> excursion;
  if (before > 0 && (during - before) * (behind - during) < 0)
    excursion = Excursion{first, second, during / before - 1};
  return {std::move(fit), excursion};
}

/// The AR(1) coefficient of the residuals: their first autocorrelation, corrected for its bias (Kendall
/// 1954). n / long_run_variance of this coefficient is the effective sample size of n points.
double autoregression(std::span<const double> residuals) {
  const double biased = std::max(0.0, autocorrelation(residuals, 1));
  return std::min(0.97, biased + (2 + 4 * biased) / static_cast<double>(residuals.size()));
}
double long_run_variance(double rho) { return (1 + rho) / (1 - rho); }

/// A noise-free curve that describes the points.
struct Shape {
  int parameters = 0;
  Values fit = {};
  std::optional<Statistic> statistic = {};  // the statistic that corresponds to the shape; none: constant
  std::optional<Excursion> excursion = {};
  double deviation = 0;  // mean absolute
};

Values residuals_of(std::span<const double> points, const Shape& shape) {
  Values residuals(points.size());
  for (size_t i = 0; i < points.size(); ++i) residuals[i] = points[i] - shape.fit[i];
  return residuals;
}

/// The simplest of constant, line, step, ramp, three levels and monotone curve that explains the points, by
/// the Bayesian information criterion for Laplace noise (which forgives outliers). The criterion's sample
/// size is the number of independent points, estimated from the residuals of the closest shape, because a
/// wandering level easily resembles some shape.
Shape shape_of(std::span<const double> points, size_t step_at) {
  constexpr size_t kFewestOfMany = 20;
  const size_t n = points.size();
  std::vector<Shape> shapes;
  const auto offer = [&](int parameters, const Values& fit, std::optional<Statistic> statistic) {
    if (fit.empty()) return;
    shapes.push_back({.parameters = parameters, .fit = fit, .statistic = statistic});
    double sum = 0;
    for (const double residual : residuals_of(points, shapes.back())) sum += std::fabs(residual);
    shapes.back().deviation = sum / static_cast<double>(n);
  };
  const double level = median(points);
  offer(1, Values(n, level), std::nullopt);
  const Line line = theil_sen(points);
  Values straight(n);
  for (size_t i = 0; i < n; ++i) straight[i] = line.intercept + line.slope * static_cast<double>(i);
  offer(2, straight, kTrend);
  offer(3, step(points, step_at), kStep);
  if (n >= kFewestOfMany) {
    offer(4, best_ramp(points), kLastTenth);
    const auto [fit, excursion] = best_three_levels(points);
    offer(5, fit, kLastTenth);
    shapes.back().excursion = excursion;
  }
  offer(8, monotone_curve(points), kLastTenth);
  const Shape& closest = *std::ranges::min_element(shapes, {}, &Shape::deviation);
  const double independent = std::max(
      2.0, static_cast<double>(n) / long_run_variance(autoregression(residuals_of(points, closest))));
  const double least = 1e-12 * (1e-300 + std::fabs(level));  // rounding errors aren't noise
  const auto score = [&](const Shape& shape) {
    return 2 * independent * std::log(shape.deviation + least) + shape.parameters * std::log(independent);
  };
  return *std::ranges::min_element(shapes, {}, score);
}

/// Whether the points never fall back by more than a hundredth of their total rise. This is typical of a
/// count, or of memory that is never given back, but not of noise. `sign` is -1 to check for falling points.
bool only_rises(std::span<const double> points, double sign) {
  constexpr double kMaxBack = 0.01;
  const double rise = sign * (points.back() - points.front());
  double highest = sign * points.front(), most_back = 0;
  for (const double point : points) {
    highest = std::max(highest, sign * point);
    most_back = std::max(most_back, highest - sign * point);
  }
  return rise > 0 && most_back <= kMaxBack * rise;
}

/// The noise of points that only rise, computed from each point's distance to the line between its neighbors,
/// which has 3/2 of the noise's variance. A count that rises now and then has no noise: most of its points
/// lie on that line.
Values noise_between_neighbors(std::span<const double> points) {
  const size_t n = points.size();
  Values noise(n), sizes;
  for (size_t i = 0; i < n; ++i) {
    const size_t middle = std::clamp<size_t>(i, 1, n - 2);
    noise[i] = std::sqrt(2.0 / 3) * (points[middle] - 0.5 * (points[middle - 1] + points[middle + 1]));
    sizes.push_back(std::fabs(noise[i]));
  }
  if (median(sizes) == 0) std::ranges::fill(noise, 0);
  return noise;
}

/// A track and the intermediate results of its judgement.
struct Judged {
  LevelChange result;
  Values points;
  Shape shape;
  Values residuals;
  double rho = 0;
};

Judged judged(Track track, const WindowLevels& levels, bool corrected) {
  Judged one;
  one.result.track = track;
  one.points = points_of(track, levels);
  const std::span<const double> points = one.points;
  const size_t n = points.size();
  LevelChange& result = one.result;
  result.baseline = baseline_of(points);
  result.change_point = static_cast<size_t>(pettitt(points, static_cast<int>(tenth(n))).index);
  const size_t step_at = best_step(points);
  const bool rises = only_rises(points, 1) || only_rises(points, -1);
  if (rises) {
    one.shape.fit = one.points;
    one.shape.statistic = kLastTenth;
    one.residuals = noise_between_neighbors(points);
  } else {
    one.shape = shape_of(points, step_at);
    one.residuals = residuals_of(points, one.shape);
  }
  result.shape = one.shape.statistic;
  result.excursion = one.shape.excursion;
  one.rho = autoregression(one.residuals);
  result.independent = static_cast<double>(n) / long_run_variance(one.rho);
  // Corrects for the noise that the fit has absorbed, by its degrees of freedom, counted in independent
  // points.
  const double freedom = result.independent / std::max(1.0, result.independent - one.shape.parameters);
  double squares = 0;
  for (double& residual : one.residuals) {
    residual *= std::sqrt(freedom);
    squares += residual * residual;
  }
  result.wander = std::sqrt(squares / static_cast<double>(n)) / result.baseline;
  if ((result.shape == kStep || rises) && !corrected && is_evident(step(points, step_at), points))
    result.change_point = step_at;
  Values scratch;
  result.changes = statistics_of(track, result.change_point, points, scratch);
  for (double& change : result.changes) change /= result.baseline;
  return one;
}

/// The square root of the ratio of an AR(1) process's long-run variance to the part of that variance that
/// blocks of this length carry.
double left_out_by_blocks(double rho, int block) {
  double carried = 1;
  for (int lag = 1; lag < block; ++lag)
    carried += 2 * (1 - static_cast<double>(lag) / block) * std::pow(rho, lag);
  return std::sqrt(long_run_variance(rho) / carried);
}

/// Standard errors of every statistic of every track, relative to its baseline.
std::vector<Statistics> standard_errors(std::span<const Judged> tracks, const LevelChangeOptions& options) {
  const size_t n = tracks[0].points.size();
  int block = 1;
  for (const Judged& track : tracks) block = std::max(block, block_length(track.residuals));
  Rng rng(options.seed);
  std::vector<int> indices(n);
  Values drawn(n), scratch;
  std::vector<Statistics> squares(tracks.size(), Statistics{}), of_fit;
  for (const Judged& track : tracks)
    of_fit.push_back(statistics_of(track.result.track, track.result.change_point, track.shape.fit, scratch));
  for (int r = 0; r < options.replicates; ++r) {
    draw_circular_blocks(indices, block, rng);
    for (size_t t = 0; t < tracks.size(); ++t) {
      const Judged& track = tracks[t];
      for (size_t i = 0; i < n; ++i)
        drawn[i] = track.shape.fit[i] + track.residuals[static_cast<size_t>(indices[i])];
      const Statistics here = statistics_of(track.result.track, track.result.change_point, drawn, scratch);
      for (size_t s = 0; s < kStatistics; ++s) {
        const double error = (here[s] - of_fit[t][s]) / track.result.baseline;
        squares[t][s] += error * error;
      }
    }
  }
  for (size_t t = 0; t < tracks.size(); ++t) {
    const double correction = left_out_by_blocks(tracks[t].rho, block);
    for (double& square : squares[t]) square = correction * std::sqrt(square / options.replicates);
  }
  return squares;
}

/// The relative variance of the mean, that is, how precisely a level is known.
double uncertainty(const Judged& track) {
  return track.result.wander * track.result.wander / track.result.independent;
}

/// The medians or the trimmed means, whichever are known more precisely, and the means. The choice doesn't
/// depend on how they change.
std::vector<Judged> judged_tracks(const WindowLevels& levels, bool corrected) {
  std::vector<Judged> tracks{judged(Track::kMedians, levels, corrected)};
  if (!levels.trimmed_means.empty()) {
    Judged trimmed = judged(Track::kTrimmedMeans, levels, corrected);
    if (uncertainty(trimmed) < uncertainty(tracks[0])) tracks[0] = std::move(trimmed);
  }
  if (!levels.means.empty()) tracks.push_back(judged(Track::kMeans, levels, corrected));
  return tracks;
}

}  // namespace

std::string_view statistic_name(Track track, Statistic statistic) {
  constexpr std::string_view kNames[][kStatistics] = {
      {"trend of medians", "last tenth of medians", "change point of medians", "end of medians"},
      {"trend of trimmed means", "last tenth of trimmed means", "change point of trimmed means",
       "end of trimmed means"},
      {"trend of means", "last tenth of means", "change point of means", "end of means"}};
  return kNames[static_cast<size_t>(track)][statistic];
}

size_t tenth(size_t n) { return std::max<size_t>(1, n / 10); }
size_t windows_per_point(size_t windows) { return std::max<size_t>(1, (windows + kPoints / 2) / kPoints); }

std::vector<LevelChange> level_changes(const WindowLevels& levels, const LevelChangeOptions& options) {
  std::vector<Judged> tracks = judged_tracks(levels, options.corrected);
  const std::vector<Statistics> errors = standard_errors(tracks, options);
  const double statistics = static_cast<double>(kStatistics * tracks.size());
  std::vector<LevelChange> result;
  for (size_t t = 0; t < tracks.size(); ++t) {
    LevelChange& change = tracks[t].result;
    const int degrees = std::max(kFewestDegrees, static_cast<int>(change.independent) - 2);
    const double own = student_quantile(2 * options.confidence - 1, degrees);
    const double joint = student_quantile(1 - (1 - options.joint_confidence) / statistics, degrees);
    for (size_t s = 0; s < kStatistics; ++s) {
      change.half_widths[s] = own * errors[t][s];
      change.joint_half_widths[s] = joint * errors[t][s];
    }
    result.push_back(change);
  }
  return result;
}

Statistics changes_at(const LevelChange& change, const WindowLevels& levels) {
  const Values points = points_of(change.track, levels);
  Values scratch;
  Statistics changes = statistics_of(change.track, change.change_point, points, scratch);
  for (double& one : changes) one /= baseline_of(points);
  return changes;
}

}  // namespace isochron::observe
