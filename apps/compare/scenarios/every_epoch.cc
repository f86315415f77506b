// Scenario `every-epoch`: a classifier of the shipped digits, trained epoch after epoch. It is slow if it
// runs op by op, and has spikes and a filling disk if every epoch leaves files behind. The cure is one
// compiled step that saves its weights every five epochs, keeps the last few files and removes the others.
#include <fstream>
#include <limits>
#include <memory>

#include "isochron/apps/compare/models/digits_training.h"
#include "isochron/apps/compare/scenarios/every_epoch_ranks.h"
#include "isochron/apps/compare/scenarios/scenario.h"
#include "isochron/apps/compare/tables/every_epoch.h"
#include "isochron/autograd/autograd.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/train/callbacks/callbacks.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/callbacks/tensor_board.h"

namespace isochron::apps {
namespace {

using observe::Flatness;

// Over 1,437 images an epoch. A single pass takes less than 2 ms, and no real training saves that often.
constexpr int64_t kPasses = 10;
constexpr int kKept = 3;  // files, of one every five epochs
constexpr int64_t kStepsPerEpoch = kPasses * kDigitsSteps;
constexpr int kSaveEvery = 5;        // epochs
constexpr int64_t kMaxEpochs = 150;  // limit for the loops that leave files behind

void op_by_op(LoopContext& context) {
  DigitsTraining problem(kPasses);
  data::Dataset batches = problem.batches.repeat();
  run_steps(context, batches, [&](const data::Element& batch) {
    GradientTape tape;
    const Tensor loss = problem.loss_of(batch);
    problem.optimizer.minimize(loss, problem.model.parameters());
  });
}

/// Reports all iterations of an epoch to the loop at the epoch's end, and ends the training when the loop
/// must end.
class Counts : public train::Callback {
 public:
  explicit Counts(LoopContext& context) : context_(context) {}
  void on_epoch_end(train::RunState& run, const train::Results&) override {
    for (int64_t step = 0; step < run.step; ++step) {
      if (!context_.next()) return run.stop("enough iterations");
    }
  }

 private:
  LoopContext& context_;
};

void run_compiled(LoopContext& context, std::vector<train::Callback*> callbacks, int64_t report_every = 100) {
  DigitsTraining problem(kPasses);
  train::Trainer trainer = problem.trainer();
  Counts counts(context);
  callbacks.push_back(&counts);
  trainer.fit(problem.batches, {.epochs = std::numeric_limits<int>::max(),
                                .callbacks = std::move(callbacks),
                                .recorder = &context.recorder,
                                .report_every = report_every,
                                .progress = nullptr});
}

void every_checkpoint_kept(LoopContext& context, const TemporaryFolder& folder) {
  train::ModelCheckpoint checkpoints({.filepath = folder.path() / "cp-{total_steps:08d}",
                                      .every_epochs = 0,
                                      .every_steps = kStepsPerEpoch,
                                      .asynchronous = false});
  run_compiled(context, {&checkpoints});
}

/// A new event file and a temporary file in every epoch, and a line in a log for every step.
class Litter : public train::Callback {
 public:
  explicit Litter(std::filesystem::path folder) : folder_(std::move(folder)), log_(folder_ / "steps.log") {}
  void on_batch_end(train::RunState& run, const train::Results& results) override {
    log_ << "epoch " << run.epoch << " step " << run.step << " loss " << results["loss"] << std::endl;
  }
  void on_epoch_end(train::RunState& run, const train::Results& results) override {
    train::TensorBoard board(folder_ / fmt::format("events-{:04d}", run.epoch),
                             {.write_graph = false, .write_memory = false});
    board.on_epoch_end(run, results);
    board.on_train_end(run);
    std::ofstream(folder_ / fmt::format("batch-{:04d}.tmp", run.epoch)) << std::string(1 << 14, 'x');
  }

 private:
  std::filesystem::path folder_;
  std::ofstream log_;
};

void everything_logged(LoopContext& context, const TemporaryFolder& folder) {
  Litter litter(folder.path());
  run_compiled(context, {&litter}, 1);
}

/// Prints the documents' line for each file that is saved within the first `epochs` epochs.
class SavedLines {
 public:
  explicit SavedLines(const CompareOptions& options)
      : left_(options.verbose ? options.epochs / kSaveEvery : 0),
        sink_(add_event_sink([this](const Event& event) {
          if (event.kind != EventKind::kCheckpoint || left_ <= 0) return;
          --left_;
          fmt::print("    {} saved\n", event.name);
        })) {}
  SavedLines(const SavedLines&) = delete;
  SavedLines& operator=(const SavedLines&) = delete;
  ~SavedLines() { remove_event_sink(sink_); }

 private:
  int left_;
  int sink_;
};

void last_few_kept(LoopContext& context, const TemporaryFolder& folder) {
  train::ModelCheckpoint checkpoints({.filepath = folder.path() / "cp-{epoch:04d}",
                                      .save_weights_only = true,
                                      .every_epochs = kSaveEvery,
                                      .keep_last = kKept});
  const SavedLines lines(context.options);
  run_compiled(context, {&checkpoints});
}

Loop with_folder(Loop loop, void (*run)(LoopContext& context, const TemporaryFolder& folder)) {
  const auto folder = std::make_shared<std::unique_ptr<TemporaryFolder>>();
  const auto bytes = std::make_shared<int64_t>(0);
  loop.iterations_per_epoch = kStepsPerEpoch;
  loop.gauges = {{"disk_bytes",
                  [](void* at) {
                    const auto& held = *static_cast<std::unique_ptr<TemporaryFolder>*>(at);
                    return held ? held->bytes() : 0;
                  },
                  folder.get()}};
  loop.run = [folder, bytes, run](LoopContext& context) {
    *folder = std::make_unique<TemporaryFolder>();
    run(context, **folder);
    *bytes = (*folder)->bytes();
    folder->reset();
  };
  loop.notes = [bytes] {
    return std::vector<std::string>{
        fmt::format("left {} on the disk (now removed)", observe::bytes_text(static_cast<double>(*bytes)))};
  };
  return loop;
}

}  // namespace

Scenario every_epoch_scenario() {
  Scenario scenario;
  scenario.name = "every-epoch";
  scenario.complaint = "training is slower after each epoch";
  scenario.loops.push_back({.name = "op by op",
                            .what = "every op of the step runs on its own, and every step records a new tape",
                            .iterations_per_epoch = kStepsPerEpoch,
                            .expected = {.slow = true, .cause = "ops run one by one"},
                            .run = op_by_op});
  scenario.loops.push_back(
      with_folder({.name = "every checkpoint kept",
                   .what = "one compiled step; saves the whole state after every epoch and keeps every file",
                   .max_iterations = kMaxEpochs * kStepsPerEpoch,
                   .expected = {.time = {},
                                .memory = {Flatness::kFlat, Flatness::kGrowing},  // the list of files
                                .grows = "disk_bytes",
                                .cause = "checkpoints pile up",
                                .spike_period = kStepsPerEpoch,
                                .spike_label = "checkpoint"}},
                  every_checkpoint_kept));
  scenario.loops.push_back(
      with_folder({.name = "files left behind",
                   .what = "writes an event file and a temporary file per epoch, and a log line per step",
                   .max_iterations = kMaxEpochs * kStepsPerEpoch,
                   .expected = {.time = {},
                                .memory = {Flatness::kFlat, Flatness::kGrowing},
                                .grows = "disk_bytes",
                                .cause = "event files and logs pile up"}},
                  everything_logged));
  scenario.loops.push_back(
      with_folder({.name = "last few kept",
                   .what = "one compiled step; saves the weights every 5 epochs in the background, "
                           "and keeps the last 3 files",
                   .cured = true,
                   .warmup_epochs = 5 * (kKept + 1),  // until the first file is removed
                   .expected = {.no_allocations = true}},
                  last_few_kept));
  for (Loop& loop : every_epoch_rank_loops()) scenario.loops.push_back(std::move(loop));
  scenario.tables = {checkpoints_table, files_table,       log_levels_table,
                     metrics_table,     improvement_table, shrinking_gradients_table};
  scenario.summary =
      "Training op by op runs every op on its own in every step. That is slow, but no slower at the end. "
      "What makes later epochs longer is what earlier ones leave behind. Checkpoints that are never deleted, "
      "event files, temporary files and a log line per step fill the disk, and a save that blocks the loop "
      "is a pause at the end of each epoch. The cured loop saves only the weights, every five epochs, from a "
      "copy and on a separate thread. It keeps the last three files and leaves no temporary file behind. "
      "Workers that train together must exchange their gradients, as many bytes in every epoch; where they "
      "gather all results since the first epoch as well, each epoch sends more than the one before.";
  return scenario;
}

}  // namespace isochron::apps
