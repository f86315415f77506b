#include "isochron/train/callbacks/tensor_board.h"

#include <algorithm>
#include <utility>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/memory/allocators/buffer.h"
#include "isochron/observe/host/machine.h"
#include "isochron/train/callbacks/state_text.h"

namespace isochron::train {
namespace {

/// The histogram of a tensor's numbers; null for dtypes that can't be shown as one: counters, 16-bit types.
std::optional<observe::HistogramSummary> summary_of(const Tensor& anywhere) {
  const Tensor tensor = to_device(anywhere, {});
  if (tensor.dtype() == DType::kF32) return observe::summarize(tensor.span<float>());
  if (tensor.dtype() == DType::kF64) return observe::summarize(tensor.span<double>());
  return std::nullopt;
}

/// The histogram in microseconds, with at most HistogramSummary::kMaxBuckets buckets.
observe::HistogramSummary summary_of(const observe::LogHistogram<uint32_t>& durations_ns) {
  observe::HistogramSummary summary;
  double below_ns = 0;
  const double highest_ns = durations_ns.quantile(1);
  const double lowest_ns = durations_ns.quantile(0);
  const double width_ns = (highest_ns - lowest_ns) / observe::HistogramSummary::kMaxBuckets;
  durations_ns.for_each([&](double lower_ns, double upper_ns, uint32_t count) {
    const double us = (lower_ns + upper_ns) / 2 * 1e-3, n = count;
    if (summary.count == 0) summary.min = us;
    summary.max = us;
    summary.count += n;
    summary.sum += n * us;
    summary.sum_squares += n * us * us;
    if (!summary.limits.empty() && upper_ns <= below_ns) {
      summary.counts.back() += n;
      summary.limits.back() = upper_ns * 1e-3;
      return;
    }
    below_ns = std::max(lower_ns + width_ns, upper_ns);
    summary.limits.push_back(upper_ns * 1e-3);
    summary.counts.push_back(n);
  });
  return summary;
}

/// Weights by the address of their content.
graph::BoundNames names_of(const RunState& run) {
  graph::BoundNames names;
  if (run.savable == nullptr) return names;
  try {
    for (const auto& [name, variable] : run.savable->variables())
      names[variable.tensor().device_address()] = name;
  } catch (const Error& error) {  // the trainer doesn't know the weights
    if (error.code() != ErrorCode::kUnsupported) throw;
  }
  return names;
}

/// Live bytes of the arena at each instruction.
std::vector<double> live_bytes(const graph::PlanReport& plan) {
  std::vector<double> changes(plan.instructions + 3, 0);
  const auto last = static_cast<int64_t>(changes.size()) - 1;
  for (const graph::PlannedBuffer& buffer : plan.buffers) {
    changes[static_cast<size_t>(std::min(buffer.lower, last))] += static_cast<double>(buffer.size_bytes);
    changes[static_cast<size_t>(std::min(buffer.upper, last))] -= static_cast<double>(buffer.size_bytes);
  }
  std::vector<double> live(plan.instructions, 0);
  double now = 0;
  for (size_t i = 0; i < live.size(); ++i) live[i] = now += changes[i];
  return live;
}

}  // namespace

TensorBoard::TensorBoard(std::filesystem::path log_dir, TensorBoardOptions options)
    : log_dir_(std::move(log_dir)), options_(options) {
  require(options_.histogram_freq >= 0, ErrorCode::kInvalidArgument, kind(),
          "histogram_freq must be >= 0, got {}", options_.histogram_freq);
}

observe::EventFile& TensorBoard::file(std::unique_ptr<observe::EventFile>& slot, const char* folder) const {
  if (!slot) {
    slot = std::make_unique<observe::EventFile>(log_dir_ / folder);
    if (resumed_at_) slot->restart_at(*resumed_at_ + 1);
  }
  return *slot;
}

observe::EventFile& TensorBoard::train_file(const RunState& run) {
  const bool fresh = !train_;
  observe::EventFile& events = file(train_, "train");
  if (fresh && options_.write_graph && run.captured != nullptr && run.captured->plan_count() > 0) {
    write_graph(run);
  }
  return events;
}

void TensorBoard::write_graph(const RunState& run) {
  train_->graph(graph::list_nodes(run.captured->graph(), names_of(run)));
  const std::vector<double> live = live_bytes(run.captured->plan_report());
  std::unique_ptr<observe::EventFile> slot;
  observe::EventFile& memory = file(slot, "step_memory");
  // If there are more kernels than kMaxMemoryPoints, writes only the largest value of each stretch of
  // kernels.
  const size_t stretch = (live.size() + kMaxMemoryPoints - 1) / std::max<size_t>(kMaxMemoryPoints, 1);
  for (size_t i = 0; i < live.size(); i += std::max<size_t>(stretch, 1)) {
    const auto begin = live.begin() + static_cast<std::ptrdiff_t>(i);
    const auto end = live.begin() + static_cast<std::ptrdiff_t>(std::min(live.size(), i + stretch));
    memory.scalar("memory/live_arena_bytes_by_kernel", static_cast<int64_t>(i),
                  *std::max_element(begin, end));
  }
  memory.flush();
}

void TensorBoard::write_histograms(const RunState& run) {
  size_t written = 0;
  const auto write = [&](const std::string& tag, const Tensor& tensor) {
    const auto summary = written < kMaxHistograms ? summary_of(tensor) : std::nullopt;
    if (!summary) return;
    train_->histogram(tag, run.total_steps, *summary);
    ++written;
  };
  try {
    if (run.savable != nullptr) {
      for (const auto& [name, variable] : run.savable->weights()) {
        if (variable.elems() > 0) write("weights/" + name, variable.tensor());
      }
    }
  } catch (const Error& error) {  // the trainer doesn't know the weights
    if (error.code() != ErrorCode::kUnsupported) throw;
  }
  written = 0;
  if (options_.optimizer != nullptr) {
    for (const Variable& gradient : options_.optimizer->kept_gradients()) {
      write("gradients/" + gradient.name(), gradient.tensor());
    }
  }
  if (run.step_ns != nullptr && run.step_ns->count() > 0) {
    train_->histogram("step_time_us", run.total_steps, summary_of(*run.step_ns));
  }
}

void TensorBoard::write_memory(const RunState& run) {
  const auto scalar = [&](const std::string& name, auto value) {
    train_->scalar("memory/" + name, run.total_steps, static_cast<double>(value));
  };
  scalar("in_use_bytes", counter_value(Counter::kBytesInUse));
  scalar("reserved_bytes", counter_value(Counter::kBytesReserved));
  if (const int64_t resident = observe::Sensors().read().rss_bytes; resident != observe::kUnknownReading)
    scalar("resident_bytes", resident);
  const std::vector<TagUsage> usage = default_allocator().usage_by_tag();
  for (size_t i = 0; i < std::min(usage.size(), kMaxTags); ++i) {
    scalar(fmt::format("by_tag/{}", usage[i].tag), usage[i].bytes);
  }
}

void TensorBoard::write_transfers(const RunState& run) {
  if (run.captured == nullptr || run.captured->plan_count() == 0) return;
  const cuda::TransferStats before = std::exchange(transferred_, run.captured->transfer_stats());
  const int64_t transfers = transferred_.transfers - before.transfers;
  if (transfers <= 0) return;  // negative if plans were evicted together with their counts
  const auto scalar = [&](const char* name, double now, double then) {
    train_->scalar(fmt::format("transfer/{}_per_batch", name), run.total_steps,
                   (now - then) / static_cast<double>(transfers));
  };
  scalar("bytes", static_cast<double>(transferred_.bytes), static_cast<double>(before.bytes));
  scalar("copy_us", transferred_.copy_ns * 1e-3, before.copy_ns * 1e-3);
  scalar("exposed_us", transferred_.exposed_ns * 1e-3, before.exposed_ns * 1e-3);
  scalar("waited_us", transferred_.waited_ns * 1e-3, before.waited_ns * 1e-3);
}

/// Discards everything of an earlier fit, even if that fit ended with an error.
void TensorBoard::on_train_begin(RunState&) {
  train_.reset();
  validation_.reset();
  next_batch_ = 0;
  resumed_at_.reset();
  transferred_ = {};
}

void TensorBoard::on_batch_end(RunState& run, const Results& results) {
  if (options_.update_freq <= 0 || run.total_steps < next_batch_) return;
  next_batch_ = run.total_steps + options_.update_freq;
  observe::EventFile& events = train_file(run);
  for (const auto& [name, value] : results) events.scalar("batch_" + name, run.total_steps, value);
  events.flush();
}

void TensorBoard::on_epoch_end(RunState& run, const Results& results) {
  constexpr std::string_view kValidation = "val_";
  observe::EventFile& events = train_file(run);
  for (const auto& [name, value] : results) {
    if (name.starts_with(kValidation)) {
      file(validation_, "validation")
          .scalar("epoch_" + name.substr(kValidation.size()), run.total_steps, value);
    } else {
      events.scalar("epoch_" + name, run.total_steps, value);
    }
  }
  if (options_.optimizer != nullptr) {
    events.scalar("epoch_learning_rate", run.total_steps, options_.optimizer->learning_rate());
  }
  if (options_.histogram_freq > 0 && run.epoch % options_.histogram_freq == 0) write_histograms(run);
  if (options_.write_memory) write_memory(run);
  if (options_.write_transfers) write_transfers(run);
  events.flush();
  if (validation_) validation_->flush();
}

void TensorBoard::on_train_end(RunState&) {
  train_.reset();
  validation_.reset();
}

std::string TensorBoard::state() const { return StateText().add(next_batch_).str(); }

void TensorBoard::restore(const RunState& run, const std::string& state) {
  StateReader reader(state, kind());
  next_batch_ = reader.whole();
  reader.end();
  resumed_at_ = run.total_steps;
}

}  // namespace isochron::train
