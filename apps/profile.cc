#include "isochron/apps/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "isochron/apps/device_wait.h"
#include "isochron/core/clock.h"
#include "isochron/graph/apply.h"
#include "isochron/graph/captured.h"
#include "isochron/observe/report.h"
#include "isochron/ops/creation.h"
#include "isochron/ops/elementwise.h"
#include "isochron/ops/linear.h"

namespace isochron::apps {
namespace {

constexpr int kRounds = 101;
constexpr int kTrials = 15;

/// The shortest of some calls.
template <typename Call>
double shortest_ns(Call call) {
  int64_t best = INT64_MAX;
  for (int i = 0; i < kTrials; ++i) {
    const int64_t start = now_ns();
    call();
    best = std::min(best, now_ns() - start);
  }
  return static_cast<double>(best);
}

double median(std::vector<int64_t> times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return static_cast<double>(*middle);
}

}  // namespace

MachineLimits measure_limits(size_t working_set_bytes, Device device) {
  const int64_t side = device.is_cpu() ? 768 : 4096;
  const int64_t least_elems = int64_t{1} << (device.is_cpu() ? 16 : 26);
  MachineLimits limits;
  const DeviceWait wait(device);
  const auto shortest_of = [&](auto& function, const Tensor& a, const Tensor& b) {
    function(a, b);
    return shortest_ns([&] {
      function(a, b);
      wait();
    });
  };
  CaptureOptions options;
  options.plan.device = device;
  const Tensor square = to_device(full({side, side}, 0.5), device);
  auto product = capture([](const Tensor& a, const Tensor& b) { return matmul(a, b); }, options);
  limits.flops_per_ns = 2.0 * static_cast<double>(side * side * side) / shortest_of(product, square, square);
  const int64_t elems = std::max(least_elems, static_cast<int64_t>(working_set_bytes / (3 * sizeof(float))));
  const Tensor a = to_device(full({elems}, 0.5), device), b = to_device(full({elems}, 0.25), device);
  auto sum = capture([](const Tensor& x, const Tensor& y) { return x + y; }, options);
  limits.bytes_per_ns = static_cast<double>(3 * elems) * sizeof(float) / shortest_of(sum, a, b);
  return limits;
}

double Profile::ns() const {
  double total = 0;
  for (const ProfileLine& line : lines) total += line.ns;
  return total;
}

double Profile::limit_ns() const {
  double total = 0;
  for (const ProfileLine& line : lines) total += line.limit_ns;
  return total;
}

Profile profile(graph::Plan& plan) {
  Profile result;
  result.limits = measure_limits(plan.arena_bytes() + plan.report().bound_bytes, plan.report().device);
  const size_t count = plan.instruction_count();
  std::vector<std::vector<int64_t>> times(count);
  std::vector<int64_t> round(count);
  for (int i = 0; i < kRounds; ++i) {
    std::fill(round.begin(), round.end(), 0);
    plan.run_profiled(round);
    for (size_t k = 0; k < count; ++k) times[k].push_back(round[k]);
  }
  for (size_t k = 0; k < count; ++k) {
    const graph::Instruction& instruction = plan.instruction(k);
    const double limit =
        instruction.flops / result.limits.flops_per_ns + instruction.bytes / result.limits.bytes_per_ns;
    result.lines.push_back({instruction.name, instruction.op, instruction.shapes, median(times[k]), limit,
                            instruction.flops, instruction.bytes});
  }
  std::stable_sort(result.lines.begin(), result.lines.end(),
                   [](const ProfileLine& a, const ProfileLine& b) { return a.loss_ns() > b.loss_ns(); });
  return result;
}

namespace {

struct OpTotal {
  double ns = 0;
  double limit_ns = 0;
  int count = 0;
};

/// The same by op, largest loss first.
void print_totals(const Profile& p) {
  std::map<std::string, OpTotal> totals;
  for (const ProfileLine& line : p.lines) {
    OpTotal& total = totals[line.op.empty() ? "copy" : line.op];
    total.ns += line.ns;
    total.limit_ns += line.limit_ns;
    ++total.count;
  }
  std::vector<std::pair<std::string, OpTotal>> sorted(totals.begin(), totals.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.ns - a.second.limit_ns > b.second.ns - b.second.limit_ns;
  });
  const double all = p.ns();
  fmt::print("  {:>10} {:>6} {:>10} {:>10} {:>9}  {}\n", "time", "share", "limit", "loss", "kernels",
             "by op");
  for (const auto& [op, total] : sorted) {
    fmt::print("  {:>10} {:5.1f}% {:>10} {:>10} {:>9}  {}\n", observe::duration_text(total.ns),
               100 * total.ns / all, observe::duration_text(total.limit_ns),
               observe::duration_text(total.ns - total.limit_ns), total.count, op);
  }
}

}  // namespace

void print_profile(graph::Plan& plan) {
  const Profile p = profile(plan);
  fmt::print("\n  limits: {:.0f} GFLOP/s (f32 matrix product), {:.1f} GB/s over a working set of {}\n",
             p.limits.flops_per_ns, p.limits.bytes_per_ns,
             observe::bytes_text(static_cast<double>(plan.arena_bytes() + plan.report().bound_bytes)));
  fmt::print("  {:>10} {:>6} {:>10} {:>10} {:>9} {:>8}  {}\n", "time", "share", "limit", "loss", "GFLOP/s",
             "GB/s", "kernel");
  const double total = p.ns();
  for (const ProfileLine& line : p.lines) {
    fmt::print("  {:>10} {:5.1f}% {:>10} {:>10} {:>9.1f} {:>8.1f}  {} {}\n", observe::duration_text(line.ns),
               100 * line.ns / total, observe::duration_text(line.limit_ns),
               observe::duration_text(line.loss_ns()), line.flops / std::max(line.ns, 1.0),
               line.bytes / std::max(line.ns, 1.0), line.name, line.shapes);
  }
  fmt::print("\n");
  print_totals(p);
  fmt::print("  {:>10}        {:>10}  all kernels: {:.2f} times the limit\n\n", observe::duration_text(total),
             observe::duration_text(p.limit_ns()), total / p.limit_ns());
}

}  // namespace isochron::apps
