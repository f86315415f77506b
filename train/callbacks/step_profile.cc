#include "isochron/train/callbacks/step_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "isochron/core/base/clock.h"
#include "isochron/core/base/median.h"
#include "isochron/core/text/count_text.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/capture/capture.h"
#include "isochron/graph/ir/graph.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/memory/cuda/gpu.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/ops/elementwise/elementwise.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/ops/shape/shape_ops.h"

namespace isochron::train {
namespace {

constexpr int kTrials = 15;
constexpr int64_t kFastProductNs = 2'000'000;
constexpr int kMinRounds = 5;

/// Calls whose times show the machine's limits.
class LimitTrials {
 public:
  LimitTrials(size_t working_set_bytes, Device device, DType half)
      : gpu_(device.is_cpu() ? nullptr : cuda::gpu(device)) {
    const int64_t side = device.is_cpu() ? 768 : 4096;
    // Small products stay in a core's own cache; in large ones, packing has a smaller share.
    for (const int64_t one : {side / 3, 2 * side / 3, side})
      products_.push_back(product(one, DType::kF32, device));
    if (is_half(half)) {
      for (const int64_t one : {2 * side / 3, side}) half_products_.push_back(product(one, half, device));
      // For machines whose 16-bit units are so fast that packing is noticeable in a product of that size.
      if (timed_ns(half_products_.back()) < kFastProductNs)
        half_products_.push_back(product(2 * side, half, device));
    }
    const int64_t least_elems = int64_t{1} << (device.is_cpu() ? 10 : 26);
    sum_.push_back(
        sum(std::max(least_elems, static_cast<int64_t>(working_set_bytes / (3 * sizeof(float)))), device));
    sum_.push_back(sum(1, device));
  }

  /// Makes each call twice and counts the second, because the first finds other data in the cache.
  void run() {
    const int64_t begin = now_ns();
    for (auto* trials : {&products_, &half_products_, &sum_}) {
      for (Trial& trial : *trials) {
        timed_ns(trial);
        trial.times.push_back(timed_ns(trial));
      }
    }
    spent_ns_ += now_ns() - begin;
    ++runs_;
  }
  int runs() const { return runs_; }
  int64_t spent_ns() const { return spent_ns_; }

  /// Computes the limits from the medians.
  MachineLimits limits() const {
    MachineLimits limits;
    limits.flops_per_ns = fastest(products_);
    limits.half_flops_per_ns = fastest(half_products_);
    // The fixed cost of a call doesn't depend on the bandwidth, and exceeds the time of a small sum.
    const double all_ns = middle_of(sum_[0].times), call_ns = middle_of(sum_[1].times);
    limits.bytes_per_ns = sum_[0].work / std::max(all_ns - call_ns, all_ns / 4);
    return limits;
  }

 private:
  struct Trial {
    std::function<void()> call;
    double work;  // FLOP or bytes
    std::vector<int64_t> times;
  };

  int64_t timed_ns(const Trial& trial) const {
    const int64_t start = now_ns();
    trial.call();
    if (gpu_) gpu_->synchronize();
    return now_ns() - start;
  }
  template <typename Function>
  static Trial trial(Function function, const Tensor& a, const Tensor& b, double work, Device device) {
    CaptureOptions options;
    options.plan.device = device;
    auto captured = std::make_shared<Captured<Function>>(capture(function, options));
    (*captured)(a, b);
    return {[captured, a, b] { (*captured)(a, b); }, work, {}};
  }
  static Trial product(int64_t side, DType dtype, Device device) {
    const Tensor square = to_device(full({side, side}, 0.5, dtype), device);
    return trial([](const Tensor& a, const Tensor& b) { return matmul(a, b); }, square, square,
                 2.0 * static_cast<double>(side * side * side), device);
  }
  static Trial sum(int64_t elems, Device device) {
    const Tensor a = to_device(full({elems}, 0.5), device), b = to_device(full({elems}, 0.25), device);
    return trial([](const Tensor& x, const Tensor& y) { return x + y; }, a, b,
                 static_cast<double>(3 * elems) * sizeof(float), device);
  }
  static double fastest(const std::vector<Trial>& trials) {
    double best = 0;
    for (const Trial& trial : trials) best = std::max(best, trial.work / middle_of(trial.times));
    return best;
  }

  std::shared_ptr<cuda::Gpu> gpu_;
  std::vector<Trial> products_;
  std::vector<Trial> half_products_;
  std::vector<Trial> sum_;  // of the working set, and of one element
  int runs_ = 0;
  int64_t spent_ns_ = 0;
};

/// The kind of limit that applies to a node's kernel.
struct Kind {
  bool elements = false;  // element functions and reductions: the bandwidth alone
  bool product = false;   // on tensor cores if the precision allows them
  bool half = false;      // products of 16-bit operands
};

Kind kind_of(const graph::Node& node) {
  Kind kind;
  kind.product = node.op->precision.rule == graph::PrecisionRule::kLow;
  kind.elements =
      !kind.product && (node.op->fusion != graph::FusionClass::kOpaque || node.attributes.has("program"));
  if (!kind.product) return kind;
  kind.half = std::ranges::any_of(
      node.inputs, [](const graph::Value* input) { return input != nullptr && is_half(input->spec.dtype); });
  return kind;
}

/// The kinds of all instructions.
std::vector<Kind> kinds_of(const graph::Plan& plan, const graph::Graph& graph) {
  std::unordered_map<std::string, Kind> by_name;
  for (const auto& node : graph.nodes()) by_name.emplace(node->name(), kind_of(*node));
  std::vector<Kind> kinds(plan.instruction_count());
  for (size_t k = 0; k < kinds.size(); ++k) {
    const auto found = by_name.find(plan.instruction(k).name);
    if (found != by_name.end()) kinds[k] = found->second;
  }
  return kinds;
}

/// The dtype of the graph's 16-bit products; kF32 if it has none.
DType half_dtype(const graph::Graph& graph) {
  for (const auto& node : graph.nodes()) {
    if (!kind_of(*node).half) continue;
    for (const graph::Value* input : node->inputs) {
      if (input != nullptr && is_half(input->spec.dtype)) return input->spec.dtype;
    }
  }
  return DType::kF32;
}

/// A copy of all content that a graph reads and updates by reference; the destructor restores it.
class KeptState {
 public:
  explicit KeptState(const graph::Graph& graph) {
    for (const graph::Value* value : graph.bound()) {
      if (value->constant() || value->spec.size_bytes() == 0) continue;
      Part part{value->bound.storage(), value->bound.impl()->offset_bytes, value->spec.size_bytes(), {}};
      part.content = allocate_buffer(part.bytes, "kept for a profile");
      part.storage->read(part.offset, part.content->data(), part.bytes);
      parts_.push_back(std::move(part));
    }
  }
  ~KeptState() {
    for (const Part& part : parts_) part.storage->write(part.offset, part.content->data(), part.bytes);
  }
  KeptState(const KeptState&) = delete;
  KeptState& operator=(const KeptState&) = delete;

 private:
  struct Part {
    Ref<Storage> storage;
    size_t offset;
    size_t bytes;
    Ref<Storage> content;
  };
  std::vector<Part> parts_;
};

struct OpTotal {
  double ns = 0;
  double limit_ns = 0;
  int count = 0;
};

std::string totals_text(const StepProfile& profile) {
  std::map<std::string, OpTotal> totals;
  for (const ProfiledKernel& kernel : profile.kernels) {
    OpTotal& total = totals[kernel.op.empty() ? "copy" : kernel.op];
    total.ns += kernel.ns;
    total.limit_ns += kernel.limit_ns;
    ++total.count;
  }
  std::vector<std::pair<std::string, OpTotal>> sorted(totals.begin(), totals.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.ns - a.second.limit_ns > b.second.ns - b.second.limit_ns;
  });
  const double all = std::max(profile.ns(), 1.0);
  std::string text = fmt::format("  {:>10} {:>6} {:>10} {:>10} {:>9}  {}\n", "time", "share", "limit", "loss",
                                 "kernels", "by op");
  for (const auto& [op, total] : sorted) {
    text += fmt::format("  {:>10} {:5.1f}% {:>10} {:>10} {:>9}  {}\n", observe::duration_text(total.ns),
                        100 * total.ns / all, observe::duration_text(total.limit_ns),
                        observe::duration_text(total.ns - total.limit_ns), total.count, op);
  }
  return text;
}

}  // namespace

double StepProfile::ns() const {
  double total = 0;
  for (const ProfiledKernel& kernel : kernels) total += kernel.ns;
  return total;
}

double StepProfile::limit_ns() const {
  double total = 0;
  for (const ProfiledKernel& kernel : kernels) total += kernel.limit_ns;
  return total;
}

double StepProfile::share() const { return limit_ns() / std::max(ns(), 1.0); }

std::string StepProfile::text(size_t most) const {
  std::string text = fmt::format("  limits: {:.0f} GFLOP/s (f32 matrix product)", limits.flops_per_ns);
  if (limits.half_flops_per_ns > 0)
    text += fmt::format(", {:.0f} GFLOP/s (16-bit matrix product)", limits.half_flops_per_ns);
  text += fmt::format(", {:.1f} GB/s over a working set of {}\n", limits.bytes_per_ns,
                      observe::bytes_text(static_cast<double>(working_set_bytes)));
  text += fmt::format("  {:>10} {:>6} {:>10} {:>10} {:>9} {:>8}  {}\n", "time", "share", "limit", "loss",
                      "GFLOP/s", "GB/s", "kernel");
  const double total = std::max(ns(), 1.0);
  for (size_t i = 0; i < std::min(most, kernels.size()); ++i) {
    const ProfiledKernel& kernel = kernels[i];
    text += fmt::format("  {:>10} {:5.1f}% {:>10} {:>10} {:>9.1f} {:>8.1f}  {} {}{}\n",
                        observe::duration_text(kernel.ns), 100 * kernel.ns / total,
                        observe::duration_text(kernel.limit_ns), observe::duration_text(kernel.loss_ns()),
                        kernel.flops / std::max(kernel.ns, 1.0), kernel.bytes / std::max(kernel.ns, 1.0),
                        kernel.name, kernel.shapes, kernel.half ? " in 16 bits" : "");
  }
  if (most < kernels.size())
    text += fmt::format("  and {}, which lose less\n", count_text(kernels.size() - most, "further kernel"));
  text += "\n";
  text += totals_text(*this);
  text += fmt::format("  {:>10}        {:>10}  all kernels: the limits account for {:.2f} of the time\n",
                      observe::duration_text(ns()), observe::duration_text(limit_ns()), share());
  return text;
}

StepProfile profile(CapturedFunction& step, const ProfileOptions& options) {
  require(options.rounds >= 1, ErrorCode::kInvalidArgument, "profile", "rounds must be >= 1, got {}",
          options.rounds);
  require(graph::Capture::current() == nullptr, ErrorCode::kCaptureViolation, "profile",
          "a capture is in progress; profile the step between its calls");
  graph::Plan& plan = step.plan();
  const graph::Graph& graph = step.graph();
  StepProfile result;
  result.working_set_bytes = plan.arena_bytes() + plan.report().bound_bytes;
  LimitTrials trials(result.working_set_bytes, plan.report().device, half_dtype(graph));
  const size_t count = plan.instruction_count();
  std::vector<std::vector<int64_t>> times(count);
  std::vector<int64_t> round(count);
  {
    const KeptState kept(graph);
    const auto most_ns = static_cast<int64_t>(options.seconds * 1e9);
    const int64_t begin = now_ns();
    const auto spent_ns = [&] { return now_ns() - begin; };
    bool after_trial = false;
    for (int i = 0; i < options.rounds && (i < kMinRounds || spent_ns() < most_ns); ++i) {
      if (after_trial)
        plan.run_profiled(round);  // brings the step's memory back into the caches; not counted
      std::fill(round.begin(), round.end(), 0);
      plan.run_profiled(round);
      for (size_t k = 0; k < count; ++k) times[k].push_back(round[k]);
      // Alternates with the step, so that anything that slows the machine down slows both.
      const bool due = int64_t{trials.runs()} * options.rounds < int64_t{kTrials} * (i + 1);
      after_trial = due || 3 * trials.spent_ns() < spent_ns();
      if (after_trial) trials.run();
    }
  }
  result.limits = trials.limits();
  const std::vector<Kind> kinds = kinds_of(plan, graph);
  for (size_t k = 0; k < count; ++k) {
    const graph::Instruction& instruction = plan.instruction(k);
    const Kind kind = kinds[k];
    const double rate = kind.half ? result.limits.half_flops_per_ns : result.limits.flops_per_ns;
    const double limit =
        (kind.elements ? 0 : instruction.flops / rate) + instruction.bytes / result.limits.bytes_per_ns;
    result.kernels.push_back({instruction.name, instruction.op, instruction.shapes, middle_of(times[k]),
                              limit, instruction.flops, instruction.bytes, kind.half});
  }
  std::stable_sort(result.kernels.begin(), result.kernels.end(),
                   [](const auto& a, const auto& b) { return a.loss_ns() > b.loss_ns(); });
  return result;
}

std::span<const DataSheet> data_sheets() {
  static constexpr DataSheet kSheets[] = {
      {"a100", "NVIDIA A100-SXM4-80GB", 19.5e3, 156e3, 312e3, 2039},
      {"h100", "NVIDIA H100 80GB HBM3", 66.9e3, 494.7e3, 989.4e3, 3350},
      {"h200", "NVIDIA H200", 66.9e3, 494.7e3, 989.4e3, 4800},
  };
  return kSheets;
}

StepPrediction predict(CapturedFunction& step, const DataSheet& device) {
  const graph::Plan& plan = step.plan();
  require(
      !plan.report().device.is_cpu(), ErrorCode::kUnsupported, "predict",
      "the step is planned for the CPU; predictions are of plans for a device (CaptureOptions::plan.device)");
  const std::vector<Kind> kinds = kinds_of(plan, step.graph());
  const double nodes = static_cast<double>(plan.report().device_nodes) /
                       static_cast<double>(std::max<size_t>(1, kinds.size()));
  StepPrediction result;
  result.device = &device;
  struct Path {
    double ns = 0, launches = 0;
  };
  std::vector<Path> paths(kinds.size());  // the longest one to each instruction's end
  for (size_t k = 0; k < kinds.size(); ++k) {
    const graph::Instruction& instruction = plan.instruction(k);
    const double rate = kinds[k].half                            ? device.half_flops_per_ns
                        : kinds[k].product && plan.report().tf32 ? device.tf32_flops_per_ns
                                                                 : device.flops_per_ns;
    const double work =
        std::max(kinds[k].elements ? 0 : instruction.flops / rate, instruction.bytes / device.bytes_per_ns);
    Path longest;
    for (const size_t earlier : plan.waits_for(k)) {
      if (paths[earlier].ns > longest.ns) longest = paths[earlier];
    }
    paths[k] = {longest.ns + work + nodes * kNodeNs, longest.launches + nodes};
    result.work_ns += work;
    if (paths[k].ns > result.path_ns) {
      result.path_ns = paths[k].ns;
      result.launches = paths[k].launches;
    }
  }
  result.ns = std::max(result.path_ns, result.work_ns);
  return result;
}

std::string StepPrediction::text() const {
  return fmt::format(
      "predicted from the data sheet of {}: {} ({:.0f} launches one after another; {} for bytes and "
      "arithmetic alone)",
      device->driver_name, observe::duration_text(ns), launches, observe::duration_text(work_ns));
}

}  // namespace isochron::train
