// The verdict: does a series (iteration time, resident set, a count) stay flat over a run, grow or shrink?
// The recorder supplies the windows. `docs/flatness.md` gives method, sources and measured error rates.
//
// Four statistics of the windows' levels (level_change.h) say by how much the series changed, each with an
// interval. The verdict is one of equivalence: flat when every interval lies within the bound. It is reached
// on the series as it is (series_verdict.h), and where that is not flat, once more with what the machine did
// taken out (even_speed.h).
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
  kInconclusive,  // neither; `reason` and `iterations_to_decide` say what is missing
};
/// "flat", "growing", "shrinking", "inconclusive".
std::string_view flatness_name(Flatness flatness);

struct FlatnessOptions {
  double bound = 0.05;       // largest change over the run that is still flat, relative to the first tenth
  double confidence = 0.95;  // of either claim, flat and growing
  int series = 1;            // that growth is looked for in: they share its confidence
  int min_windows = 64;      // a verdict other than inconclusive needs as many windows after warm-up,
  double min_seconds = 2;    // and as long a run where its length is known
  double max_warmup = 0.1;   // largest part of the windows that the settling rule may exclude
  int replicates = 299;      // bootstrap resamplings
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
  /// Of the iterations that the machine left alone (windows.h: QuietIterations), and their share of each
  /// window's; empty: not known. Where the share is 0 the others mean nothing.
  std::span<const double> quiet_medians = {};
  std::span<const double> quiet_means = {};
  std::span<const double> quiet_shares = {};
  double iterations_per_window = 1;
  std::optional<double> seconds = std::nullopt;  // how long the run took; unknown: not required
};

/// One statistic's relative change over the run, 0.05 is 5 % up, with the interval that decides: its own
/// between two one-sided tests (90 %); where growing or shrinking is found, or flat is ruled out by this
/// statistic, the joint one at the confidence (95 %).
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
  bool machine_slowed = false;  // growing as measured, but not once the machine's speed is taken out, as here
  double bound = 0;             // what it was held against
  ChangeEstimate largest;       // largest absolute one; beyond the bound, the one of the shape it has
  std::vector<ChangeEstimate> estimates;
  double first_tenth = 0;  // level of the medians, in the series' unit, after warm-up
  double last_tenth = 0;
  double slope = 0;  // Theil-Sen, unit per iteration, with its interval
  Interval slope_interval;
  MannKendall trend_test;
  int change_point = 0;       // window, counted from the first after warm-up
  double change_point_p = 1;  // Pettitt's, for independent windows
  int windows = 0;            // judged
  int warmup_windows = 0;     // excluded by the settling rule
  double smallest_detectable_change =
      0;  // half the widest interval: less than this could not be told from none
  /// Iterations of such a run (in all) that would bring a decision if the change stays what it is; 0 when
  /// decided, infinity when the change sits on the bound (it would take 10,000 times more), or turns beside
  /// a twin decide.
  double iterations_to_decide = 0;
  std::string reason;  // one line for people
};

/// Judges a series. Warm-up ends by the MSER rule (White, "An Effective Truncation Heuristic for Bias
/// Reduction in Simulation Output", Simulation 69, 1997) within the first `max_warmup` of the windows: a
/// change there counts as settling. Fewer than four windows give inconclusive. Throws kShapeMismatch when
/// `means` or `reference` differ in length from `medians`, kNotANumber and kInvalidArgument for a value that
/// is no number or negative, or for options out of their range.
FlatnessVerdict judge_flatness(const FlatnessInput& input, const FlatnessOptions& options = {});

/// The verdict over steps of several classes (plan, accumulation phase), each judged within itself, with the
/// confidence of growing shared out (Bonferroni). A class with less than `kMinorShare` of the time is left
/// out when it has too few windows and not half that share, else its bound is wider in proportion, at most
/// five times: what may pass of each stays within a tenth of the bound over the whole run; growing in any
/// class is growing, flat needs all. Numbers are those of the class that decides. Throws kInvalidArgument
/// when there is no class.
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
/// Sets `kind`, `estimates` and `largest` by the bound, for other ways of estimating a change: flat where
/// each of `estimates` lies within it, else growing or shrinking where one of the `joint` intervals lies
/// beyond it, else inconclusive.
void decide(FlatnessVerdict& verdict, std::vector<ChangeEstimate> joint);

}  // namespace isochron::observe
