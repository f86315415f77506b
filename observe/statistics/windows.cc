#include "isochron/observe/statistics/windows.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace isochron::observe {
namespace {

template <int kQuantiles>
constexpr std::array<double, kQuantiles> quantile_fractions() {
  std::array<double, kQuantiles> fractions{};
  for (int i = 0; i < kQuantiles; ++i) fractions[static_cast<size_t>(i)] = (i + 0.5) / kQuantiles;
  return fractions;
}

/// Mean of the middle quarter.
double middle_of(std::span<const float> quantiles) {
  const auto middle = quantiles.subspan(3 * quantiles.size() / 8, quantiles.size() / 4);
  return std::accumulate(middle.begin(), middle.end(), 0.0) / static_cast<double>(middle.size());
}

/// The largest share of their time that quiet iterations may wait for a core.
constexpr double kMaxWaiting = 0.02;

Window merged(const Window& older, const Window& newer) {
  Window result = newer;
  result.first_iteration = older.first_iteration;
  result.iterations += older.iterations;
  result.passed += older.passed;
  result.total_ns += older.total_ns;
  result.max_ns = std::max(older.max_ns, newer.max_ns);
  for (size_t p = 0; p < kPhaseCount; ++p) result.phase_ns[p] += older.phase_ns[p];
  result.reference.add(older.reference);
  result.waited_ns += older.waited_ns;
  result.quiet.add(older.quiet);
  std::array<float, 2 * Window::kQuantiles> both;
  std::merge(older.quantiles_ns.begin(), older.quantiles_ns.end(), newer.quantiles_ns.begin(),
             newer.quantiles_ns.end(), both.begin());
  for (size_t i = 0; i < Window::kQuantiles; ++i)
    result.quantiles_ns[i] = 0.5F * (both[2 * i] + both[2 * i + 1]);
  return result;
}

std::vector<double> by_window(std::span<const Window> windows, double (Window::*read)() const) {
  std::vector<double> result;
  result.reserve(windows.size());
  for (const Window& window : windows) result.push_back((window.*read)());
  return result;
}

std::vector<double> by_reference(std::span<const Window> windows, double (ReferenceTimes::*read)() const) {
  const auto timed = [](const Window& window) { return window.reference.count > 0; };
  const auto first = std::ranges::find_if(windows, timed);
  std::vector<double> result;
  if (first == windows.end()) return result;
  double latest = (first->reference.*read)();
  for (const Window& window : windows) {
    if (timed(window)) latest = (window.reference.*read)();
    result.push_back(latest);
  }
  return result;
}

}  // namespace

std::string_view phase_name(Phase phase) {
  constexpr std::string_view kNames[kPhaseCount] = {"data_wait", "host_to_device", "compute", "update",
                                                    "callbacks", "checkpoint",     "log",     "communication",
                                                    "rank_wait", "unexplained"};
  return kNames[static_cast<size_t>(phase)];
}

void ReferenceTimes::add(double ns, double quiet_ns) {
  ++count;
  total_ns += ns;
  if (ns <= kDisturbedTiming * quiet_ns) return;
  ++disturbed;
  disturbed_ns += ns;
}

void ReferenceTimes::add(const ReferenceTimes& other) {
  count += other.count;
  disturbed += other.disturbed;
  total_ns += other.total_ns;
  disturbed_ns += other.disturbed_ns;
}

double ReferenceTimes::typical_ns() const {
  return 2 * disturbed > count ? disturbed_ns / static_cast<double>(disturbed)
                               : (total_ns - disturbed_ns) / static_cast<double>(count - disturbed);
}

/// Computes the joint quantiles: each is the weighted mean of a sixteenth of all iterations.
void QuietIterations::add(const QuietIterations& other) {
  if (other.iterations == 0) return;
  std::array<std::pair<float, double>, 2 * kQuantiles> both;  // and their weights
  for (size_t i = 0; i < kQuantiles; ++i) {
    both[i] = {quantiles_ns[i], static_cast<double>(iterations)};
    both[kQuantiles + i] = {other.quantiles_ns[i], static_cast<double>(other.iterations)};
  }
  std::ranges::sort(both);
  iterations += other.iterations;
  total_ns += other.total_ns;
  const auto part = static_cast<double>(iterations);
  auto next = both.begin();
  for (float& quantile : quantiles_ns) {
    double sum = 0, open = part;
    while (open > 0 && next != both.end()) {
      const double taken = std::min(open, next->second);
      sum += taken * static_cast<double>(next->first);
      open -= taken;
      if ((next->second -= taken) == 0) ++next;
    }
    quantile = static_cast<float>(sum / part);
  }
}

double QuietIterations::median_ns() const { return middle_of(quantiles_ns); }

double Window::median_ns() const { return middle_of(quantiles_ns); }

double Window::trimmed_mean_ns() const {
  constexpr int64_t kTwentieth = kQuantiles / 20;
  const int64_t of_one = (kQuantiles + iterations - 1) / std::max<int64_t>(1, iterations);
  const int64_t left_out = std::clamp<int64_t>(of_one, kTwentieth, kQuantiles / 2 - 1);
  return std::accumulate(quantiles_ns.begin() + left_out, quantiles_ns.end() - left_out, 0.0) /
         static_cast<double>(kQuantiles - 2 * left_out);
}

std::vector<double> window_medians(std::span<const Window> windows) {
  return by_window(windows, &Window::median_ns);
}

std::vector<double> window_trimmed_means(std::span<const Window> windows) {
  return by_window(windows, &Window::trimmed_mean_ns);
}

std::vector<double> window_means(std::span<const Window> windows) {
  return by_window(windows, &Window::mean_ns);
}

std::vector<double> window_quiet_medians(std::span<const Window> windows) {
  std::vector<double> result;
  for (const Window& window : windows)
    result.push_back(window.quiet.iterations > 0 ? window.quiet.median_ns() : 0);
  return result;
}

std::vector<double> window_quiet_means(std::span<const Window> windows) {
  std::vector<double> result;
  for (const Window& window : windows)
    result.push_back(window.quiet.iterations > 0 ? window.quiet.mean_ns() : 0);
  return result;
}

std::vector<double> window_quiet_shares(std::span<const Window> windows) {
  std::vector<double> result;
  for (const Window& window : windows)
    result.push_back(static_cast<double>(window.quiet.iterations) / static_cast<double>(window.iterations));
  return result;
}

std::vector<double> window_waited(std::span<const Window> windows) {
  std::vector<double> result;
  double waited_ns = 0, iterations = 0;
  for (size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    waited_ns += static_cast<double>(window.waited_ns);
    iterations += static_cast<double>(window.iterations + window.passed);
    const bool read = window.reference.count > 0 || window.waited_ns > 0;
    if (!read && i + 1 < windows.size()) continue;
    const bool unread = !read && !result.empty();  // the last windows get the value before them
    result.resize(i + 1, unread ? result.back() : waited_ns / iterations);
    waited_ns = iterations = 0;
  }
  return result;
}

std::vector<double> window_reference_typical(std::span<const Window> windows) {
  return by_reference(windows, &ReferenceTimes::typical_ns);
}

std::vector<double> window_reference_means(std::span<const Window> windows) {
  return by_reference(windows, &ReferenceTimes::mean_ns);
}

WindowSeries::WindowSeries() {
  closed_.resize(kMaxWindows);  // not just reserved: its pages must be resident before the first step
  closed_.clear();
}

void WindowSeries::clear() {
  length_ = 1;
  until_reference_ = 1;
  closed_total_ns_ = 0;
  steady_ns_ = 0;
  open_ = Window{};
  closed_.clear();
  open_histogram_.clear();
  quiet_histogram_.clear();
  pending_ = 0;
  pending_waited_ns_ = 0;
  was_quiet_ = false;
  run_histogram_.clear();
  usual_ns_ = 0;
  usual_phase_ns_.fill(0);
}

void WindowSeries::add_reference(double ns, double quiet_ns, double spacing_ns, double iteration_ns) {
  const int64_t disturbed = open_.reference.disturbed;
  open_.reference.add(ns, quiet_ns);
  const bool quiet = open_.reference.disturbed == disturbed;
  const auto pending = std::span<const int64_t>(pending_ns_).first(static_cast<size_t>(pending_));
  const int64_t pending_ns = std::accumulate(pending.begin(), pending.end(), int64_t{0});
  const bool waited = static_cast<double>(pending_waited_ns_) > kMaxWaiting * static_cast<double>(pending_ns);
  if (quiet && was_quiet_ && !waited) {
    for (const int64_t duration_ns : pending) quiet_histogram_.add(duration_ns);
    open_.quiet.total_ns += pending_ns;
    open_.quiet.iterations += pending_;
  }
  pending_ = 0;
  pending_waited_ns_ = 0;
  was_quiet_ = quiet;
  until_reference_ = std::max<int64_t>(1, std::llround(spacing_ns / std::max(1.0, iteration_ns)));
}

size_t WindowSeries::bytes() const {
  return sizeof(*this) + closed_.capacity() * sizeof(Window) + open_histogram_.bytes() +
         quiet_histogram_.bytes() + run_histogram_.bytes();
}

void WindowSeries::close() {
  static constexpr auto kFractions = quantile_fractions<Window::kQuantiles>();
  static constexpr auto kQuietFractions = quantile_fractions<QuietIterations::kQuantiles>();
  open_histogram_.quantiles(kFractions.data(), Window::kQuantiles, open_.quantiles_ns.data());
  if (open_.quiet.iterations > 0) {
    quiet_histogram_.quantiles(kQuietFractions.data(), QuietIterations::kQuantiles,
                               open_.quiet.quantiles_ns.data());
    quiet_histogram_.clear();
  }
  run_histogram_.add_all(open_histogram_);
  open_histogram_.clear();
  closed_total_ns_ += open_.total_ns;
  closed_.push_back(open_);
  open_ = Window{};
  if (closed_.size() == kMaxWindows) {
    merge_pairs(closed_);
    length_ *= 2;
  }
  update_usual();
}

void WindowSeries::merge_pairs(std::vector<Window>& windows) {
  for (size_t i = 0; i < windows.size() / 2; ++i) windows[i] = merged(windows[2 * i], windows[2 * i + 1]);
  windows.resize(windows.size() / 2);
}

Window WindowSeries::condensed(int64_t i) const {
  const size_t first = static_cast<size_t>(i * pairing());
  return pairing() == 1 ? closed_[first] : merged(closed_[first], closed_[first + 1]);
}

void WindowSeries::restore(int64_t length, std::span<const Window> windows) {
  clear();
  length_ = length;
  closed_.assign(windows.begin(), windows.end());
  for (const Window& window : closed_) {
    closed_total_ns_ += window.total_ns;
    steady_ns_ += window.trimmed_mean_ns() * static_cast<double>(window.iterations);
    for (int64_t i = 0; i < Window::kQuantiles; ++i) {
      // Counts all iterations even if 64 doesn't divide their number.
      const int64_t times =
          window.iterations * (i + 1) / Window::kQuantiles - window.iterations * i / Window::kQuantiles;
      if (times > 0)
        run_histogram_.add(static_cast<int64_t>(window.quantiles_ns[static_cast<size_t>(i)]), times);
    }
  }
  update_usual();
}

void WindowSeries::update_usual() {
  if (closed_.size() < kUsualWindows) return;
  std::array<double, kUsualWindows> medians;
  PhaseTimes phases{};
  int64_t iterations = 0;
  for (size_t i = 0; i < kUsualWindows; ++i) {
    const Window& window = closed_[closed_.size() - kUsualWindows + i];
    medians[i] = window.median_ns();
    iterations += window.iterations;
    for (size_t p = 0; p < kPhaseCount; ++p) phases[p] += window.phase_ns[p];
  }
  std::nth_element(medians.begin(), medians.begin() + kUsualWindows / 2, medians.end());
  usual_ns_ = medians[kUsualWindows / 2];
  for (size_t p = 0; p < kPhaseCount; ++p) {
    usual_phase_ns_[p] = static_cast<double>(phases[p]) / static_cast<double>(iterations);
  }
}

}  // namespace isochron::observe
