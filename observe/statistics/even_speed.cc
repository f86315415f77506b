#include "isochron/observe/statistics/even_speed.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "isochron/observe/statistics/level_change.h"
#include "isochron/observe/statistics/machine_speed.h"
#include "isochron/observe/statistics/series_verdict.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe {
namespace {

using Values = std::vector<double>;

Values at(std::span<const double> values, std::span<const size_t> indices) {
  Values result;
  if (!values.empty()) {
    for (size_t i : indices) result.push_back(values[i]);
  }
  return result;
}

/// The windows' levels minus the time in which the program was ready to run but other programs had the core.
/// At least a tenth of each level remains, because waiting time is read between iterations and may belong to
/// a neighboring window.
Values without_waiting(std::span<const double> levels, std::span<const double> waited) {
  Values result(levels.begin(), levels.end());
  if (waited.empty()) return result;
  for (size_t i = 0; i < result.size(); ++i) result[i] = std::max(0.1 * result[i], result[i] - waited[i]);
  return result;
}

/// Running means over neighboring windows, because the waiting time of a single window is known only roughly.
Values smoothed(std::span<const double> values) {
  const size_t n = values.size(), reach = n / 32;
  Values result(n);
  for (size_t i = 0; i < n; ++i) {
    const size_t begin = i - std::min(i, reach), end = std::min(n, i + reach + 1);
    result[i] = mean(values.subspan(begin, end - begin));
  }
  return result;
}

/// Windows' medians and means.
struct Levels {
  Values medians;
  Values means;
  Values starts = {};
};

Levels at(const Levels& levels, std::span<const size_t> indices) {
  Levels result{at(levels.medians, indices), at(levels.means, indices)};
  if (levels.starts.empty()) return result;
  result.starts = at(levels.starts, indices);
  result.starts.push_back(levels.starts.back());
  return result;
}

FlatnessInput input_of(const Levels& levels, const FlatnessInput& input) {
  FlatnessInput result = input;
  result.medians = levels.medians;
  result.trimmed_means = {};
  result.means = levels.means;
  result.starts = levels.starts;
  return result;
}

/// How the machine's influence on the means is estimated: from the kernel's means, or as the factor found for
/// the medians.
enum class MeansBy { kMeans, kMedians };
/// Whether waiting for a core affects all iterations, and so the medians too, or only a few.
enum class Waiting { kInFew, kInAll };

/// The series without the machine's influence.
Levels corrected(const FlatnessInput& input, const ReferenceSeries& kernel, MeansBy means_by, Waiting waiting,
                 const EvenSpeedOptions& options) {
  Levels result{
      without_waiting(input.medians, waiting == Waiting::kInAll ? input.waited : std::span<const double>{}),
      without_waiting(input.means, input.waited),
      {input.starts.begin(), input.starts.end()}};
  result.medians = at_even_speed(result.medians, kernel.typical, kernel, options);
  if (means_by == MeansBy::kMeans) {
    result.means = at_even_speed(result.means, kernel.means, kernel, options);
  } else {
    for (size_t i = 0; i < result.means.size(); ++i)
      result.means[i] *= input.medians[i] > 0 ? result.medians[i] / input.medians[i] : 1;
  }
  return result;
}

/// The windows with enough quiet iterations to be judged by these alone. Empty if there are too few such
/// windows in the run, or in its first or last tenth.
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

/// Converts the change point from an index among the judged windows to an index among all windows.
void count_all_windows(FlatnessVerdict& verdict, const std::vector<size_t>& kept) {
  if (verdict.estimates.empty()) return;
  const size_t first = static_cast<size_t>(verdict.warmup_windows);
  const size_t change = first + static_cast<size_t>(verdict.change_point);
  verdict.change_point = static_cast<int>(kept[std::min(change, kept.size() - 1)] - kept[first]);
}

/// The verdict on quiet iterations alone; nullopt if there are too few.
std::optional<FlatnessVerdict> judge_quiet(const FlatnessInput& input, const FlatnessOptions& options) {
  const std::vector<size_t> kept = quiet_windows(input);
  if (kept.empty()) return std::nullopt;
  FlatnessInput quiet = input;
  quiet.medians = input.quiet_medians;
  quiet.trimmed_means = {};
  quiet.means = input.quiet_means;
  const Levels all{{quiet.medians.begin(), quiet.medians.end()},
                   {quiet.means.begin(), quiet.means.end()},
                   {input.starts.begin(), input.starts.end()}};
  const Levels levels = at(all, kept);
  const double share = static_cast<double>(kept.size()) / static_cast<double>(input.medians.size());
  FlatnessOptions own = options;
  own.min_windows = static_cast<int>(options.min_windows * share);
  FlatnessInput judged = input_of(levels, input);
  judged.iterations_per_window = input.iterations_per_window / share;
  FlatnessVerdict verdict = judge_series(judged, own);
  count_all_windows(verdict, kept);
  return verdict;
}

}  // namespace

bool waits(const FlatnessInput& input) {
  constexpr double kMatters = 0.02;
  const std::span<const double> level = input.means.empty() ? input.medians : input.means;
  return !input.waited.empty() && mean(input.waited) > kMatters * mean(level);
}

FlatnessVerdict judge_without_waiting(const FlatnessInput& input, const FlatnessOptions& options) {
  const Values waited = smoothed(input.waited);
  const Levels rest{without_waiting(input.medians, waited),
                    without_waiting(input.means, waited),
                    {input.starts.begin(), input.starts.end()}};
  return judge_series(input_of(rest, input), options);
}

FlatnessVerdict judge_at_even_speed(const FlatnessInput& input, const FlatnessOptions& options,
                                    double least) {
  constexpr double kErrors = 2;  // of the exponents, for 95 %
  const ReferenceSeries kernel{input.reference,
                               input.reference_means.empty() ? input.reference : input.reference_means};
  const Levels measured{{input.medians.begin(), input.medians.end()},
                        {input.means.begin(), input.means.end()},
                        {input.starts.begin(), input.starts.end()}};
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
      FlatnessVerdict verdict = judge_series(judged, own, &correction);
      count_all_windows(verdict, kept);
      const bool none = !sharpest || sharpest->estimates.empty();
      if (none || verdict.smallest_detectable_change < sharpest->smallest_detectable_change)
        sharpest = std::move(verdict);
    }
  }
  return *std::move(sharpest);
}

}  // namespace isochron::observe
