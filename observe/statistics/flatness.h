// The verdict: does a series (iteration time, resident set, a count) stay flat over a run, grow or shrink?
// The recorder supplies the windows. docs/flatness.md describes the method and its sources;
// docs/flatness-error-rates.md has measured error rates.
//
// Four statistics of the windows' levels (level_change.h) measure by how much the series changed, each with
// an interval. The verdict is an equivalence test: flat if every interval lies within the bound. The series
// is judged as measured (series_verdict.h). If it isn't flat, it is judged again with the machine's influence
// removed (even_speed.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {

enum class Flatness {
  kFlat,          // the whole interval of the change lies within the bound
  kGrowing,       // it lies above
  kShrinking,     // it lies below
  kInconclusive,  // otherwise; `reason` and `iterations_to_decide` say what is missing
};
/// "flat", "growing", "shrinking", "inconclusive".
std::string_view flatness_name(Flatness flatness);

struct FlatnessOptions {
  double bound = 0.05;       // largest change over the run that is still flat, relative to the first tenth
  double confidence = 0.95;  // of flat; growing and shrinking need a fifth of its error probability
  int series = 1;            // number of series that are judged together; they share the error of growing
  int min_windows = 64;      // with fewer windows after warm-up, the verdict is inconclusive
  double min_seconds = 2;    // the same for a shorter run, if its length is known
  double max_warmup = 0.1;   // largest share of the windows that may be excluded as warm-up
  bool rise_settles =
      true;              // whether a lower level at the beginning is warm-up: of memory it is, of times not
  int replicates = 299;  // bootstrap resamplings
  uint64_t seed = 1;
};

/// What to judge: one value per window of equal size, in order, none negative.
struct FlatnessInput {
  std::span<const double> medians;               // window medians, or the values of any series
  std::span<const double> trimmed_means = {};    // without the shortest and longest twentieth; may be empty
  std::span<const double> means = {};            // window means; empty where a window has one value only
  std::span<const double> reference = {};        // typical time of the fixed reference kernel per window
  std::span<const double> reference_means = {};  // and its mean; empty: the same
  std::span<const double> waited = {};           // for a core, of each window's mean; empty: not known
  /// Medians and means of the undisturbed iterations of each window (windows.h: QuietIterations), and their
  /// share of the window's iterations; empty: not known. If a share is 0, the other two values have no
  /// meaning.
  std::span<const double> quiet_medians = {};
  std::span<const double> quiet_means = {};
  std::span<const double> quiet_shares = {};
  double iterations_per_window = 1;
  std::optional<double> seconds = std::nullopt;  // how long the run took; unknown: not required
};

/// One statistic's relative change over the run (0.05: 5 % up), with the interval that decides. By default
/// that is the interval of two one-sided tests at the confidence (90 % for a confidence of 95 %). If growing
/// or shrinking is found, or this statistic rules out flat, it is the joint interval of all statistics. By
/// default that is at 99 %: false alarms are allowed a fifth of the error of the other claims.
struct ChangeEstimate {
  std::string_view name;  // "trend of medians", "last tenth of means", ...
  double change = 0;
  double low = 0;
  double high = 0;
  /// Which verdicts need this estimate. Flat doesn't need an estimate that repeats another one with more
  /// noise; growing and shrinking don't need a trend where the values don't follow a line.
  enum class Asked { kAlways, kForFlat, kForChange } asked = Asked::kAlways;
};

struct FlatnessVerdict {
  Flatness kind = Flatness::kInconclusive;
  bool machine_slowed = false;  // growing as measured, but not after the correction for the machine's speed
  double bound = 0;             // that the change was compared with
  ChangeEstimate largest;       // largest absolute change; beyond the bound, that of the series' shape
  std::vector<ChangeEstimate> estimates;
  double first_tenth = 0;  // level of the medians, in the series' unit, after warm-up
  double last_tenth = 0;
  double slope = 0;  // Theil-Sen, unit per iteration, with its interval
  Interval slope_interval;
  MannKendall trend_test;
  int change_point = 0;                   // window, counted from the first after warm-up
  double change_point_p = 1;              // Pettitt's, for independent windows
  int windows = 0;                        // judged
  int warmup_windows = 0;                 // excluded as warm-up
  double warmup_change = 0;               // of the level, from the excluded windows to those that follow
  double smallest_detectable_change = 0;  // half the widest interval: smaller changes can't be detected
  /// The total number of iterations of such a run that would decide, if the change stays the same. 0: it is
  /// decided. Infinity: the change is so close to the bound that more than 10,000 times as many would be
  /// needed, or only turns beside a twin decide.
  double iterations_to_decide = 0;
  std::string reason;  // one line for people
};

/// Judges a series. Warm-up ends by the MSER rule (White, "An Effective Truncation Heuristic for Bias
/// Reduction in Simulation Output", Simulation 69, 1997) within the first `max_warmup` of the windows: a
/// change there counts as settling. Fewer than four windows give inconclusive. Throws kShapeMismatch if a
/// list isn't empty and differs in length from `medians`, kNotANumber for a value that isn't finite,
/// kInvalidArgument for a negative value or options outside their range.
FlatnessVerdict judge_flatness(const FlatnessInput& input, const FlatnessOptions& options = {});

/// The verdict over steps of several classes (plan, accumulation phase). Each class is judged by itself, and
/// the error probability of growing is divided among them (Bonferroni). The run is growing if any class is,
/// and flat if all are. A class with less than `kMinorShare` of the time has a proportionally wider bound, at
/// most five times as wide, so its unnoticed change is at most a tenth of the bound over the whole run. If it
/// has too few windows and less than half that share, it is left out. The numbers in the result are those of
/// the class that decides. Throws kInvalidArgument if there is no class.
struct ClassInput {
  FlatnessInput input;
  double time_share = 1;  // of the run's time
};
inline constexpr double kMinorShare = 0.1;
/// The bound for a class that takes `time_share` of the time.
double bound_of_class(double bound, double time_share);
FlatnessVerdict judge_classes(std::span<const ClassInput> classes, const FlatnessOptions& options = {});

/// "flat: +0.4 % [-0.8 %, +1.5 %] (trend of medians)", for tables and logs.
std::string verdict_text(const FlatnessVerdict& verdict);

/// Whether the whole interval lies within the bound.
bool within(const ChangeEstimate& estimate, double bound);
/// Whether the whole interval lies above the bound, or below its negative.
bool surely_beyond(const ChangeEstimate& estimate, double bound);
/// For other ways of estimating a change: sets `kind`, `estimates` and `largest` from `verdict.estimates` and
/// the bound. Flat if each of the estimates lies within the bound; otherwise growing or shrinking if one of
/// the `joint` intervals lies beyond it; otherwise inconclusive.
void decide(FlatnessVerdict& verdict, std::vector<ChangeEstimate> joint);

}  // namespace isochron::observe
