// Measures how often the flatness verdict errs on real training with a planted drift: a network trains, and
// after each step the loop walks over data that it has kept, which grow until a step takes longer by a
// multiple of the bound. Runs with and without drift alternate, so that changes of the machine affect both
// alike. Prints a table of docs/flatness-error-rates.md. Each run is compared with a twin, unless the third
// argument is `alone`.
//   flatness_real [RUNS_PER_ROW [SECONDS_PER_RUN [alone]]]
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isochron/autograd/autograd.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/base/rng.h"
#include "isochron/core/process/threads.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/diagnose/run_data.h"
#include "isochron/observe/interleaved/interleaved_runner.h"
#include "isochron/optim/optimizers.h"

namespace {

using namespace isochron;
using namespace isochron::observe;

constexpr int64_t kRows = 64, kFeatures = 64;
/// Warm-up steps of a run before it is recorded: buffers grow, kernels are chosen, caches fill.
constexpr int kWarmUp = 2000;

Tensor random_tensor(Shape shape, uint64_t seed) {
  Rng rng(seed);
  const Tensor tensor = empty({DType::kF32, std::move(shape)});
  for (float& value : tensor.span<float>()) value = static_cast<float>(rng.normal());
  return tensor;
}

using Step = std::function<Tensor(const Tensor&, const Tensor&)>;

/// A network and the step that trains it, captured or op by op.
struct Training {
  explicit Training(bool is_captured) : captured(is_captured) {}

  Tensor step_of(const Tensor& a, const Tensor& b) {
    const Tensor loss = nn::mean_squared_error(model(a), b);
    optimizer.minimize(loss, model.parameters());
    return loss;
  }
  void step() {
    if (captured) {
      replayed(x, y);
      return;
    }
    const GradientTape tape;
    step_of(x, y);
  }

  bool captured;
  nn::Sequential model{nn::Dense(64, nn::Activation::kRelu), nn::Dense(1)};
  optim::Adam optimizer{{.learning_rate = 1e-3}};
  Tensor x = random_tensor({kRows, kFeatures}, 1), y = random_tensor({kRows, 1}, 2);
  Captured<Step> replayed = capture(Step([this](const Tensor& a, const Tensor& b) { return step_of(a, b); }));
};

/// The data that a loop keeps. Every step walks over the first `reach` nodes of a list.
class History {
 public:
  explicit History(size_t nodes) : nodes_(nodes) {}
  double walk(size_t reach) {
    double sum = 0;
    auto at = nodes_.begin();
    for (size_t i = 0; i < reach; ++i, ++at) sum += *at;
    return sum;
  }
  size_t size() const { return nodes_.size(); }

 private:
  std::list<double> nodes_;
};

/// How the length of the walk, as a share of the longest, changes over the run, from position 0 to 1.
struct Plant {
  const char* name;
  bool drifts;
  double (*part)(double position);
};
constexpr Plant kPlants[] = {
    {"nothing", false, [](double) { return 0.0; }},
    {"history kept, walked over in each step", true, [](double position) { return position; }},
    {"a hook more from the middle on", true, [](double position) { return position < 0.5 ? 0.0 : 1.0; }},
};

volatile double g_sink;

double median_ns(const std::function<void()>& work, int times) {
  std::vector<double> ns;
  for (int i = 0; i < times; ++i) {
    const int64_t began = now_ns();
    work();
    ns.push_back(static_cast<double>(now_ns() - began));
  }
  return median(ns);
}

/// The training with its planted drift, already warm.
class Loop {
 public:
  Loop(bool captured, double change) : training_(captured), history_(100'000) {
    for (int i = 0; i < kWarmUp; ++i) training_.step();
    step_ns_ = median_ns([&] { training_.step(); }, 2001);
    const double node_ns = median_ns([&] { g_sink = history_.walk(10'000); }, 201) / 10'000;
    most_ = std::min(history_.size(), static_cast<size_t>(change * step_ns_ / node_ns));
  }
  void step(double part) {
    training_.step();
    g_sink = history_.walk(static_cast<size_t>(part * static_cast<double>(most_)));
  }
  double step_ns() const { return step_ns_; }

 private:
  Training training_;
  History history_;
  double step_ns_ = 0;
  size_t most_ = 0;
};

std::string twin_of(bool captured, double change, Turns& turns) {
  Loop loop(captured, change);
  do {
    for (int64_t began = running_ns(), now = began; !turns.over(now); began = now) {
      loop.step(0);
      now = running_ns();
      turns.add(now - began);
    }
  } while (turns.wait([] { return std::string(); }));
  return {};
}

RunReport run(bool captured, const Plant& plant, double change, double seconds, bool beside_twin) {
  std::optional<Worker> twin;
  if (beside_twin) twin.emplace([&](Turns& turns) { return twin_of(captured, change, turns); });
  Loop loop(captured, change);
  const auto iterations = static_cast<int64_t>(seconds * 1e9 / loop.step_ns());
  const auto after = static_cast<int64_t>(2e9 / loop.step_ns());  // maximum in turns with the twin
  Recorder recorder({.clock = running_ns});
  std::optional<BesideTwin> beside;
  if (twin) beside.emplace(*twin);
  RunData data;
  bool running = !beside, ended = false;
  for (int64_t i = 0; i < iterations + (beside ? after : 0);) {
    const int64_t began = running_ns();
    {
      const IterationScope iteration(recorder);
      const double position = static_cast<double>(i) / static_cast<double>(iterations);
      loop.step(plant.part(std::min(position, 1.0)));
    }
    if (beside) {
      const auto mark = beside->next(running_ns() - began, iterations + after - i);
      if (mark == BesideTwin::Mark::kRunBegins) {
        recorder.seal();
        running = true;
      }
      if (mark == BesideTwin::Mark::kRunEnds) {
        data = run_data(recorder, plant.name);
        ended = true;
      }
      if (ended && i % 1000 == 0 && turn_pairs_error(beside->turns().after) < 0.006) break;
    }
    i += running;
  }
  if (!ended) data = run_data(recorder, plant.name);
  if (beside) data.turns = beside->turns();
  return make_report(data);
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 30;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 4;
  const bool beside_twin = argc < 4 || std::string_view(argv[3]) != "alone";
  if (count < 1 || seconds <= 0) {
    fmt::print(stderr, "usage: flatness_real [RUNS_PER_ROW [SECONDS_PER_RUN [alone]]]\n");
    return 2;
  }
  set_compute_threads(1);
  const double bound = FlatnessOptions{}.bound;
  struct Row {
    bool captured;
    const Plant* plant;
    int runs = 0;
    int machine = 0;
    std::array<int, 4> said{};
  };
  std::vector<Row> rows;
  for (const bool captured : {true, false}) {
    for (const Plant& plant : kPlants) rows.push_back({.captured = captured, .plant = &plant});
  }
  for (int i = 0; i < count; ++i) {
    for (Row& row : rows) {
      const int times = row.plant->drifts ? 1 : 2;  // so as many without drift as with one
      for (int k = 0; k < times; ++k) {
        const RunReport report = run(row.captured, *row.plant, 2 * bound, seconds, beside_twin);
        ++row.runs;
        ++row.said[static_cast<size_t>(report.time.kind)];
        row.machine += report.time.machine_slowed;
      }
    }
    fmt::print(stderr, "round {} of {}\n", i + 1, count);
  }
  fmt::print(
      "| step | planted | drift / bound | runs | flat | growing | shrinking | inconclusive | machine slowed "
      "|\n");
  fmt::print("|---|---|---|---|---|---|---|---|---|\n");
  for (const Row& row : rows) {
    const auto of = [&](Flatness kind) { return row.said[static_cast<size_t>(kind)]; };
    fmt::print("| {} | {} | {} x | {} | {} | {} | {} | {} | {} |\n", row.captured ? "captured" : "op by op",
               row.plant->name, row.plant->drifts ? 2 : 0, row.runs, of(Flatness::kFlat),
               of(Flatness::kGrowing), of(Flatness::kShrinking), of(Flatness::kInconclusive), row.machine);
  }
}
