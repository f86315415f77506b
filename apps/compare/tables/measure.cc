#include "isochron/apps/compare/tables/measure.h"

#include <algorithm>
#include <cmath>

#include "isochron/core/base/clock.h"

namespace isochron::apps {
namespace {

constexpr int64_t kShortestTimingNs = 20'000;
constexpr int kMinTurns = 10;

/// The mean time in ns of `calls` calls.
double time_calls(const std::function<void()>& function, int64_t calls) {
  const int64_t began_ns = now_ns();
  for (int64_t i = 0; i < calls; ++i) function();
  return static_cast<double>(now_ns() - began_ns) / static_cast<double>(calls);
}

double first_decile(std::vector<double> values) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 10);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

std::vector<double> times_in_turns(std::span<const std::function<void()>> functions, double seconds) {
  std::vector<int64_t> calls;
  for (const std::function<void()>& function : functions) {
    function();
    const double once_ns = std::max(1.0, time_calls(function, 1));
    calls.push_back(std::max<int64_t>(1, std::llround(kShortestTimingNs / once_ns)));
  }
  std::vector<std::vector<double>> times(functions.size());
  const int64_t until_ns = now_ns() + static_cast<int64_t>(seconds * 1e9);
  for (int turn = 0; turn < kMinTurns || now_ns() < until_ns; ++turn) {
    for (size_t i = 0; i < functions.size(); ++i) times[i].push_back(time_calls(functions[i], calls[i]));
  }
  std::vector<double> deciles;
  for (std::vector<double>& values : times) deciles.push_back(first_decile(std::move(values)));
  return deciles;
}

double time_of(const std::function<void()>& function, double seconds) {
  return times_in_turns({&function, 1}, seconds).front();
}

}  // namespace isochron::apps
