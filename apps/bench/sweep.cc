// `isochron sweep`: shows how the time and memory of a step grow with the size of the problem.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "isochron/apps/bench/cases.h"
#include "isochron/apps/commands.h"
#include "isochron/apps/number_options.h"
#include "isochron/apps/precision_option.h"
#include "isochron/autograd/autograd.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/files/file.h"
#include "isochron/core/process/threads.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/models/gpt.h"
#include "isochron/nn/models/models.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/export/plot.h"
#include "isochron/ops/attention/attention.h"
#include "isochron/ops/random/random.h"
#include "isochron/ops/reduction/reduction.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"

namespace isochron::apps {
namespace {

struct SweepOptions {
  std::vector<std::string> names;
  int threads = 0;
  double seconds = 0.5;
  Precision precision = Precision::kF32;
  std::filesystem::path out;
};

std::unique_ptr<CaseRun> classifier(int64_t batch, int64_t inputs, const std::vector<int64_t>& widths,
                                    Precision precision) {
  auto model = std::make_unique<nn::Sequential>(nn::mlp(widths));
  return train_case(std::move(model), optim::Adam(), nn::sparse_softmax_cross_entropy,
                    [=](Rng&) {
                      return std::pair{random_normal({batch, inputs}), zeros({batch}, DType::kI64)};
                    },
                    {precision});
}

std::unique_ptr<CaseRun> of_batch(int64_t batch, Precision precision) {
  return classifier(batch, 784, {512, 512, 10}, precision);
}
std::unique_ptr<CaseRun> of_width(int64_t width, Precision precision) {
  return classifier(128, width, {width, width, 10}, precision);
}
std::unique_ptr<CaseRun> of_depth(int64_t depth, Precision precision) {
  std::vector<int64_t> widths(static_cast<size_t>(depth), 256);
  widths.push_back(10);
  return classifier(128, 256, widths, precision);
}
std::unique_ptr<CaseRun> of_steps(int64_t steps, Precision precision) {
  return train_case(std::make_unique<nn::Sequential>(nn::lstm_forecaster()), optim::Adam(),
                    nn::mean_squared_error,
                    [=](Rng&) {
                      return std::pair{random_normal({64, steps, 8}), random_normal({64, 1})};
                    },
                    {precision});
}
std::unique_ptr<CaseRun> of_context(int64_t context, Precision precision) {
  auto model = std::make_unique<nn::Gpt>(nn::GptOptions{.vocabulary = 65, .context = context});
  return train_case(std::move(model), optim::AdamW(), nn::sparse_softmax_cross_entropy,
                    [=](Rng&) {
                      const Tensor zero = zeros({12, context}, DType::kI64);
                      return std::pair{zero, zero};
                    },
                    {precision});
}

/// Attention and its gradients alone, so that the arena shows what they need.
class AttentionRun final : public CaseRun {
 public:
  AttentionRun(int64_t length, Precision precision)
      : q_(random_normal({1, length, 4, 64})),
        k_(random_normal({1, length, 4, 64})),
        v_(random_normal({1, length, 4, 64})),
        step_(&AttentionRun::compute, {.name = "attention", .passes = {.precision = precision}}) {}
  void step() override { step_(q_, k_, v_); }
  CapturedFunction* captured() override { return &step_; }

 private:
  static std::vector<Tensor> compute(const Tensor& q, const Tensor& k, const Tensor& v) {
    const Tensor sources[] = {q, k, v};
    return gradients(sum(attention(q, k, v, {.causal = true})), sources);
  }
  Tensor q_, k_, v_;
  Captured<std::vector<Tensor> (*)(const Tensor&, const Tensor&, const Tensor&)> step_;
};
std::unique_ptr<CaseRun> of_length(int64_t length, Precision precision) {
  return std::make_unique<AttentionRun>(length, precision);
}

struct Sweep {
  std::string name;
  std::string what;
  std::vector<int64_t> sizes;
  std::unique_ptr<CaseRun> (*make)(int64_t size, Precision precision);
};

const std::vector<Sweep>& sweeps() {
  static const std::vector<Sweep> list = {
      {"batch", "784-512-512-10 by rows per batch", {16, 32, 64, 128, 256, 512, 1024}, of_batch},
      {"width",
       "three dense layers by units per layer, batch 128",
       {64, 128, 256, 512, 1024, 2048},
       of_width},
      {"depth",
       "dense layers of 256 units by number of layers, batch 128",
       {1, 2, 4, 8, 16, 32, 64},
       of_depth},
      {"sequence",
       "LSTM 64 over (64, steps, 8) by number of steps",
       {12, 24, 48, 96, 192, 384, 768},
       of_steps},
      {"context",
       "GPT of 4 blocks, width 128, batch 12, by number of tokens",
       {16, 32, 64, 128, 256, 512},
       of_context},
      {"attention",
       "causal attention and its gradients, 4 heads of 64, by sequence length",
       {256, 512, 1024, 2048, 4096, 8192},
       of_length}};
  return list;
}

struct Point {
  int64_t size = 0;
  double p50_ns = 0;
  double flops = 0;
  size_t arena_bytes = 0;
  size_t lower_bound_bytes = 0;
};

Point measure_point(const Sweep& sweep, int64_t size, const SweepOptions& options) {
  constexpr size_t kMinSteps = 5;
  const std::unique_ptr<CaseRun> run = sweep.make(size, options.precision);
  run->step();
  run->step();
  std::vector<int64_t> times;
  const int64_t end = now_ns() + to_ns(options.seconds);
  while (times.size() < kMinSteps || now_ns() < end) {
    const int64_t start = now_ns();
    run->step();
    times.push_back(now_ns() - start);
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  const graph::PlanReport& plan = run->captured()->plan_report();
  return {size, static_cast<double>(times[times.size() / 2]), plan.flops, plan.arena_bytes,
          plan.lower_bound_bytes};
}

/// d log b / d log a: 1 if b is proportional to a.
double exponent(double a0, double a1, double b0, double b1) { return std::log(b1 / b0) / std::log(a1 / a0); }

void print_sweep(const Sweep& sweep, const std::vector<Point>& points) {
  fmt::print("\n{}: {}\n", sweep.name, sweep.what);
  fmt::print("{:>8} {:>10} {:>10} {:>9} {:>11} {:>10} {:>13} {:>14}\n", sweep.name, "step", "MFLOP",
             "GFLOP/s", "arena", "vs bound", "time ~ work^", "arena ~ size^");
  for (size_t i = 0; i < points.size(); ++i) {
    const Point& p = points[i];
    std::string growth;
    if (i > 0) {
      const Point& q = points[i - 1];
      growth = fmt::format("{:>13.2f} {:>14.2f}", exponent(q.flops, p.flops, q.p50_ns, p.p50_ns),
                           exponent(static_cast<double>(q.size), static_cast<double>(p.size),
                                    static_cast<double>(q.arena_bytes), static_cast<double>(p.arena_bytes)));
    }
    fmt::print(
        "{:>8} {:>10} {:>10.4g} {:>9.1f} {:>11} {:>10.4f} {}\n", p.size, observe::duration_text(p.p50_ns),
        p.flops * 1e-6, p.flops / p.p50_ns, observe::bytes_text(static_cast<double>(p.arena_bytes)),
        static_cast<double>(p.arena_bytes) / static_cast<double>(std::max<size_t>(p.lower_bound_bytes, 1)),
        growth);
  }
  std::fflush(stdout);
}

void write(const Sweep& sweep, const std::vector<Point>& points, const std::filesystem::path& folder) {
  std::string csv = "size,p50_ns,flops,arena_bytes,lower_bound_bytes\n";
  observe::PlotSeries time{.name = "time of a step, ms", .markers = true};
  observe::PlotSeries arena{.name = "arena, MB", .markers = true, .dashed = true};
  for (const Point& p : points) {
    csv += fmt::format("{},{},{},{},{}\n", p.size, p.p50_ns, p.flops, p.arena_bytes, p.lower_bound_bytes);
    time.x.push_back(static_cast<double>(p.size));
    time.y.push_back(p.p50_ns * 1e-6);
    arena.x.push_back(static_cast<double>(p.size));
    arena.y.push_back(static_cast<double>(p.arena_bytes) * 1e-6);
  }
  write_file_atomically(folder / fmt::format("sweep_{}.csv", sweep.name), csv);
  const observe::Plot plot{.title = fmt::format("{}: {}", sweep.name, sweep.what),
                           .x_label = sweep.name,
                           .y_label = "",
                           .log_x = true,
                           .log_y = true,
                           .series = {time, arena}};
  write_file_atomically(folder / fmt::format("sweep_{}.svg", sweep.name), observe::plot_svg(plot));
}

void run_sweep(const SweepOptions& options) {
  require(options.precision != Precision::kTf32, ErrorCode::kUnsupported, "sweep",
          "--precision tf32 is for CUDA devices, but sweep runs on the CPU; leave it out, or see bench");
  if (options.threads > 0) set_compute_threads(options.threads);
  const auto locks = make_own_folders({options.out});
  for (const Sweep& sweep : sweeps()) {
    const bool chosen = options.names.empty() || std::find(options.names.begin(), options.names.end(),
                                                           sweep.name) != options.names.end();
    if (!chosen) continue;
    std::vector<Point> points;
    for (const int64_t size : sweep.sizes) points.push_back(measure_point(sweep, size, options));
    print_sweep(sweep, points);
    if (!options.out.empty()) write(sweep, points, options.out);
  }
}

}  // namespace

void add_sweep(CLI::App& app) {
  auto options = std::make_shared<SweepOptions>();
  CLI::App* command = app.add_subcommand(
      "sweep", "measure how the time and memory of a step grow with batch, width, depth and length");
  std::string what = "sweeps to run; default: all";
  std::vector<std::string> names;
  for (const Sweep& sweep : sweeps()) {
    what += fmt::format("\n    {:<10} {}", sweep.name, sweep.what);
    names.push_back(sweep.name);
  }
  command->add_option("name", options->names, what)->check(CLI::IsMember(names));
  command->add_option("--threads", options->threads, "compute threads")
      ->check(whole_number(1, kMaxComputeThreads));
  command->add_option("--seconds", options->seconds, "seconds to measure each size")
      ->check(positive_number())
      ->capture_default_str();
  add_precision_option(*command, options->precision);
  command->add_option("--out", options->out, "folder for a CSV and a plot (SVG) of each sweep");
  command->callback([options] { run_sweep(*options); });
}

}  // namespace isochron::apps
