// Synthetic runs with a known truth, for the tests of the verdict and for measuring its error rates
// (bench/flatness/flatness_rates.cc). A run is generated iteration by iteration and summarized in windows as
// by the recorder.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "isochron/core/base/rng.h"
#include "isochron/observe/interleaved/ab_comparison.h"
#include "isochron/observe/statistics/statistics.h"

namespace isochron::observe::synthetic {

struct Series {
  std::vector<double> medians;
  std::vector<double> means;
};

/// Duration of one iteration, given where in the run it is (in [0, 1)), its number and a source of
/// randomness.
using Duration = std::function<double(double position, int iteration, Rng& rng)>;

inline Series make_series(int windows, int per_window, uint64_t seed, const Duration& duration) {
  Rng rng(seed, 0x5EED);
  Series series;
  std::vector<double> window(static_cast<size_t>(per_window));
  for (int w = 0; w < windows; ++w) {
    for (int i = 0; i < per_window; ++i) {
      const int iteration = w * per_window + i;
      const double position = iteration / (static_cast<double>(windows) * per_window);
      window[static_cast<size_t>(i)] = duration(position, iteration, rng);
    }
    series.medians.push_back(median(window));
    series.means.push_back(mean(window));
  }
  return series;
}

/// One value per window, given its position in the run.
inline std::vector<double> filled(size_t n, const std::function<double(double position, Rng& rng)>& value,
                                  uint64_t seed = 1) {
  Rng rng(seed);
  std::vector<double> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = value(static_cast<double>(i) / static_cast<double>(n), rng);
  return values;
}

// Shapes of the level over the run, 1 at its beginning. `change` is relative: 0.1 is 10 % in all.
inline double drift(double position, double change) { return 1 + change * position; }
inline double step(double position, double change) { return position < 0.5 ? 1 : 1 + change; }

// Noise, as factors with a usual value of 1.
inline double gaussian(Rng& rng, double deviation) { return std::max(0.1, 1 + deviation * rng.normal()); }
/// Pareto tail of index 1.5 (infinite variance) on `share` of the iterations: preemptions on a shared
/// machine.
inline double heavy(Rng& rng, double deviation, double share) {
  const double base = gaussian(rng, deviation);
  return rng.uniform() < share ? base * std::min(1e4, std::pow(1 - rng.uniform(), -1 / 1.5)) : base;
}

/// First-order autoregressive noise with a stationary deviation, one value per call.
class Autoregressive {
 public:
  Autoregressive(double rho, double deviation) : rho_(rho), deviation_(deviation) {}
  double operator()(Rng& rng) {
    const double innovation = rng.normal() * deviation_;
    value_ = started_ ? rho_ * value_ + std::sqrt(1 - rho_ * rho_) * innovation : innovation;
    started_ = true;
    return std::max(0.1, 1 + value_);
  }

 private:
  double rho_;
  double deviation_;
  double value_ = 0;
  bool started_ = false;
};

/// Pairs of turns of `iterations` of a loop and its twin, which is `placement` times slower by where it has
/// its memory, after the loop has changed by `change`. Half of the time, for eight pairs on average, the
/// machine takes 1.7 times as long, and a turn in ten stalls for as long as 40 iterations.
inline std::vector<TurnPair> make_pairs(int count, int iterations, double change, double placement,
                                        Rng& rng) {
  std::vector<TurnPair> pairs;
  std::vector<double> durations(static_cast<size_t>(iterations));
  bool slow = false;
  const auto turn = [&](double level) {
    if (rng.uniform() < 1.0 / 16) slow = !slow;
    for (double& duration : durations) duration = 1000 * level * (slow ? 1.7 : 1) * (1 + 0.05 * rng.normal());
    if (rng.uniform() < 0.1) durations[rng.next_u32() % durations.size()] *= 40;
    return turn_times(durations);
  };
  for (int i = 0; i < count; ++i) {
    TurnPair pair;
    const bool loop_first = rng.uniform() < 0.5;
    if (loop_first) pair.loop = turn(1 + change);
    pair.twin = turn(placement);
    if (!loop_first) pair.loop = turn(1 + change);
    pairs.push_back(pair);
  }
  return pairs;
}

}  // namespace isochron::observe::synthetic
