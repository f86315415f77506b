// One run of `isochron train`: the options with a model's own settings filled in, the optimizer and its
// schedule, the recorder, and the output at the end. The models and their data are in the files of the
// families.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isochron/apps/train/options.h"
#include "isochron/apps/train/saving.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/observe/diagnose/run_data.h"
#include "isochron/observe/export/kernel_table.h"
#include "isochron/observe/export/plot.h"
#include "isochron/observe/interleaved/interleaved_runner.h"
#include "isochron/observe/record/recorder.h"
#include "isochron/observe/record/trace.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/callbacks.h"
#include "isochron/train/callbacks/device_sensors.h"
#include "isochron/train/callbacks/graph_dump.h"
#include "isochron/train/callbacks/memory_watch.h"
#include "isochron/train/callbacks/model_checkpoint.h"
#include "isochron/train/callbacks/plan_picture.h"
#include "isochron/train/callbacks/run_watch.h"
#include "isochron/train/callbacks/tensor_board.h"
#include "isochron/train/loop/trainer.h"

namespace isochron::apps {

/// Thrown in a training that is the twin of another one, when the other no longer needs it.
struct TwinDone {};

/// Moves a model that a function has made to the heap.
template <typename Model>
std::unique_ptr<nn::Module> own(Model model) {
  return std::make_unique<Model>(std::move(model));
}

/// A model's own settings.
struct TrainSettings {
  int epochs = 1;
  int64_t batch = 32;
  int64_t steps_per_epoch = 0;  // 0: one pass over the data
  std::string optimizer = "adam";
  double learning_rate = 1e-3;  // for `optimizer`
  double warmup_share = 0;      // of all steps
  bool decay = true;            // half a cosine down to nearly 0
};

/// One row of the comparison with the trained model.
struct ComparedRow {
  std::string name;
  std::vector<double> values;
};

/// The results of a trained model.
struct TrainOutcome {
  std::string title = {};                  // of the page
  std::string task = {};                   // one sentence: data and question
  std::string result = {};                 // one sentence: the result compared with the baselines
  std::vector<std::string> measures = {};  // of the rows below: "accuracy"
  std::vector<ComparedRow> compared = {};  // this model first
  nlohmann::ordered_json test = {};        // the same numbers by name, for programs
  std::vector<observe::Plot> plots = {};   // in addition to the plot of the loss
  std::string sample = {};                 // generated text
};

class TrainSession {
 public:
  TrainSession(const TrainOptions& options, const TrainSettings& settings);
  TrainSession(const TrainSession&) = delete;
  TrainSession& operator=(const TrainSession&) = delete;

  const std::filesystem::path& data() const { return options_.data; }
  uint64_t seed() const { return options_.seed; }
  int64_t batch() const { return batch_; }

  /// Shuffled rows in prefetched batches.
  template <typename Dataset>
  Dataset batches(const Dataset& rows) const {
    return rows.shuffle(kShuffleRows, {.seed = options_.seed}).batch(batch_).prefetch();
  }

  /// Call this with the loaded data before changing them. A run that resumes from this run's checkpoints must
  /// have the same data.
  void trains_on(std::initializer_list<Tensor> data);

  optim::Optimizer& optimizer() { return optimizer_; }
  /// A trainer for `functions`, which must update with the session's optimizer, like those that
  /// train::supervised makes. Sets the optimizer's schedule for training on `data`. Throws DryRunDone if a
  /// dry run is requested.
  train::Trainer trainer(train::BatchFunctions functions, train::Batches data);
  void fit(train::Trainer& trainer, train::Batches data, train::FitOptions fit_options = {});

  /// Prints and writes the outcome. Throws CheckFailed if a requested check fails.
  void finish(const TrainOutcome& outcome);

 private:
  static constexpr int64_t kShuffleRows = 1 << 20;

  int64_t steps_per_epoch(train::Batches data) const;
  /// Whether an epoch is a fixed number of steps rather than a pass over the data.
  bool counts_steps() const { return options_.steps + settings_.steps_per_epoch > 0 || whole_updates(); }
  /// Whether all ranks must have the same number of batches.
  bool whole_updates() const { return options_.sync_batch_norm && optimizer_.group().size() > 1; }
  int64_t batches_per_update() const;
  std::string communication_text(const observe::RankData* ranks) const;
  bool first_rank() const { return optimizer_.group().rank() == 0; }
  optim::StepOptions step_options() const;
  std::vector<train::FitOptions::Setting> settings() const;
  /// Adds the callbacks that save checkpoints and write scalars, as the options say.
  void add_callbacks(std::vector<train::Callback*>& callbacks);
  /// The steps to record for the requested trace and for the table of kernels.
  train::FitOptions::TracedSteps traced_steps(int64_t steps_per_epoch);
  void write_trace();
  void save_weights();
  /// Whether this training takes turns with another process: with its twin, or as a twin.
  bool takes_turns() const { return options_.twin != nullptr || options_.turns != nullptr; }
  /// If there is a twin, sets up the turns between it and this training.
  void run_beside_twin(train::FitOptions& fit_options, int64_t steps_each);
  std::string saved_text() const;
  std::string way_on();
  void after_iteration(int64_t iterations_in_all);
  /// Prints and writes the report of the run; null if no step was made.
  std::optional<observe::RunReport> judge(const TrainOutcome& outcome);
  /// `report` null: nothing was recorded.
  void write(const observe::RunReport* report, std::optional<observe::RunData> run,
             const TrainOutcome& outcome) const;

  const TrainOptions& options_;
  TrainSettings settings_;
  int epochs_;
  int64_t batch_;
  std::string optimizer_name_;
  double learning_rate_;
  optim::Optimizer optimizer_;
  std::unique_ptr<train::DeviceSensors> sensors_;  // the device's; null on the CPU
  observe::Recorder recorder_;
  std::optional<observe::BesideTwin> beside_twin_;
  std::optional<observe::RunData> run_;          // of the run before the comparison with the twin
  int64_t timed_iterations_ = 0, total_ns_ = 0;  // totals of the recorder at the last call of after_iteration
  int64_t steps_per_epoch_ = 0;                  // 0: a pass over the data
  std::string data_checksum_;                    // of the data in `trains_on`, if checkpoints are saved
  train::History history_;
  std::function<train::NamedVariables()> weights_;
  std::optional<train::ModelCheckpoint> checkpoints_;
  std::optional<train::EarlyStopping> early_stopping_;
  std::optional<SavedLines> saved_lines_;
  std::optional<train::RunWatch> watch_;
  std::optional<train::MemoryWatch> memory_;
  std::optional<observe::PlanPicture> plan_;  // plan of the step on a full batch
  std::optional<train::TensorBoard> tensor_board_;
  std::optional<observe::TraceRecorder> trace_;
  std::optional<observe::KernelTable> kernels_;
  std::optional<train::GraphDump> graphs_;
};

}  // namespace isochron::apps
