// Chapter `every-epoch`: a classifier of the shipped digits, trained epoch after epoch. Slow op by op; with
// spikes and a disk that fills where every epoch leaves files behind; cured as one compiled step that saves
// its weights every five epochs, keeps the last few and tidies up.
#include <fstream>
#include <limits>
#include <memory>

#include "isochron/apps/compare/chapter.h"
#include "isochron/autograd/autograd.h"
#include "isochron/core/run_folder.h"
#include "isochron/data/dataset.h"
#include "isochron/data/datasets.h"
#include "isochron/nn/layers.h"
#include "isochron/nn/losses.h"
#include "isochron/nn/sequential.h"
#include "isochron/ops/indexing.h"
#include "isochron/ops/shape_ops.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks.h"
#include "isochron/train/model_checkpoint.h"
#include "isochron/train/trainer.h"

namespace isochron::apps {
namespace {

constexpr int64_t kBatch = 32;
constexpr int64_t kPasses =
    10;  // over 1,437 images an epoch: saving every 2 ms would be no training of anyone's
constexpr int64_t kStepsPerEpoch = kPasses * 44;
constexpr int kSaveEvery = 5;         // epochs
constexpr int64_t kMostEpochs = 150;  // of the loops that leave files behind

/// The document's loop: batches named "images" and "labels", probabilities after a softmax, categorical
/// cross-entropy. Each loop has its own.
struct Problem {
  data::Dataset batches = make_batches();
  nn::Sequential model{nn::Flatten(), nn::Dense(64, nn::Activation::kRelu),
                       nn::Dense(10, nn::Activation::kSoftmax)};
  optim::Adam optimizer;

  static data::Dataset make_batches() {
    const data::LabelledImages digits = data::load_digits().train;
    return data::Dataset({{"images", digits.images}, {"labels", one_hot(digits.labels, 10)}})
        .shuffle(1000)
        .batch(kBatch, {.drop_remainder = true})
        .repeat(kPasses)
        .prefetch();
  }
  Tensor loss_of(const data::Element& batch) {
    return nn::categorical_cross_entropy(model(batch["images"]), batch["labels"]);
  }
};

/// A folder that is gone at the end, and what the files in it take, but for those that are being written.
class Folder {
 public:
  Folder() : run_(std::filesystem::temp_directory_path()) {}
  const std::filesystem::path& path() const { return run_.path(); }
  int64_t bytes() const {
    int64_t total = 0;
    std::error_code gone;  // a file that is being replaced
    for (std::filesystem::recursive_directory_iterator at(path(), gone), end; at != end; at.increment(gone)) {
      if (at->path().filename().string().starts_with('.')) at.disable_recursion_pending();
      const uintmax_t size = at->file_size(gone);
      if (!gone) total += static_cast<int64_t>(size);
    }
    return total;
  }

 private:
  RunFolder run_;
};

void op_by_op(LoopContext& context) {
  Problem problem;
  data::Dataset batches = problem.batches.repeat();
  run_steps(context, batches, [&](const data::Element& batch) {
    GradientTape tape;
    const Tensor loss = problem.loss_of(batch);
    problem.optimizer.minimize(loss, problem.model.parameters());
  });
}

/// Tells the loop of every iteration, once their epoch is over, and ends the training when it has had enough.
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
  Problem problem;
  train::Trainer trainer(
      problem.model, [](const Tensor& p, const Tensor& t) { return nn::categorical_cross_entropy(p, t); },
      problem.optimizer);
  Counts counts(context);
  callbacks.push_back(&counts);
  trainer.fit(problem.batches, {.epochs = std::numeric_limits<int>::max(),
                                .callbacks = std::move(callbacks),
                                .recorder = &context.recorder,
                                .report_every = report_every,
                                .progress = nullptr});
}

void every_checkpoint_kept(LoopContext& context, const Folder& folder) {
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
    train::TensorBoard board(folder_ / fmt::format("events-{:04d}", run.epoch));
    board.on_epoch_end(run, results);
    board.on_train_end(run);
    std::ofstream(folder_ / fmt::format("batch-{:04d}.tmp", run.epoch)) << std::string(1 << 14, 'x');
  }

 private:
  std::filesystem::path folder_;
  std::ofstream log_;
};

void everything_logged(LoopContext& context, const Folder& folder) {
  Litter litter(folder.path());
  run_compiled(context, {&litter}, 1);
}

void last_few_kept(LoopContext& context, const Folder& folder) {
  train::ModelCheckpoint checkpoints({.filepath = folder.path() / "cp-{epoch:04d}",
                                      .save_weights_only = true,
                                      .every_epochs = kSaveEvery,
                                      .keep_last = 3});
  run_compiled(context, {&checkpoints});
}

Loop with_folder(Loop loop, void (*run)(LoopContext& context, const Folder& folder)) {
  const auto folder = std::make_shared<std::unique_ptr<Folder>>();
  const auto bytes = std::make_shared<int64_t>(0);
  loop.iterations_per_epoch = kStepsPerEpoch;
  loop.gauges = {{"disk_bytes",
                  [](void* at) {
                    const auto& held = *static_cast<std::unique_ptr<Folder>*>(at);
                    return held ? held->bytes() : 0;
                  },
                  folder.get()}};
  loop.run = [folder, bytes, run](LoopContext& context) {
    *folder = std::make_unique<Folder>();
    run(context, **folder);
    *bytes = (*folder)->bytes();
    folder->reset();
  };
  loop.notes = [bytes] {
    return std::vector<std::string>{
        fmt::format("left {} on the disk, removed now", observe::bytes_text(static_cast<double>(*bytes)))};
  };
  return loop;
}

}  // namespace

Chapter every_epoch_chapter() {
  Chapter chapter;
  chapter.name = "every-epoch";
  chapter.complaint = "training is slower after each epoch";
  chapter.loops.push_back({.name = "op by op",
                           .what = "the step op by op, its graph built again each time",
                           .iterations_per_epoch = kStepsPerEpoch,
                           .expected = {.slow = true},
                           .run = op_by_op});
  chapter.loops.push_back(
      with_folder({.name = "every checkpoint kept",
                   .what = "one compiled step; all of its state saved after every epoch, and kept",
                   .max_iterations = kMostEpochs * kStepsPerEpoch,
                   .expected = {.time = {},
                                .grows = "disk_bytes",
                                .cause = "checkpoints pile up",
                                .spike_period = kStepsPerEpoch,
                                .spike_label = "checkpoint"}},
                  every_checkpoint_kept));
  chapter.loops.push_back(
      with_folder({.name = "files left behind",
                   .what = "an event file and a temporary file every epoch, a line in a log every step",
                   .max_iterations = kMostEpochs * kStepsPerEpoch,
                   .expected = {.time = {}, .grows = "disk_bytes", .cause = "event files and logs pile up"}},
                  everything_logged));
  chapter.loops.push_back(with_folder({.name = "last few kept",
                                       .what = "one compiled step; weights saved every 5 epochs in the "
                                               "background, the last 3 files kept",
                                       .cured = true,
                                       .expected = {.no_allocations = true}},
                                      last_few_kept));
  chapter.summary =
      "Training op by op builds its graph again in every step: slow, but as slow at the end as at the "
      "beginning. What makes epochs longer is what each of them leaves: checkpoints that are all kept, event "
      "files, temporary files and a line of log a step fill the disk, and saving within the loop is a spike "
      "at "
      "every epoch's end. The cured loop saves weights alone every five epochs from a copy, on a thread of "
      "its "
      "own, keeps three files and leaves no temporary one, whatever happens to the process.";
  return chapter;
}

}  // namespace isochron::apps
