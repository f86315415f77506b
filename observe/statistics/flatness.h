// The verdict: does a series (iteration time, resident set, a count) stay flat over a run, grow or shrink?
// The recorder supplies the windows. docs/flatness.md describes the method and its sources;
// docs/flatness-error-rates.md has measured error rates.
//
// Four statistics of the windows' levels (level_change.h) estimate how much the series changed, each with an
// interval. The verdict is an equivalence test: a series is flat if every interval lies within the bound. The
// series is judged as measured (series_verdict.h). If it isn't flat, it is judged again with the machine's
// influence removed (even_speed.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "isochron/observe/statistics/verdict.h"

namespace isochron::observe {

struct FlatnessOptions {
  double bound = 0.05;       // largest change over the run that is still flat, relative to the first tenth
  double confidence = 0.95;  // of flat; for growing and shrinking the error probability is a fifth as large
  int series = 1;            // number of series judged together; they share the error of growing
  int min_windows = 64;      // with fewer windows after warm-up, the verdict is inconclusive
  double min_seconds = 2;    // shorter runs are inconclusive too, if their length is known
  double max_warmup = 0.1;   // largest share of the windows that may be excluded as warm-up
  bool rise_settles =
      true;  // whether a lower level at the beginning counts as warm-up: so for memory, not for times
  int replicates = 299;  // bootstrap resamplings
  uint64_t seed = 1;
};

/// What to judge: one value per window of equal size, in order, none negative.
struct FlatnessInput {
  std::span<const double> medians;               // window medians, or the values of any series
  std::span<const double> trimmed_means = {};    // without the shortest and longest twentieth; may be empty
  std::span<const double> means = {};            // window means; empty if each window is a single value
  std::span<const double> reference = {};        // typical time of the fixed reference kernel per window
  std::span<const double> reference_means = {};  // mean time of the kernel; empty: equal to `reference`
  std::span<const double> waited = {};           // time waited for a core, of each mean; empty: unknown
  /// Medians and means of the undisturbed iterations of each window (windows.h: QuietIterations), and their
  /// share of the window's iterations; empty: not known. If a share is 0, the other two values have no
  /// meaning.
  std::span<const double> quiet_medians = {};
  std::span<const double> quiet_means = {};
  std::span<const double> quiet_shares = {};
  double iterations_per_window = 1;
  int64_t first_iteration = 0;  // of the first window; used in messages
  /// For windows of different lengths, instead of the two numbers above: the first iteration of each window,
  /// and as one more entry the iteration after the last window. Empty: not used.
  std::span<const double> starts = {};
  std::string_view unit = "iteration";           // what the windows count
  std::optional<double> seconds = std::nullopt;  // length of the run; if unknown, min_seconds isn't checked
};

/// Judges a series. The end of warm-up is found by the MSER rule (White, "An Effective Truncation Heuristic
/// for Bias Reduction in Simulation Output", Simulation 69, 1997) within the first `max_warmup` of the
/// windows: a change there counts as settling. With fewer than four windows the verdict is inconclusive.
/// Throws kShapeMismatch if a list isn't empty and differs in length from `medians`, kNotANumber for a value
/// that isn't finite, kInvalidArgument for a negative value or options outside their range.
FlatnessVerdict judge_flatness(const FlatnessInput& input, const FlatnessOptions& options = {});

/// One class of steps.
struct ClassInput {
  FlatnessInput input;
  double time_share = 1;  // of the run's time
};
inline constexpr double kMinorShare = 0.1;
/// The bound for a class that takes `time_share` of the time.
double bound_of_class(double bound, double time_share);
/// The verdict on a run with several classes of steps (by plan and accumulation phase). Each class is judged
/// by itself, and the error probability of growing is divided among the classes (Bonferroni). The run is
/// growing if any class is, and flat if all are. A class with less than `kMinorShare` of the time has a
/// proportionally wider bound, up to five times as wide, so an unnoticed change of it is at most a tenth of
/// the bound over the whole run. A class with less than half of that share and too few windows is left out.
/// The numbers in the result are those of the class that decides. Throws kInvalidArgument if there is no
/// class.
FlatnessVerdict judge_classes(std::span<const ClassInput> classes, const FlatnessOptions& options = {});

}  // namespace isochron::observe
