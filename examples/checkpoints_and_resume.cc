// Checkpoints and resuming: a run that saves checkpoints fails in the middle of an epoch. Started again, with
// a new model, optimizer and trainer, it resumes from the newest checkpoint. It ends with the same weights
// and the same log as a run that never failed, bit for bit.
#include "isochron/isochron.h"

using namespace isochron;
namespace fs = std::filesystem;

constexpr int64_t kFailsAfter = 430;  // steps: in epoch 9, of 50 steps each

struct PowerFailure {};

struct Outcome {
  int epochs = 0;  // that this run has begun
  std::string stopped;
  std::vector<std::vector<double>> weights;
};

/// What a program does each time it is started: it makes everything anew and resumes if there is a
/// checkpoint.
Outcome train_in(const fs::path& folder, int64_t fails_after = 0) {
  random::set_seed(1);
  const Tensor x = random_uniform({1200, 6}, -1, 1);
  const Tensor y = sum(sin(x * 3.0), {1}, true) + random_normal({1200, 1}, 0, 0.1);  // (1200, 1)
  auto rows = data::from_tensor_slices(x, y);
  auto training = rows.take(1000).shuffle(1000).batch(20).prefetch();
  auto validation = rows.skip(1000).batch(200);

  nn::Sequential model(nn::Dense(32, nn::Activation::kTanh), nn::Dropout(0.05), nn::Dense(1));
  optim::Adam optimizer({.learning_rate = 1e-2});
  train::Trainer trainer(model, nn::mean_squared_error, optimizer);

  Outcome outcome;
  train::ModelCheckpoint checkpoints(
      {.filepath = folder / "cp-{total_steps:06d}", .every_steps = 20, .keep_last = 3, .resume = true});
  train::EarlyStopping stopping({.monitor = "val_loss", .patience = 5, .restore_best = &model});
  train::CsvLogger log(folder / "log.csv");
  train::LambdaCallback watch({.on_epoch_begin = [&](train::RunState&) { ++outcome.epochs; },
                               .on_batch_end =
                                   [&](train::RunState& run, const train::Results&) {
                                     if (run.total_steps == fails_after) throw PowerFailure();
                                   }});
  const train::History history = trainer.fit(training, {.epochs = 60,
                                                        .validation_data = validation,
                                                        .callbacks = {&checkpoints, &stopping, &log, &watch},
                                                        .report_every = 10,
                                                        .finish_on_signals = true,
                                                        .epoch_lines = false});
  outcome.stopped = history.stopped;
  for (const auto& [name, variable] : train::weights_of(model)) {
    outcome.weights.push_back(variable.tensor().to_vector());
  }
  return outcome;
}

int main(int argc, char** argv) {
  const fs::path folder = argc > 1 ? argv[1] : fs::temp_directory_path() / "isochron_checkpoints_and_resume";
  const fs::path whole = folder / "whole", failing = folder / "failing";
  for (const fs::path& run : {whole, failing}) {
    fs::remove_all(run);  // of an earlier run of this program
    fs::create_directories(run);
  }
  const Outcome expected = train_in(whole);
  try {
    train_in(failing, kFailsAfter);
    return 1;
  } catch (const PowerFailure&) {
    fmt::print("failed after step {}\n", kFailsAfter);
  }
  const Outcome resumed = train_in(failing);

  const bool same_weights = resumed.weights == expected.weights;
  const bool same_log = read_file(failing / "log.csv") == read_file(whole / "log.csv");
  fmt::print("{} epochs in one run; {} after resuming, which give {} weights and {} log\n", expected.epochs,
             resumed.epochs, same_weights ? "the same" : "other", same_log ? "the same" : "another");
  if (argc == 1) fs::remove_all(folder);
  const bool continued = resumed.epochs > 0 && resumed.epochs < expected.epochs;
  return continued && same_weights && same_log && resumed.stopped == expected.stopped ? 0 : 1;
}
