#include "isochron/train/callbacks/memory_watch.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "isochron/core/base/error.h"
#include "isochron/core/telemetry/counters.h"
#include "isochron/memory/allocators/ledger.h"
#include "isochron/observe/host/machine.h"

namespace isochron::train {
namespace {

constexpr int64_t kWarmSteps = 100, kFirstPower = 1000;

/// The number of threads of the process, including those of libraries.
int64_t all_threads() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoll(line.substr(8));
  }
  return 0;
}

}  // namespace

observe::MemoryMoment memory_moment(std::string name, int64_t step) {
  const Ledger ledger = read_ledger();
  observe::MemoryMoment moment{.name = std::move(name), .step = step};
  const auto bytes = [](size_t size) { return static_cast<int64_t>(size); };
  moment.resident = observe::read_resident_set({.planned = bytes(ledger.bytes_of("arena")),
                                                .in_use = bytes(ledger.in_use_bytes),
                                                .reserved = bytes(ledger.reserved_bytes),
                                                .mapped = bytes(ledger.mapped_bytes)});
  std::vector<observe::TaggedMemory> tags;
  for (const TagUsage& tag : ledger.tags) tags.push_back({tag.tag, bytes(tag.bytes), tag.allocations});
  moment.tags = observe::largest_tags(std::move(tags));
  constexpr std::pair<std::string_view, Counter> kLive[] = {{"tensors", Counter::kLiveTensors},
                                                            {"graph nodes", Counter::kGraphNodes},
                                                            {"plans", Counter::kPlans},
                                                            {"tape entries", Counter::kTapeEntries}};
  for (const auto& [what, counter] : kLive)
    moment.live.push_back({std::string(what), counter_value(counter)});
  moment.live.push_back({"threads", all_threads()});
  moment.live.push_back({"file handles", observe::open_file_handles()});
  moment.live.push_back({"allocators", ledger.allocators});
  return moment;
}

MemoryWatch::MemoryWatch(MemoryWatchOptions options) : steps_(std::move(options.steps)) {
  for (const int64_t step : steps_) {
    require(step >= 1, ErrorCode::kInvalidArgument, "memory_watch", "steps count from 1, got {}", step);
  }
  std::ranges::sort(steps_);
  moments_.reserve(kMaxMoments);
}

void MemoryWatch::take(std::string name, int64_t step) {
  moments_.push_back(memory_moment(std::move(name), step));
}

/// Sets next_step_ to the first step beyond `step` at which a moment is due.
void MemoryWatch::find_next(int64_t step) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  next_step_ = kNever;
  if (moments_.size() + 3 > kMaxMoments) return;  // leaves room for the moments at the end and after warm-up
  if (steps_.empty()) {
    for (next_step_ = kFirstPower; next_step_ <= step && next_step_ < kNever / 10;) next_step_ *= 10;
    return;
  }
  const auto later = std::ranges::upper_bound(steps_, step);
  if (later != steps_.end()) next_step_ = *later;
}

void MemoryWatch::on_train_begin(RunState& run) {
  moments_.clear();
  static_cast<void>(memory_moment("", 0));  // allocates in advance the memory that taking a moment needs
  first_epoch_ = 0;
  warm_step_ = 0;
  find_next(run.total_steps);
}

void MemoryWatch::on_epoch_begin(RunState& run) {
  if (first_epoch_ == 0) {
    first_epoch_ = run.epoch;
    find_next(run.total_steps);
    if (run.epoch >= run.epochs) warm_step_ = run.total_steps + kWarmSteps;
  } else if (run.epoch == first_epoch_ + 1) {
    take("after warm-up", run.total_steps);
  }
}

void MemoryWatch::on_save(RunState& run, SavePoint point) {
  if (point != SavePoint::kStep) return;
  if (first_epoch_ == 0) {  // resumed within an epoch
    first_epoch_ = run.epoch;
    find_next(run.total_steps - 1);
    if (run.epoch >= run.epochs) warm_step_ = run.total_steps - 1 + kWarmSteps;
  }
  if (warm_step_ > 0 && run.total_steps >= warm_step_) {
    take("after warm-up", run.total_steps);
    warm_step_ = 0;
  }
  if (run.total_steps < next_step_) return;
  take(fmt::format("step {}", run.total_steps), run.total_steps);
  find_next(run.total_steps);
}

void MemoryWatch::on_train_end(RunState& run) { take("end", run.total_steps); }

}  // namespace isochron::train
