// The statistics behind the flatness verdict: robust levels and trends, tests for trend and for a change
// point, and bootstrap intervals that respect autocorrelation. Plain functions on spans of finite doubles;
// `flatness.h` combines them. All are deterministic: random draws come from Philox with a stated seed. All
// functions allocate; they are meant for use after the run, not within steps. An empty span throws
// kInvalidArgument unless stated otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "isochron/core/base/rng.h"

namespace isochron::observe {

double mean(std::span<const double> values);
/// Mean of the two middle values when the count is even.
double median(std::span<const double> values);
/// Linear interpolation between order statistics (type 7 of Hyndman and Fan, "Sample Quantiles in Statistical
/// Packages", The American Statistician 50, 1996). `fraction` in [0, 1], else kOutOfRange.
double quantile(std::span<const double> values, double fraction);
/// The mean without the smallest and the largest `part` of the values, each rounded down to whole values.
/// Throws kOutOfRange for `part` outside [0, 0.5). A part of a quarter gives Tukey's midmean.
double trimmed_mean(std::span<const double> values, double part);
/// Ranks, from 1. Ties get their mean rank.
std::vector<double> ranks(std::span<const double> values);
/// Autocorrelation at `lag` >= 0; 0 for a constant series.
double autocorrelation(std::span<const double> values, int lag);

/// A line through (i, values[i]).
struct Line {
  double slope = 0;      // per index
  double intercept = 0;  // at index 0
};
/// The median of all pairwise slopes. It stays bounded if up to 29 % of the values are arbitrary. O(n^2) time
/// and memory. Theil 1950; Sen, "Estimates of the Regression Coefficient Based on Kendall's Tau", JASA 63,
/// 1968.
Line theil_sen(std::span<const double> values);
/// The slope alone; `scratch` is reused between calls.
double theil_sen_slope(std::span<const double> values, std::vector<double>& scratch);

/// Slope per index of the line with the least squared deviations; 0 for fewer than two values.
double least_squares_slope(std::span<const double> values);

/// Test for a monotone trend.
struct MannKendall {
  double tau = 0;            // Kendall's tau against time, in [-1, 1]
  double z = 0;              // standard score after the correction
  double p_value = 1;        // two-sided, after the correction
  double plain_p_value = 1;  // two-sided, as if the values were independent
};
/// Mann, "Nonparametric Tests Against Trend", Econometrica 13, 1945; the variance is corrected for ties and
/// for dependence (by the significant autocorrelations of the ranks): Hamed and Rao, "A Modified Mann-Kendall
/// Trend Test for Autocorrelated Data", J. Hydrology 204, 1998. Needs at least 4 values, else
/// kInvalidArgument.
MannKendall mann_kendall(std::span<const double> values);

/// Where a level changes, if it does.
struct ChangePoint {
  int index = 0;         // first index of the second level
  double statistic = 0;  // K = max |U|
  double p_value = 1;    // for independent values
};
/// Pettitt, "A Non-Parametric Approach to the Change-Point Problem", Applied Statistics 28, 1979. Only
/// positions that leave at least `margin` >= 1 values on both sides are considered.
ChangePoint pettitt(std::span<const double> values, int margin = 1);

/// Block length for the circular block bootstrap, in [ceil(n^(1/3)), n / 4] (at least 1): the rule of Politis
/// and White, "Automatic Block-Length Selection for the Dependent Bootstrap", Econometric Reviews 23, 2004
/// (corrected 2009), with the spectrum of the AR(1) process of the same first autocorrelation.
int block_length(std::span<const double> residuals);
/// Fills `indices` with consecutive runs of `block` indices that wrap around: Politis and Romano, "A Circular
/// Block-Resampling Procedure for Stationary Data", 1992.
void draw_circular_blocks(std::span<int> indices, int block, Rng& rng);

struct Interval {
  double low = 0;
  double high = 0;
};
struct BootstrapOptions {
  double confidence = 0.95;
  int replicates = 499;
  uint64_t seed = 1;
};
/// Basic (reverse percentile) circular block bootstrap interval of `statistic` of a stationary series.
Interval bootstrap_interval(std::span<const double> values,
                            const std::function<double(std::span<const double>)>& statistic,
                            const BootstrapOptions& options = {});

/// The two-sided quantile of Student's t distribution: |t| lies below it with probability `confidence`. The
/// relative error is at most 1e-9. Throws kInvalidArgument unless `degrees` >= 1 and `confidence` is in (0,
/// 1). Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
double student_quantile(double confidence, int degrees);

/// A period found in the iterations at which something happened.
struct Period {
  int64_t length = 0;   // iterations
  double share = 0;     // share of the events that lie on it
  double coverage = 0;  // share of its beats, from the first to the last event, that have an event
};
/// The period of most of the ascending `iterations`; nullopt if there is none. The candidates are the gaps
/// between near neighbors. The candidate with the largest share times coverage is accepted if both are at
/// least a half, if 4 or more events lie on it, and if that many would occur by chance in less than one of a
/// thousand such searches.
std::optional<Period> find_period(std::span<const int64_t> iterations);

}  // namespace isochron::observe
