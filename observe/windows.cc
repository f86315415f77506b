#include "isochron/observe/windows.h"

#include <algorithm>

namespace isochron::observe {
namespace {

constexpr std::array<double, Window::kQuantiles> quantile_fractions() {
  std::array<double, Window::kQuantiles> fractions{};
  for (int i = 0; i < Window::kQuantiles; ++i)
    fractions[static_cast<size_t>(i)] = (i + 0.5) / Window::kQuantiles;
  return fractions;
}

Window merged(const Window& older, const Window& newer) {
  Window result = newer;
  result.first_iteration = older.first_iteration;
  result.iterations += older.iterations;
  result.total_ns += older.total_ns;
  result.max_ns = std::max(older.max_ns, newer.max_ns);
  for (size_t p = 0; p < kPhaseCount; ++p) result.phase_ns[p] += older.phase_ns[p];
  std::array<float, 2 * Window::kQuantiles> both;
  std::merge(older.quantiles_ns.begin(), older.quantiles_ns.end(), newer.quantiles_ns.begin(),
             newer.quantiles_ns.end(), both.begin());
  for (size_t i = 0; i < Window::kQuantiles; ++i)
    result.quantiles_ns[i] = 0.5F * (both[2 * i] + both[2 * i + 1]);
  return result;
}

}  // namespace

std::string_view phase_name(Phase phase) {
  constexpr std::string_view kNames[kPhaseCount] = {"data_wait", "host_to_device", "compute", "update",
                                                    "callbacks", "checkpoint",     "log",     "unexplained"};
  return kNames[static_cast<size_t>(phase)];
}

double Window::median_ns() const {
  return 0.5 * (static_cast<double>(quantiles_ns[kQuantiles / 2 - 1]) +
                static_cast<double>(quantiles_ns[kQuantiles / 2]));
}

WindowSeries::WindowSeries() {
  closed_.resize(kMaxWindows);  // and not only reserved: its pages must be resident before the first step
  closed_.clear();
}

void WindowSeries::clear() {
  length_ = 1;
  closed_total_ns_ = 0;
  open_ = Window{};
  closed_.clear();
  open_histogram_.clear();
  run_histogram_.clear();
  usual_ns_ = 0;
  usual_phase_ns_.fill(0);
}

std::vector<double> WindowSeries::medians() const {
  std::vector<double> result;
  result.reserve(closed_.size());
  for (const Window& window : closed_) result.push_back(window.median_ns());
  return result;
}

std::vector<double> WindowSeries::means() const {
  std::vector<double> result;
  result.reserve(closed_.size());
  for (const Window& window : closed_) result.push_back(window.mean_ns());
  return result;
}

void WindowSeries::add_to(LogHistogram<int64_t>& histogram) const {
  histogram.add_all(run_histogram_);
  histogram.add_all(open_histogram_);
}

size_t WindowSeries::bytes() const {
  return sizeof(*this) + closed_.capacity() * sizeof(Window) + open_histogram_.bytes() +
         run_histogram_.bytes();
}

void WindowSeries::close() {
  static constexpr auto kFractions = quantile_fractions();
  open_histogram_.quantiles(kFractions.data(), Window::kQuantiles, open_.quantiles_ns.data());
  run_histogram_.add_all(open_histogram_);
  open_histogram_.clear();
  closed_total_ns_ += open_.total_ns;
  closed_.push_back(open_);
  open_ = Window{};
  if (closed_.size() == kMaxWindows) merge_pairs();
  update_usual();
}

void WindowSeries::merge_pairs() {
  for (size_t i = 0; i < closed_.size() / 2; ++i) closed_[i] = merged(closed_[2 * i], closed_[2 * i + 1]);
  closed_.resize(closed_.size() / 2);
  length_ *= 2;
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
