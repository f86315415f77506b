// Measures how often the flatness verdict errs: judges many synthetic runs of every kind, whose true change
// is a multiple of the bound, and counts the verdicts. Prints the table of docs/flatness-error-rates.md.
//   flatness_at_bound [SERIES_PER_ROW]
#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <string>

#include "isochron/core/base/clock.h"
#include "isochron/observe/interleaved/ab_comparison.h"
#include "isochron/observe/statistics/flatness.h"
#include "observe/statistics/synthetic.h"

namespace {

using namespace isochron;
using namespace isochron::observe;
using synthetic::Series;

constexpr int kWindows = 128;
constexpr int kPerWindow = 64;

struct Run {
  Series series;
  std::vector<double> reference;  // typical and mean times of the reference kernel; empty: none
  std::vector<double> reference_means;
};

struct Kind {
  std::string name;
  /// Makes a run whose level changes by `change` in total.
  std::function<Run(double change, uint64_t seed)> make;
};

Kind per_iteration(std::string name, std::function<double(double, int, double, Rng&)> duration,
                   int windows_of = kPerWindow) {
  return {std::move(name), [duration, windows_of](double change, uint64_t seed) {
            return Run{synthetic::make_series(kWindows, windows_of, seed,
                                              [&](double position, int iteration, Rng& rng) {
                                                return duration(position, iteration, change, rng);
                                              }),
                       {},
                       {}};
          }};
}

/// Noise that lasts over windows: a factor per window, on top of 5 % per iteration.
Kind per_window(std::string name, double rho, double deviation) {
  return {std::move(name), [=](double change, uint64_t seed) {
            synthetic::Autoregressive noise(rho, deviation);
            double factor = 1;
            return Run{synthetic::make_series(kWindows, kPerWindow, seed,
                                              [&](double position, int iteration, Rng& rng) {
                                                if (iteration % kPerWindow == 0) factor = noise(rng);
                                                return synthetic::drift(position, change) * factor *
                                                       synthetic::gaussian(rng, 0.05);
                                              }),
                       {},
                       {}};
          }};
}

/// A machine that is disturbed for a share of the time, in stretches of `stretch` windows on average, and
/// whose clock wanders by 2 %. While it is disturbed, the kernel takes `kernel` times as long, and the
/// program `program` times as long with a deviation of 1 % per window.
struct Disturbance {
  double share;
  double stretch;
  double kernel;
  double program;
};

Kind disturbed(std::string name, Disturbance d) {
  return {std::move(name), [d](double change, uint64_t seed) {
            constexpr double kIterations = kPerWindow;
            synthetic::Autoregressive clock(0.9, 0.02);
            Rng machine(seed, 0xC0DE);
            Run run;
            bool now = machine.uniform() < d.share;
            double speed = 1, part = 0, factor = 1;
            run.series = synthetic::make_series(
                kWindows, kPerWindow, seed, [&](double position, int iteration, Rng& rng) {
                  if (iteration % kPerWindow == 0) {
                    const bool before = now;
                    const double leaving =
                        (now ? 1 - d.share : d.share) / (d.stretch * 2 * d.share * (1 - d.share));
                    if (machine.uniform() < leaving) now = !now;
                    part = now == before ? (now ? 1 : 0) : machine.uniform();  // disturbed part of the window
                    speed = clock(machine);
                    factor = 1 + (d.program - 1) * synthetic::gaussian(machine, 0.01);
                    const double level = 550 * speed * synthetic::gaussian(machine, 0.003);
                    run.reference.push_back(level * (part > 0.5 ? d.kernel : 1));
                    run.reference_means.push_back(level * (1 + (d.kernel - 1) * part) *
                                                  synthetic::gaussian(machine, 0.02));
                  }
                  const bool slow = iteration % kPerWindow < part * kIterations;
                  return synthetic::drift(position, change) * speed * (slow ? factor : 1) *
                         synthetic::gaussian(rng, 0.05);
                });
            return run;
          }};
}

std::vector<Kind> kinds() {
  using namespace synthetic;
  std::vector<Kind> all;
  all.push_back(per_iteration("drift, noise 5 %", [](double p, int, double change, Rng& rng) {
    return drift(p, change) * gaussian(rng, 0.05);
  }));
  all.push_back(per_iteration("drift down, noise 5 %", [](double p, int, double change, Rng& rng) {
    return drift(p, -change) * gaussian(rng, 0.05);
  }));
  all.push_back(per_iteration("drift, noise 30 %", [](double p, int, double change, Rng& rng) {
    return drift(p, change) * gaussian(rng, 0.3);
  }));
  all.push_back(per_iteration(
      "drift, noise 30 %, 16 times longer",
      [](double p, int, double change, Rng& rng) { return drift(p, change) * gaussian(rng, 0.3); },
      16 * kPerWindow));
  all.push_back(per_iteration("step at half, noise 5 %", [](double p, int, double change, Rng& rng) {
    return step(p, change) * gaussian(rng, 0.05);
  }));
  all.push_back(per_iteration("drift, 2 % heavy tail", [](double p, int, double change, Rng& rng) {
    return drift(p, change) * heavy(rng, 0.05, 0.02);
  }));
  all.push_back(per_iteration(
      "drift, 2 % heavy tail, 16 times longer",
      [](double p, int, double change, Rng& rng) { return drift(p, change) * heavy(rng, 0.05, 0.02); },
      16 * kPerWindow));
  all.push_back(per_iteration("drift, spike x5 each 100", [](double p, int i, double change, Rng& rng) {
    return drift(p, change) * (i % 100 == 99 ? 5 : 1) * gaussian(rng, 0.05);
  }));
  all.push_back(per_window("drift, windows AR(1) 0.5, 2 %", 0.5, 0.02));
  all.push_back(per_window("drift, windows AR(1) 0.9, 2 %", 0.9, 0.02));
  all.push_back(per_window("drift, windows AR(1) 0.9, 10 %", 0.9, 0.1));
  all.push_back(disturbed("drift, cores moved apart half of the time", {0.5, 15, 3.1, 1.82}));
  all.push_back(disturbed("drift, core shared a fifth of the time", {0.2, 4, 2.25, 1.5}));
  // Medians don't change: 2 % of the iterations grow until the mean has changed by `change`.
  all.push_back(per_iteration("rare spikes grow, noise 5 %", [](double p, int, double change, Rng& rng) {
    return gaussian(rng, 0.05) + (rng.uniform() < 0.02 ? 50 * change * p : 0);
  }));
  return all;
}

/// `make` returns a function that judges one run.
void print_row_of(const std::string& name, double multiple, int count,
                  const std::function<std::function<FlatnessVerdict()>(uint64_t seed)>& make) {
  std::array<int, 4> said{};
  int64_t judging_ns = 0;
  for (int i = 0; i < count; ++i) {
    const auto judge = make(static_cast<uint64_t>(i) + 1);
    const int64_t begin = now_ns();
    const FlatnessVerdict verdict = judge();
    judging_ns += now_ns() - begin;
    ++said[static_cast<size_t>(verdict.kind)];
  }
  const auto share = [&](Flatness kind) { return 100.0 * said[static_cast<size_t>(kind)] / count; };
  fmt::print("| {} | {:+.1f} x | {:.1f} | {:.1f} | {:.1f} | {:.1f} | {:.1f} |\n", name, multiple,
             share(Flatness::kFlat), share(Flatness::kGrowing), share(Flatness::kShrinking),
             share(Flatness::kInconclusive), static_cast<double>(judging_ns) / count / 1e6);
  std::fflush(stdout);
}

void print_row(const Kind& kind, double multiple, int count, const FlatnessOptions& options) {
  print_row_of(kind.name, multiple, count, [&](uint64_t seed) {
    return [run = kind.make(multiple * options.bound, seed), &options] {
      return judge_flatness({.medians = run.series.medians,
                             .means = run.series.means,
                             .reference = run.reference,
                             .reference_means = run.reference_means},
                            options);
    };
  });
}

constexpr int kPairs = 150;
const std::string kBesideTwin =
    fmt::format("beside a twin, {0} and {0} pairs of turns, machine slower half of the time", kPairs);

/// Judges runs beside a twin, on a machine that is 70 % slower half of the time.
void print_row_beside_twin(double multiple, int count, const FlatnessOptions& options) {
  constexpr double kPlacement = 1.1;  // the twin is slower
  print_row_of(kBesideTwin, multiple, count, [&](uint64_t seed) {
    Rng rng(seed);
    FlatnessVerdict alone;
    alone.bound = options.bound;
    TwinTurns turns;
    turns.before = synthetic::make_pairs(kPairs, kPerWindow, 0, kPlacement, rng);
    turns.after = synthetic::make_pairs(kPairs, kPerWindow, multiple * options.bound, kPlacement, rng);
    return [=, bound = options.bound] { return judge_ab_comparison(alone, turns, bound); };
  });
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 1000;
  if (count < 1) {
    fmt::print(
        stderr,
        "usage: flatness_at_bound [SERIES_PER_ROW >= 1] [TEXT]\n  TEXT: only rows whose name holds it\n");
    return 2;
  }
  const std::string only = argc > 2 ? argv[2] : "";
  const FlatnessOptions options;
  fmt::print("{} runs a row, {} windows of {} iterations, bound {:.0f} %\n\n", count, kWindows, kPerWindow,
             100 * options.bound);
  fmt::print(
      "| run | true change / bound | flat % | growing % | shrinking % | inconclusive % | ms a verdict |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  constexpr std::array kMultiples = {0.0, 1.0, 2.0};
  const auto wanted = [&](const std::string& name) { return name.find(only) != std::string::npos; };
  for (const Kind& kind : kinds()) {
    if (!wanted(kind.name)) continue;
    for (const double multiple : kMultiples) print_row(kind, multiple, count, options);
  }
  if (!wanted(kBesideTwin)) return 0;
  for (const double multiple : kMultiples) print_row_beside_twin(multiple, count, options);
  return 0;
}
