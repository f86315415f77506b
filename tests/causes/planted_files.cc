#include <atomic>
#include <fstream>
#include <thread>

#include "causes/models.h"
#include "causes/planted.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/weights/weights.h"
#include "isochron/observe/record/event_file.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/loop/trainer.h"
#include "support/temp_folder.h"

namespace isochron::causes {
namespace {

using observe::Phase;
using observe::PhaseScope;
using observe::Recorder;
using observe::RunReport;

constexpr std::string_view kLogs = "event files and logs pile up";
constexpr std::string_view kPileUp = "checkpoints pile up";
constexpr std::string_view kBlock = "checkpoints block";

/// A captured step on all rows, and what comes beside it.
RunReport run_beside(int64_t rows, int64_t units, const Extent& extent,
                     const std::function<void(Recorder& recorder, int64_t i, Regression& problem)>& beside) {
  Regression problem(rows, 32, units);
  auto step = capture([&](const Tensor& x, const Tensor& y) { return problem.train(x, y); });
  return run_loop(
      [&](Recorder& recorder, int64_t i) {
        {
          const PhaseScope compute(recorder, Phase::kCompute);
          step(problem.x, problem.y);
        }
        beside(recorder, i, problem);
      },
      extent);
}

RunReport line_a_step() {
  const TempFolder folder(std::filesystem::current_path());  // the usual one may lie in memory
  std::ofstream log(folder / "steps.log");
  return run_beside(256, 32, {}, [&](Recorder& recorder, int64_t i, Regression&) {
    const PhaseScope logging(recorder, Phase::kLog);
    log << "step " << i << " of the present epoch is done, all is well" << std::endl;
  });
}

/// A new event file every few steps.
RunReport event_files_left() {
  const TempFolder folder;
  return run_beside(1024, 64, {.least = 1000}, [&](Recorder& recorder, int64_t i, Regression&) {
    if (i % 40 != 0) return;
    const PhaseScope logging(recorder, Phase::kLog);
    observe::EventFile(folder.path()).scalar("loss", i, 1.0);
  });
}

/// A few epochs: each has its line in the history, and checkpoints contain the history.
RunReport fit_saving(const train::ModelCheckpointOptions& options, int epochs) {
  Regression problem(1024, 32, 512);
  auto batches = problem.rows().shuffle(256).batch(64).prefetch();
  train::Trainer trainer(problem.model, nn::mean_squared_error, problem.optimizer);
  Recorder recorder(recorder_options());
  train::ModelCheckpoint checkpoints(options);
  trainer.fit(batches, {.epochs = epochs,
                        .steps_per_epoch = 480,
                        .callbacks = {&checkpoints},
                        .recorder = &recorder,
                        .progress = nullptr});
  recorder.sample();
  return make_report(recorder, "fit", report_options());
}

RunReport every_checkpoint_kept() {
  const TempFolder folder;
  return fit_saving({.filepath = folder / "cp-{total_steps:06d}", .every_epochs = 0, .every_steps = 1600},
                    64);
}

/// The program saves in its own way, on its own thread, and no step waits for it.
RunReport weights_saved_under_new_names() {
  const TempFolder folder;
  Regression copy(32);
  static_cast<void>(copy.loss(copy.x, copy.y));  // builds the model
  std::atomic<bool> saving = false;
  std::thread saver;
  RunReport report =
      run_beside(1024, 64, {.least = 4000, .seconds = 1.5}, [&](Recorder&, int64_t i, Regression&) {
        if (i % 200 != 0 || saving) return;
        if (saver.joinable()) saver.join();
        saving = true;
        saver = std::thread([&, i] {
          nn::save_weights(copy.model, folder / fmt::format("weights-{}.safetensors", i));
          saving = false;
        });
      });
  saver.join();
  return report;
}

/// Training waits for every save; two are kept.
RunReport saves_waited_for() {
  const TempFolder folder;
  return fit_saving({.filepath = folder / "cp-{total_steps:06d}",
                     .every_epochs = 0,
                     .every_steps = 20,
                     .keep_last = 2,
                     .asynchronous = false},
                    8);
}

/// A file of the program's own that is replaced again and again, through to the disk.
RunReport state_written_through() {
  const TempFolder folder;
  const std::string path = folder / "state.bin";
  return run_beside(256, 32, {.least = 400}, [&](Recorder&, int64_t i, Regression&) {
    if (i % 20 != 0) return;
    nn::write_safetensors(path, std::vector<std::pair<std::string, Tensor>>{{"state", zeros({1 << 20})}});
  });
}

}  // namespace

std::vector<Planted> planted_files() {
  return {{kLogs, "a line in each step", line_a_step},
          {kLogs, "event files that are left", event_files_left},
          {kPileUp, "every checkpoint kept", every_checkpoint_kept},
          {kPileUp, "weights saved under new names", weights_saved_under_new_names},
          {kBlock, "training waits for each save", saves_waited_for},
          {kBlock, "a state replaced through to the disk, in no phase", state_written_through}};
}

}  // namespace isochron::causes
