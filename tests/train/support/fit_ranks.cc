// A user's program as mpirun starts it, several times: each rank makes the same callbacks, which write into
// the folder that it is told.
//
//   fit_ranks FOLDER EPOCHS [HOW]   stops, saves, calls, best, recorder, alone, rows, nan, late-nan, twice,
//                                   schedule, often, rates, ends, ends-late,
//                                   ends-early, signal
//   fit_ranks stand-still           the second rank, between its last collective and the end of MPI
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "isochron/comm/group/world.h"
#include "isochron/comm/launch/join.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/callbacks/tensor_board.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::train {
namespace {

namespace fs = std::filesystem;

/// One file per rank, with a line for each call.
class Notes : public LambdaCallback {
 public:
  Notes(const fs::path& folder, std::string_view name, bool first_rank_only)
      : LambdaCallback({.on_epoch_end = [this](RunState& run, const Results&) { note("epoch", run); },
                        .on_train_end = [this](RunState& run) { note("end after", run); },
                        .first_rank_only = first_rank_only}),
        path_(folder / fmt::format("{}-{}", name, comm::world()->rank())),
        kind_(name) {}
  NamedVariables variables() const override { return {{"count", count_}}; }
  std::string_view kind() const override { return kind_; }

 private:
  void note(std::string_view what, const RunState& run) const {
    std::ofstream(path_, std::ios::app) << fmt::format("{} {}\n", what, run.epoch);
  }

  fs::path path_;
  std::string kind_;
  Variable count_{zeros({1}), "count"};  // saved with the rest
};

/// What the first rank alone must not do.
class Wrong : public Callback {
 public:
  Wrong(bool stops, bool saves) : stops_(stops), saves_(saves) {}
  bool first_rank_only() const override { return true; }
  bool saves() const override { return saves_; }
  void on_epoch_end(RunState& run, const Results&) override {
    if (stops_) run.stop("seen enough");
  }
  std::string_view kind() const override { return "wrong"; }

 private:
  bool stops_, saves_;
};

int stand_still() {
  const auto& world = comm::join({.patience = std::chrono::seconds(1), .end_after = std::chrono::seconds(2)});
  world->barrier();
  if (world->rank() == 1) std::raise(SIGSTOP);
  return 0;
}

/// Ends when a loss isn't finite. Of three ranks, only the second has such a batch, its second batch.
void fit_to_nan(const fs::path& folder, int epochs, int64_t report_every) {
  std::vector<double> inputs(24, 1);
  inputs[2 * 8] = std::nan("");
  auto batches = data::from_tensor_slices(from_vector({12, 2}, inputs), ones({12, 3})).batch(2);
  nn::Dense model{3};
  optim::Sgd optimizer({.learning_rate = 0.1});
  Trainer trainer{model, nn::mean_squared_error, optimizer};
  TerminateOnNaN terminate;
  const History history =
      trainer.fit(batches, {.epochs = epochs, .callbacks = {&terminate}, .report_every = report_every});
  std::ofstream(folder / fmt::format("stopped-{}", comm::world()->rank())) << history.stopped << "\n";
}

/// Two fits, each with a backup that is removed at its end, which comes late to the first rank.
void fit_twice(const fs::path& folder, int epochs) {
  auto batches = data::from_tensor_slices(ones({12, 2}), ones({12, 3})).batch(2);
  nn::Dense model{3};
  optim::Sgd optimizer({.learning_rate = 0.1});
  Trainer trainer{model, nn::mean_squared_error, optimizer};
  BackupAndRestore backup(folder / "backup");
  LambdaCallback slow({.on_train_end = [](RunState& run) {
    if (run.rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }});
  Notes all(folder, "all", false);
  for (int i = 0; i < 2; ++i) trainer.fit(batches, {.epochs = epochs, .callbacks = {&slow, &all, &backup}});
}

void fit(const fs::path& folder, int epochs, std::string_view wrong) {
  if (wrong == "nan" || wrong == "late-nan") return fit_to_nan(folder, epochs, wrong == "nan" ? 1 : 100);
  if (wrong == "twice") return fit_twice(folder, epochs);
  const bool first_rank = comm::world()->rank() == 0;
  const bool calls = wrong == "calls";  // of several steps, while some ranks have a batch less
  const bool best = wrong == "best";    // the best epochs stay, and some ranks have a batch less
  const int64_t count = calls ? 62 : best ? 14 : wrong == "rows" && !first_rank ? 8 : 12;
  const data::ShuffleOptions order{.seed = wrong == "order" && !first_rank ? 2 : 1};
  auto batches = data::from_tensor_slices(ones({count, 2}), ones({count, 3})).shuffle(count, order).batch(2);
  nn::Dense model{3};
  const optim::Schedule schedule = optim::step_decay(0.1, 4, first_rank ? 0.5 : 0.9);
  optim::Adam optimizer({.learning_rate = wrong == "schedule" ? schedule : optim::Schedule(0.1)});
  Trainer trainer{model, nn::mean_squared_error, optimizer};
  CsvLogger rows(folder / "rows.csv", {.append = true});
  TensorBoard tensor_board(folder / "board");
  Notes first(folder, "first", true), all(folder, "all", false);
  ModelCheckpointOptions saved{.filepath = folder / "saved" / "cp-{epoch:04d}", .resume = true};
  if (best) {  // by the largest loss, so that the first epoch stays the best
    saved = {.filepath = folder / "saved" / "cp-{epoch:04d}-{total_steps}",
             .every_steps = 3,
             .monitor = "loss",
             .mode = Mode::kMax,
             .save_top_k = 1};
  }
  if (wrong == "often" && !first_rank) saved.every_steps = 7;
  ModelCheckpoint checkpoints(saved);
  LambdaCallback rates({.on_epoch_begin = [&](RunState&) {
    if (!first_rank) optimizer.set_learning_rate(0.05);
  }});
  Wrong mistaken(wrong == "stops", wrong == "saves");
  std::vector<Callback*> callbacks = {&first, &rows, &tensor_board, &all};
  if (wrong != "alone" || first_rank) callbacks.push_back(&checkpoints);
  if (wrong == "stops" || wrong == "saves") callbacks.push_back(&mistaken);
  if (wrong == "rates") callbacks.push_back(&rates);
  const auto end = [first_rank](RunState& run) {
    if (!first_rank && run.epoch == 2) run.stop("enough");
  };
  LambdaCallback ends({.on_batch_end =
                           [&](RunState& run, const Results&) {
                             if (wrong == "ends") end(run);
                           },
                       .on_epoch_end = [&](RunState& run, const Results&) { end(run); }});
  LambdaCallback ends_early({.on_epoch_begin = end});
  LambdaCallback signal({.on_epoch_end = [=](RunState& run, const Results&) {
    if (!first_rank && run.epoch == epochs) std::raise(SIGTERM);
  }});
  if (wrong == "ends-early") {
    callbacks.push_back(&ends_early);
  } else if (wrong.starts_with("ends")) {
    callbacks.push_back(&ends);
  }
  if (wrong == "signal") callbacks.push_back(&signal);
  observe::Recorder recorder;
  trainer.fit(batches, {.epochs = epochs,
                        .steps_per_call = calls ? 4 : 1,
                        .callbacks = callbacks,
                        .recorder = wrong == "recorder" && first_rank ? &recorder : nullptr,
                        .report_every = calls             ? 10
                                        : wrong == "ends" ? 1
                                                          : 100,
                        .finish_on_signals = wrong == "signal"});
}

}  // namespace
}  // namespace isochron::train

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "stand-still") return isochron::train::stand_still();
  if (argc < 3) return 2;
  isochron::comm::join();
  try {
    isochron::train::fit(argv[1], std::atoi(argv[2]), argc > 3 ? argv[3] : "");
  } catch (const std::exception& error) {
    fmt::print("{}\n", error.what());
    std::fflush(stdout);
    isochron::comm::world()->abort(3);
  }
}
