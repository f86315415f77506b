// Memory at declared steps of a run: allocators by tag, live objects, and the resident set by owner
// (observe/export/memory_report.h). Either as a callback of Trainer::fit, as below, or by memory_moment in a
// hand-written loop:
//
//   train::MemoryWatch watch({.steps = {1000, 100'000}});
//   trainer.fit(batches, {.epochs = 10, .callbacks = {&watch}});
//   fmt::print("{}", observe::memory_text(watch.moments()));
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isochron/observe/export/memory_report.h"
#include "isochron/train/callbacks/callback.h"

namespace isochron::train {

/// The memory of the process now. Takes 1 to 5 ms and allocates, so call it between steps.
observe::MemoryMoment memory_moment(std::string name, int64_t step);

struct MemoryWatchOptions {
  /// Takes a moment after each of these steps, counted over all epochs. Empty: after 1,000 steps and each
  /// higher power of ten.
  std::vector<int64_t> steps = {};
};

/// Takes a moment after warm-up (the first epoch or, if it is the only one, its first 100 steps), at the
/// declared steps, and at the end. Keeps at most kMaxMoments: further declared steps are skipped, but not the
/// end.
class MemoryWatch : public Callback {
 public:
  static constexpr size_t kMaxMoments = 32;

  /// Throws kInvalidArgument for steps below 1.
  explicit MemoryWatch(MemoryWatchOptions options = {});
  /// In order of time.
  const std::vector<observe::MemoryMoment>& moments() const { return moments_; }

  void on_train_begin(RunState& run) override;
  void on_epoch_begin(RunState& run) override;
  void on_save(RunState& run, SavePoint point) override;
  void on_train_end(RunState& run) override;
  std::string_view kind() const override { return "memory_watch"; }
  bool first_rank_only() const override { return true; }

 private:
  void take(std::string name, int64_t step);
  void find_next(int64_t step);

  std::vector<int64_t> steps_;  // in order; empty: powers of ten
  std::vector<observe::MemoryMoment> moments_;
  int64_t next_step_ = 0;  // of the next moment
  int64_t warm_step_ = 0;  // the step that ends warm-up; 0: an epoch's end, or it is over
  int first_epoch_ = 0;    // of this process
};

}  // namespace isochron::train
