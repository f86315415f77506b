// A verdict, and how the intervals of changes decide it.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {

enum class Flatness {
  kFlat,          // the whole interval of the change lies within the bound
  kGrowing,       // the whole interval lies above the bound
  kShrinking,     // the whole interval lies below the negative bound
  kInconclusive,  // otherwise; `reason` and `iterations_to_decide` say what is missing
};
/// "flat", "growing", "shrinking", "inconclusive".
std::string_view flatness_name(Flatness flatness);

/// One statistic's relative change over the run (0.05: 5 % up), with the interval that decides. This usually
/// is the interval of two one-sided tests at the confidence (a 90 % interval for a confidence of 95 %). If
/// growing or shrinking is found, or if this statistic rules out flat, it is the joint interval of all
/// statistics, by default at 99 %: false alarms are allowed a fifth of the error of the other claims.
struct ChangeEstimate {
  std::string_view name;  // "trend of medians", "last tenth of means", ...
  double change = 0;
  double low = 0;
  double high = 0;
  /// Which verdicts use this estimate. Flat ignores an estimate that repeats another one with more noise;
  /// growing and shrinking ignore a trend if the values don't follow a line.
  enum class Asked { kAlways, kForFlat, kForChange } asked = Asked::kAlways;
};

struct FlatnessVerdict {
  Flatness kind = Flatness::kInconclusive;
  bool machine_slowed = false;  // growing as measured, but not after the correction for the machine's speed
  double bound = 0;             // the bound that the change was compared with
  ChangeEstimate largest;       // largest absolute change, or beyond the bound, that of the series' shape
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
  double warmup_change = 0;               // change of the level after the excluded windows
  double smallest_detectable_change = 0;  // half the widest interval: smaller changes can't be detected
  /// The total number of iterations after which such a run would be decided if the change stays the same. 0:
  /// it is decided. Infinity: more than 10,000 times as many iterations would be needed, because the change
  /// is so close to the bound, or only turns beside a twin can decide.
  double iterations_to_decide = 0;
  std::string reason;    // one line for people
  std::string left_out;  // the end of `reason`, if warm-up hid more than the bound
};

/// "flat: +0.40 % [-0.80 %, +1.50 %] (trend of medians)", for tables and logs.
std::string verdict_text(const FlatnessVerdict& verdict);

/// Whether the whole interval lies within the bound.
bool within(const ChangeEstimate& estimate, double bound);
/// Whether the whole interval lies above the bound, or below its negative.
bool surely_beyond(const ChangeEstimate& estimate, double bound);
/// Sets `kind`, `estimates` and `largest` from `verdict.estimates` and the bound. Flat if each estimate lies
/// within the bound; otherwise growing or shrinking if one of the `joint` intervals lies beyond it; otherwise
/// inconclusive.
void decide(FlatnessVerdict& verdict, std::vector<ChangeEstimate> joint);
/// Makes a verdict inconclusive. By default, a longer run wouldn't decide either.
void doubt(FlatnessVerdict& verdict, std::string reason,
           double iterations_to_decide = std::numeric_limits<double>::infinity());

/// The estimate whose interval reaches farthest from zero.
const ChangeEstimate& farthest(std::span<const ChangeEstimate> estimates);
/// "+1.25 %"
std::string percent(double change);

}  // namespace isochron::observe
