// A user's program as mpirun starts it, several times: each rank makes the same callbacks, which write into
// the folder that it is told.
//
//   fit_ranks FOLDER EPOCHS [stops|saves|calls]
//   fit_ranks stand-still      the second rank, between its last collective and the end of MPI
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

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

/// A file a rank, with a line for each call.
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

void fit(const fs::path& folder, int epochs, std::string_view wrong) {
  const bool calls = wrong == "calls";  // of several steps, while some ranks have a batch less
  auto batches = data::from_tensor_slices(ones({calls ? 62 : 12, 2}), ones({calls ? 62 : 12, 3})).batch(2);
  nn::Dense model{3};
  optim::Adam optimizer({.learning_rate = 0.1});
  Trainer trainer{model, nn::mean_squared_error, optimizer};
  CsvLogger rows(folder / "rows.csv", {.append = true});
  TensorBoard tensor_board(folder / "board");
  Notes first(folder, "first", true), all(folder, "all", false);
  ModelCheckpoint checkpoints({.filepath = folder / "saved" / "cp-{epoch:04d}", .resume = true});
  Wrong mistaken(wrong == "stops", wrong == "saves");
  std::vector<Callback*> callbacks = {&first, &rows, &tensor_board, &all, &checkpoints};
  if (!wrong.empty() && !calls) callbacks.push_back(&mistaken);
  trainer.fit(batches, {.epochs = epochs,
                        .steps_per_call = calls ? 4 : 1,
                        .callbacks = callbacks,
                        .report_every = calls ? 10 : 100});
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
