#include "flatness_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <utility>

#include "isochron/core/base/rng.h"

namespace isochron::bench {
namespace {

constexpr double kUsualNs = 1e6;

/// State of a run that is being generated.
struct Run {
  Rng rng;
  int length;

  explicit Run(uint64_t seed) : rng(seed, 0x5E71E5), length(static_cast<int>(between_log(3000, 30000))) {}

  double between(double low, double high) { return low + (high - low) * rng.uniform(); }
  double between_log(double low, double high) { return low * std::pow(high / low, rng.uniform()); }
  int whole(int low, int high) { return low + static_cast<int>(rng.uniform() * (high - low + 1)); }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[whole(0, static_cast<int>(values.size()) - 1)];
  }
  double noise(double deviation) { return std::max(0.1, 1 + deviation * rng.normal()); }
  double lognormal(double deviation) { return std::exp(deviation * rng.normal()); }
};

/// The duration of iteration `i`, at `position` in [0, 1), relative to the usual duration.
using Factor = std::function<double(Run& run, int i, double position)>;

/// `draw` draws the parameters of a whole run and returns the factor for its iterations.
SeriesClass series_class(std::string name, Truth truth, std::function<Factor(Run&)> draw) {
  return {
      std::move(name), truth, [draw = std::move(draw)](uint64_t seed) {
        Run run(seed);
        const Factor factor = draw(run);
        std::vector<double> durations;
        for (int i = 0; i < run.length; ++i)
          durations.push_back(kUsualNs * std::max(0.01, factor(run, i, static_cast<double>(i) / run.length)));
        return durations;
      }};
}

/// First-order autoregressive noise around 1.
class Autoregressive {
 public:
  Autoregressive(double rho, double deviation) : rho_(rho), deviation_(deviation) {}
  double next(Run& run) {
    const double innovation = deviation_ * run.rng.normal();
    value_ = started_ ? rho_ * value_ + std::sqrt(1 - rho_ * rho_) * innovation : innovation;
    started_ = true;
    return std::max(0.1, 1 + value_);
  }

 private:
  double rho_, deviation_;
  double value_ = 0;
  bool started_ = false;
};

/// A clock of two speeds whose stretches last `dwell` iterations on average.
class SwitchingClock {
 public:
  SwitchingClock(Run& run, double dwell, double slower)
      : leaving_(1 / dwell), slower_(slower), slow_(run.rng.uniform() < 0.5) {}
  double next(Run& run) {
    if (run.rng.uniform() < leaving_) slow_ = !slow_;
    return slow_ ? slower_ : 1;
  }

 private:
  double leaving_, slower_;
  bool slow_;
};

double pareto(Run& run, double index) { return std::min(1e4, std::pow(1 - run.rng.uniform(), -1 / index)); }

std::vector<SeriesClass> healthy() {
  std::vector<SeriesClass> all;
  const auto add = [&](std::string name, std::function<Factor(Run&)> draw) {
    all.push_back(series_class(std::move(name), Truth::kHealthy, std::move(draw)));
  };
  add("normal noise, 0.2 to 10 %", [](Run& run) -> Factor {
    return [deviation = run.between_log(0.002, 0.1)](Run& r, int, double) { return r.noise(deviation); };
  });
  add("lognormal noise, 3 to 30 %", [](Run& run) -> Factor {
    return [deviation = run.between_log(0.03, 0.3)](Run& r, int, double) { return r.lognormal(deviation); };
  });
  for (const double rho : {0.5, 0.8, 0.95}) {
    add("AR(1) " + std::to_string(rho).substr(0, rho == 0.95 ? 4 : 3) + ", 3 to 15 %",
        [rho](Run& run) -> Factor {
          return [noise = Autoregressive(rho, run.between_log(0.03, 0.15))](Run& r, int, double) mutable {
            return noise.next(r);
          };
        });
  }
  for (const double part : {1000.0, 200.0, 30.0}) {
    add("clock of two speeds, dwell 1/" + std::to_string(static_cast<int>(part)) + " of the run",
        [part](Run& run) -> Factor {
          return [clock = SwitchingClock(run, std::max(2.0, run.length / part), run.between(1.05, 1.3))](
                     Run& r, int, double) mutable { return clock.next(r) * r.noise(0.03); };
        });
  }
  add("heavy tail on 0.5 to 3 %", [](Run& run) -> Factor {
    return [share = run.between_log(0.005, 0.03), index = run.between(1.5, 3)](Run& r, int, double) {
      return r.noise(0.05) * (r.rng.uniform() < share ? pareto(r, index) : 1);
    };
  });
  add("sinusoid of 1 to 4 %, 4 to 40 periods", [](Run& run) -> Factor {
    return [amplitude = run.between(0.01, 0.04), periods = run.between_log(4, 40),
            phase = run.between(0, 6.28)](Run& r, int, double position) {
      return (1 + amplitude * std::sin(2 * std::numbers::pi * periods * position + phase)) * r.noise(0.03);
    };
  });
  add("checkpoint of 10 to 100 iterations each 100 to 500", [](Run& run) -> Factor {
    return [every = run.whole(100, 500), size = run.between_log(10, 100)](Run& r, int i, double) {
      return r.noise(0.05) + (i % every == every - 1 ? size * r.noise(0.1) : 0);
    };
  });
  add("collection of 2 to 10 iterations each 5 to 50", [](Run& run) -> Factor {
    return [every = run.whole(5, 50), size = run.between(1, 10)](Run& r, int i, double) {
      return r.noise(0.05) + (i % every == every - 1 ? size * r.noise(0.1) : 0);
    };
  });
  add("evaluation each epoch, one long iteration", [](Run& run) -> Factor {
    return [epoch = run.length / run.whole(8, 60), size = run.between(0.05, 0.5)](Run& r, int i, double) {
      return r.noise(0.05) + (i % epoch == epoch - 1 ? size * epoch * r.noise(0.03) : 0);
    };
  });
  add("evaluation each epoch, a stretch at another level", [](Run& run) -> Factor {
    return [epoch = run.length / run.whole(8, 60), share = run.between(0.05, 0.3),
            level = run.between(0.3, 0.8)](Run& r, int i, double) {
      return (i % epoch >= (1 - share) * epoch ? level : 1) * r.noise(0.05);
    };
  });
  add("loader of 2 to 8 workers, one of them slow", [](Run& run) -> Factor {
    return [workers = run.whole(2, 8), slower = run.between(1.1, 2)](Run& r, int i, double) {
      return (i % workers == 0 ? slower : 1) * r.noise(0.05);
    };
  });
  add("batches of three sequence lengths", [](Run& run) -> Factor {
    return [second = run.between(1.2, 1.6), third = run.between(1.6, 2.5)](Run& r, int, double) {
      const double drawn = r.rng.uniform();
      return (drawn < 0.5 ? 1 : drawn < 0.8 ? second : third) * r.noise(0.03);
    };
  });
  add("log each 50, checkpoint each epoch, collections", [](Run& run) -> Factor {
    return [epoch = run.length / run.whole(8, 60), log = run.between(0.1, 1), save = run.between(5, 50),
            collection = run.between(0.5, 5)](Run& r, int i, double) {
      return r.noise(0.05) + (i % 50 == 49 ? log : 0) + (i % epoch == epoch - 1 ? save : 0) +
             (r.rng.uniform() < 0.01 ? collection : 0);
    };
  });
  add("warm-up that decays over 1 to 5 %", [](Run& run) -> Factor {
    return
        [size = run.between_log(0.2, 5), part = run.between_log(0.01, 0.05) / 3](
            Run& r, int, double position) { return (1 + size * std::exp(-position / part)) * r.noise(0.05); };
  });
  add("warm-up at a higher level for 1 to 8 %", [](Run& run) -> Factor {
    return [level = run.one_of({1.1, 1.5, 3.0}), part = run.between(0.01, 0.08)](
               Run& r, int, double position) { return (position < part ? level : 1) * r.noise(0.05); };
  });
  add("first iterations of 10 to 1000", [](Run& run) -> Factor {
    return [count = run.whole(1, 5), size = run.between_log(10, 1000)](Run& r, int i, double) {
      return r.noise(0.05) + (i < count ? size : 0);
    };
  });
  add("sparse compilations in the first 8 %", [](Run& run) -> Factor {
    const int count = run.whole(3, 12);
    std::vector<std::pair<int, double>> compiles;
    for (int k = 0; k < count; ++k)
      compiles.emplace_back(static_cast<int>(0.08 * run.rng.uniform() * run.length),
                            run.between_log(20, 300));
    return [compiles](Run& r, int i, double) {
      double factor = r.noise(0.05);
      for (const auto& [at, size] : compiles) factor += at == i ? size : 0;
      return factor;
    };
  });
  add("retraced at 1, 2, 4, 8, ...", [](Run& run) -> Factor {
    return [size = run.between_log(10, 200), last = run.between(0.1, 1)](Run& r, int i, double position) {
      return r.noise(0.05) + (((i + 1) & i) == 0 && position < last ? size : 0);
    };
  });
  add("clock of 1 to 10 % of an iteration", [](Run& run) -> Factor {
    return [tick = run.between_log(0.01, 0.1), deviation = run.between(0.01, 0.05)](Run& r, int, double) {
      return std::round(r.noise(deviation) / tick) * tick;
    };
  });
  add("one to five stalls of 30 to 1000", [](Run& run) -> Factor {
    std::vector<std::pair<int, double>> stalls;
    const int count = run.whole(1, 5);
    for (int k = 0; k < count; ++k)
      stalls.emplace_back(static_cast<int>(run.rng.uniform() * run.length), run.between_log(30, 1000));
    return [stalls](Run& r, int i, double) {
      double factor = r.noise(0.05);
      for (const auto& [at, size] : stalls) factor += at == i ? size : 0;
      return factor;
    };
  });
  add("half and half of two levels", [](Run& run) -> Factor {
    return [level = run.between(1.1, 2), share = run.between(0.45, 0.55)](Run& r, int, double) {
      return (r.rng.uniform() < share ? level : 1) * r.noise(0.03);
    };
  });
  add("noise that grows up to fivefold, level that doesn't", [](Run& run) -> Factor {
    return [deviation = run.between(0.01, 0.05), growth = run.between(1, 4)](Run& r, int, double position) {
      return r.noise(deviation * (1 + growth * position));
    };
  });
  add("first iterations of each epoch slow, decaying", [](Run& run) -> Factor {
    return [epoch = run.length / run.whole(10, 50), size = run.between(0.2, 3), decay = run.between(2, 30)](
               Run& r, int i, double) { return r.noise(0.05) + size * std::exp(-(i % epoch) / decay); };
  });
  add("an outage: 0.1 % of the run at 20 times", [](Run& run) -> Factor {
    return [at = run.between(0.15, 0.95)](Run& r, int, double position) {
      return (position >= at && position < at + 0.001 ? 20 : 1) * r.noise(0.05);
    };
  });
  add("a slow stretch of 2 to 15 % in the middle", [](Run& run) -> Factor {
    return [from = run.between(0.2, 0.7), length = run.between(0.02, 0.15), level = run.between(1.05, 1.5)](
               Run& r, int, double position) {
      return (position >= from && position < from + length ? level : 1) * r.noise(0.05);
    };
  });
  return all;
}

std::vector<SeriesClass> sick(double change) {
  std::vector<SeriesClass> all;
  const auto add = [&](std::string name, std::function<Factor(Run&)> draw, Truth truth = Truth::kGrowing) {
    all.push_back(series_class(std::move(name), truth, std::move(draw)));
  };
  add("drift", [change](Run& run) -> Factor {
    return [change, deviation = run.between_log(0.02, 0.1)](Run& r, int, double position) {
      return (1 + change * position / 0.9) * r.noise(deviation);
    };
  });
  for (const int percent : {30, 50, 70, 80, 90, 95}) {
    add("step at " + std::to_string(percent) + " %", [change, percent](Run& run) -> Factor {
      return [=, deviation = run.between_log(0.02, 0.1)](Run& r, int, double position) {
        return (position < percent / 100.0 ? 1 : 1 + change) * r.noise(deviation);
      };
    });
  }
  add("faster for the first 6 to 9 %", [change](Run& run) -> Factor {
    return [change, part = run.between(0.06, 0.09)](Run& r, int, double position) {
      return (position < part ? 1 : 1 + change) * r.noise(0.05);
    };
  });
  add("growth from 60 to 90 % on", [change](Run& run) -> Factor {
    return [change, from = run.between(0.6, 0.9)](Run& r, int, double position) {
      return (1 + 2 * change * std::max(0.0, position - from) / (1 - from)) * r.noise(0.05);
    };
  });
  add("ramp between 20 and 80 %", [change](Run& run) -> Factor {
    return [change, from = run.between(0.2, 0.5), to = run.between(0.5, 0.8)](Run& r, int, double position) {
      return (1 + change * std::clamp((position - from) / (to - from), 0.0, 1.0)) * r.noise(0.05);
    };
  });
  add("ramp that ends at 25 to 65 %", [change](Run& run) -> Factor {
    return [change, to = run.between(0.25, 0.65)](Run& r, int, double position) {
      return (1 + change * std::min(1.0, position / to)) * r.noise(0.05);
    };
  });
  for (const int every : {10, 100, 400}) {
    add("spikes each " + std::to_string(every) + " that grow", [change, every](Run& run) -> Factor {
      run.length = std::max(run.length, 30 * every);
      return [=, first = run.between(0, 0.1)](Run& r, int i, double position) {
        const double share = first + 1.2 * change * position;  // of the mean
        return r.noise(0.05) + (i % every == every - 1 ? share * every * r.noise(0.1) : 0);
      };
    });
  }
  add("spikes of 5 to 20 that come more often", [change](Run& run) -> Factor {
    return [=, size = run.between(5, 20)](Run& r, int, double position) {
      return r.noise(0.05) + (r.rng.uniform() < (0.1 + 1.3 * position) * change / size ? size : 0);
    };
  });
  add("sawtooth on a rising base", [change](Run& run) -> Factor {
    return [=, teeth = run.whole(8, 40), size = run.between(0.05, 0.3)](Run& r, int, double position) {
      const double tooth = position * teeth - std::floor(position * teeth);
      return (1 + change * position / 0.9 + size * tooth) * r.noise(0.05);
    };
  });
  add("drift below checkpoints each 100", [change](Run& run) -> Factor {
    return [=, size = run.between(5, 20)](Run& r, int i, double position) {
      return (1 + change * position / 0.9) * r.noise(0.05) + (i % 100 == 99 ? size : 0);
    };
  });
  add("drift from 30 to 70 % on, lognormal noise", [change](Run& run) -> Factor {
    return [change, middle = run.between(0.3, 0.7)](Run& r, int, double position) {
      return (1 + change * std::max(position - middle, 0.0) / (0.95 - middle)) * r.lognormal(0.1);
    };
  });
  add("growth by the root of the iterations", [change](Run&) -> Factor {
    return [change](Run& r, int, double position) {
      return (1 + 1.5 * change * std::sqrt(position)) * r.noise(0.05);
    };
  });
  add("step up, then half of it back", [change](Run& run) -> Factor {
    return [=, up = run.between(0.3, 0.5), back = run.between(0.6, 0.75)](Run& r, int, double position) {
      return (position < up ? 1 : position < back ? 1 + 2.5 * change : 1 + 1.3 * change) * r.noise(0.05);
    };
  });
  add("stairs of five steps", [change](Run&) -> Factor {
    return [change](Run& r, int, double position) {
      return (1 + 1.1 * change * std::floor(5 * position) / 4) * r.noise(0.05);
    };
  });
  add("slow iterations become more, from 10 to 30 %", [change](Run&) -> Factor {
    return [change](Run& r, int, double position) {
      return (r.rng.uniform() < 0.1 + 0.2 * position ? 1 + 6 * change : 1) * r.noise(0.04);
    };
  });
  add("the slower of two levels grows", [change](Run&) -> Factor {
    return [change](Run& r, int, double position) {
      return (r.rng.uniform() < 0.5 ? 1 : 1.5 + 2.8 * change * position) * r.noise(0.03);
    };
  });
  add("late growth, exponential", [change](Run&) -> Factor {
    return [change](Run& r, int, double position) {
      return (1 + 3 * change * std::exp(10 * (position - 1))) * r.noise(0.04);
    };
  });
  add(
      "speed-up",
      [change](Run& run) -> Factor {
        return [change, deviation = run.between_log(0.02, 0.1)](Run& r, int, double position) {
          return (1 - change * position / 0.9) * r.noise(deviation);
        };
      },
      Truth::kShrinking);
  add(
      "a third of a run faster",
      [change](Run& run) -> Factor {
        return [change, from = run.between(0.4, 0.7)](Run& r, int, double position) {
          return (position < from ? 1 : 1 - change) * r.noise(0.05);
        };
      },
      Truth::kShrinking);
  return all;
}

}  // namespace

std::vector<SeriesClass> series_classes(double bound) {
  std::vector<SeriesClass> all = healthy();
  for (SeriesClass& one : sick(2 * bound)) all.push_back(std::move(one));
  return all;
}

int print_tables(int argc, char** argv, int usual_count,
                 const std::function<void(bool healthy, int count, const std::string& only)>& print_table) {
  const int count = argc > 1 ? std::atoi(argv[1]) : usual_count;
  if (count < 1 || argc > 3) {
    fmt::print(stderr, "usage: {} [SERIES_PER_CLASS] [TEXT]\n", argv[0]);
    return 2;
  }
  const std::string only = argc > 2 ? argv[2] : "";
  for (const bool healthy : {true, false}) print_table(healthy, count, only);
  return 0;
}

}  // namespace isochron::bench
