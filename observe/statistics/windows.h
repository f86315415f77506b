// Windows of one class of steps: at most `kMaxWindows` for a run of any length. A window holds one iteration
// at first. When all windows are used, neighbors are merged in pairs, and new windows become twice as long.
// The recorder adds iterations; the flatness verdict reads the windows' medians and means.
//
// A closed window keeps 64 quantiles of its durations, taken from a histogram with an error of 0.2 %. Merging
// two windows sorts their 128 quantiles and keeps the mean of each neighboring pair, so a merge moves the
// median by less than 1/128 in rank, in either direction. The error stays below the sampling error of the
// window's median and shrinks with it: for skewed noise of 30 % the worst of all windows is off by 0.5 %
// after 2^18 iterations, 0.3 % after 2^21, 0.1 % after 2^24.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "isochron/observe/statistics/histogram.h"

namespace isochron::observe {

/// What an iteration's time is spent on. Time outside scopes is unexplained.
enum class Phase : int {
  kDataWait,
  kHostToDevice,
  kCompute,
  kUpdate,
  kCallbacks,
  kCheckpoint,
  kLog,
  kCommunication,  // with other ranks, unless hidden by computation
  kRankWait,       // for ranks whose work takes longer
  kUnexplained,
  kCount
};
inline constexpr size_t kPhaseCount = static_cast<size_t>(Phase::kCount);
using PhaseTimes = std::array<int64_t, kPhaseCount>;  // ns
/// "data_wait", "host_to_device", ...; used in tables, JSON and CSV.
std::string_view phase_name(Phase phase);

/// Timings of the reference kernel between iterations, as sums, so that merging loses nothing. The means
/// require `count` > 0.
struct ReferenceTimes {
  int64_t count = 0;
  int64_t disturbed = 0;  // timings above kDisturbedTiming times the quiet machine's
  double total_ns = 0;
  double disturbed_ns = 0;

  static constexpr double kDisturbedTiming = 1.2;
  void add(double ns, double quiet_ns);
  void add(const ReferenceTimes& other);
  double mean_ns() const { return total_ns / static_cast<double>(count); }
  /// The mean of the disturbed timings if they are the majority, else of the others. This approximates the
  /// median.
  double typical_ns() const;
};

/// The undisturbed iterations of a window: the reference kernel was undisturbed before and after them, and
/// hardly any time in between was spent waiting for a core. Other programs run only for parts of a window,
/// and their effect on an iteration differs from loop to loop. These iterations are free of it.
struct QuietIterations {
  static constexpr int kQuantiles = 16;
  int64_t iterations = 0;
  int64_t total_ns = 0;
  std::array<float, kQuantiles> quantiles_ns{};  // at (i + 0.5) / 16, ascending

  void add(const QuietIterations& other);
  /// Like the functions of Window. Require at least one iteration.
  double median_ns() const;
  double mean_ns() const { return static_cast<double>(total_ns) / static_cast<double>(iterations); }
};

struct Window {
  static constexpr int kQuantiles = 64;
  int64_t first_iteration = 0;  // of the run
  int64_t last_iteration = 0;
  int64_t iterations = 0;  // of this class, timed
  int64_t passed = 0;      // untimed, of this class, between them
  int64_t total_ns = 0;
  int64_t max_ns = 0;
  PhaseTimes phase_ns{};
  ReferenceTimes reference;
  int64_t waited_ns = 0;  // time spent waiting for a core that others had, if the system reports it
  std::array<float, kQuantiles> quantiles_ns{};  // at (i + 0.5) / 64, ascending
  QuietIterations quiet;

  /// The mean of the middle quarter of the durations. The median itself would jump by 2.5 % for steps of 400
  /// ns and a clock that ticks every 10 ns.
  double median_ns() const;
  /// Without the shortest and the longest twentieth, but at least one iteration each.
  double trimmed_mean_ns() const;
  double middle_iteration() const {
    return 0.5 * (static_cast<double>(first_iteration) + static_cast<double>(last_iteration));
  }
  double mean_ns() const { return static_cast<double>(total_ns) / static_cast<double>(iterations); }
  /// Per iteration, including those that weren't timed.
  double mean_waited_ns() const {
    return static_cast<double>(waited_ns) / static_cast<double>(iterations + passed);
  }
};

std::vector<double> window_medians(std::span<const Window> windows);
std::vector<double> window_trimmed_means(std::span<const Window> windows);
std::vector<double> window_means(std::span<const Window> windows);
/// Typical and mean time of the reference kernel in each window. A window without a timing gets its
/// neighbor's. Empty if the kernel was never timed.
std::vector<double> window_reference_typical(std::span<const Window> windows);
std::vector<double> window_reference_means(std::span<const Window> windows);
/// Median and mean of each window's quiet iterations (0 if it has none), and their share of its iterations.
std::vector<double> window_quiet_medians(std::span<const Window> windows);
std::vector<double> window_quiet_means(std::span<const Window> windows);
std::vector<double> window_quiet_shares(std::span<const Window> windows);
/// Mean time that an iteration of each window waited for a core. The time is read only now and then, so each
/// reading is spread over all windows since the previous reading.
std::vector<double> window_waited(std::span<const Window> windows);

class WindowSeries {
 public:
  static constexpr int kMaxWindows = 256;

  WindowSeries();
  void add(int64_t iteration, int64_t duration_ns, const PhaseTimes& phase_ns) {
    steady_ns_ += steady(static_cast<double>(duration_ns));
    if (open_.iterations == 0) open_.first_iteration = iteration;
    open_.last_iteration = iteration;
    open_.total_ns += duration_ns;
    if (duration_ns > open_.max_ns) open_.max_ns = duration_ns;
    for (size_t p = 0; p < kPhaseCount; ++p) open_.phase_ns[p] += phase_ns[p];
    open_histogram_.add(duration_ns);
    if (pending_ < kMaxPending) pending_ns_[static_cast<size_t>(pending_++)] = duration_ns;
    if (++open_.iterations == length_) close();
  }
  /// An iteration that wasn't timed.
  void pass() { ++open_.passed; }
  void clear();
  /// Continues from at most kMaxWindows / 2 `windows` of `length` iterations each. Only the quantiles of
  /// their durations are known.
  void restore(int64_t length, std::span<const Window> windows);
  /// The i-th closed window, or the i-th pair if there are more than kMaxWindows / 2.
  Window condensed(int64_t i) const;
  int64_t condensed_count() const { return std::ssize(closed_) / pairing(); }
  int64_t condensed_length() const { return length_ * pairing(); }

  /// True when the reference kernel is to be timed. Call it once after each `add`.
  bool reference_due() { return --until_reference_ <= 0; }
  /// Adds a timing. It shows whether the iterations since the previous timing were quiet; the first
  /// `kMaxPending` of these are added to the window that is open now. The next timing is due about
  /// `spacing_ns` later, counted in iterations rather than time, because medians and means weight iterations
  /// equally. `iteration_ns`: the time between two iterations of this class.
  void add_reference(double ns, double quiet_ns, double spacing_ns, double iteration_ns);
  void add_waited(int64_t ns) {
    open_.waited_ns += ns;
    pending_waited_ns_ += ns;
  }

  const std::vector<Window>& closed() const { return closed_; }
  /// The present number of iterations per window.
  int64_t length() const { return length_; }
  /// All timed iterations, including those of the open window.
  int64_t iterations() const { return run_histogram_.count() + open_.iterations; }
  int64_t total_ns() const { return closed_total_ns_ + open_.total_ns; }
  /// The same, but each iteration counts at most kMaxTimes times the mean of those before it, so that a
  /// pause of the program doesn't affect how timings are spaced afterwards.
  double steady_ns() const { return steady_ns_; }

  /// The median duration of the last `kUsualWindows` windows, and the mean time of a phase in them. 0 until
  /// there are so many windows.
  static constexpr int kUsualWindows = 8;
  double usual_ns() const { return usual_ns_; }
  double usual_phase_ns(Phase phase) const { return usual_phase_ns_[static_cast<size_t>(phase)]; }

  /// Calls `visit` with each histogram; together they hold all durations.
  template <typename Visit>
  void for_each_histogram(Visit visit) const {
    visit(run_histogram_);
    visit(open_histogram_);
  }
  size_t bytes() const;

 private:
  static constexpr int kMaxPending = 256;
  static constexpr double kMaxTimes = 100;

  double steady(double duration_ns) const {
    const auto before = static_cast<double>(iterations());
    const bool pause = steady_ns_ > 0 && before * duration_ns > kMaxTimes * steady_ns_;
    return pause ? kMaxTimes * steady_ns_ / before : duration_ns;
  }
  void close();
  static void merge_pairs(std::vector<Window>& windows);
  void update_usual();
  int64_t pairing() const { return std::ssize(closed_) > kMaxWindows / 2 ? 2 : 1; }

  int64_t length_ = 1;
  int64_t until_reference_ = 1;
  int64_t closed_total_ns_ = 0;
  double steady_ns_ = 0;
  Window open_;
  std::vector<Window> closed_;
  LogHistogram<uint32_t> open_histogram_;
  LogHistogram<uint32_t> quiet_histogram_;         // of the open window's quiet iterations
  std::array<int64_t, kMaxPending> pending_ns_{};  // durations since the latest reference timing
  int pending_ = 0;
  int64_t pending_waited_ns_ = 0;
  bool was_quiet_ = false;  // whether the latest reference timing was quiet
  LogHistogram<int64_t> run_histogram_;
  double usual_ns_ = 0;
  std::array<double, kPhaseCount> usual_phase_ns_{};
};

}  // namespace isochron::observe
