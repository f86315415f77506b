#include "isochron/train/callbacks/tensor_board.h"

#include <gmock/gmock.h>

#include "isochron/nn/layers/layers.h"
#include "isochron/nn/losses/losses.h"
#include "isochron/nn/module/sequential.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/graph_dump.h"
#include "isochron/train/loop/trainer.h"
#include "support/expect_error.h"
#include "support/temp_folder.h"
#include "train/support/event_records.h"

namespace isochron::train {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// Three batches of two rows for a layer of six weights.
struct LoggedTraining {
  explicit LoggedTraining(optim::StepOptions step = {}) : optimizer({.learning_rate = 0.1, .step = step}) {}

  History fit(const FitOptions& options) {
    FitOptions all = options;
    all.progress = nullptr;
    return trainer.fit(batches, all);
  }

  data::TupleDataset<2> batches = data::from_tensor_slices(ones({6, 2}), ones({6, 3})).batch(2).prefetch();
  data::TupleDataset<2> validation = data::from_tensor_slices(ones({2, 2}), ones({2, 3})).batch(2);
  nn::Dense model{3};
  optim::Sgd optimizer;
  Trainer trainer{model, nn::mean_squared_error, optimizer};
};

TEST(TensorBoard, WritesScalarsOfTrainingAndValidation) {
  const TempFolder folder;
  LoggedTraining training;
  TensorBoard board(
      folder.path(),
      {.update_freq = 1, .optimizer = &training.optimizer, .write_graph = false, .write_memory = false});
  training.fit(
      {.epochs = 2, .validation_data = training.validation, .callbacks = {&board}, .report_every = 2});
  EXPECT_EQ(records_in(folder / "train").size(), 1u + 2 * (1 + 1 + 1))
      << "version; an epoch: batch_loss, epoch_loss, rate";
  EXPECT_EQ(records_in(folder / "validation").size(), 1u + 2);
  TensorBoard resumed(folder.path());
  RunState run{.epoch = 3, .total_steps = 6};
  resumed.restore(run, "0");
  resumed.on_epoch_end(run, {{"loss", 1}});
  EXPECT_EQ(holding(records_in(folder / "train"), "epoch_loss"), 3);
}

TEST(TensorBoard, ASecondFitBeginsAnew) {
  const TempFolder folder;
  TensorBoard board(folder.path(), {.update_freq = 1, .write_graph = false, .write_memory = false});
  RunState run{.epoch = 1, .total_steps = 500};
  board.on_train_begin(run);
  board.restore(run, "500");
  board.on_batch_end(run, {{"loss", 1}});  // and an error ends the fit
  const size_t before = records_in(folder / "train").size();
  run.total_steps = 1;
  board.on_train_begin(run);
  board.on_batch_end(run, {{"loss", 1}});
  board.on_train_end(run);
  EXPECT_EQ(records_in(folder / "train").size(), before + 2) << "a version and a scalar, no restart";
}

TEST(TensorBoard, WritesTheGraphMemoryAndHistograms) {
  const TempFolder folder;
  LoggedTraining training({.keep_gradients = true});
  TensorBoard board(folder.path(), {.optimizer = &training.optimizer, .histogram_freq = 2});
  training.fit({.epochs = 4, .callbacks = {&board}});
  const std::vector<std::string> records = records_in(folder / "train");
  EXPECT_EQ(holding(records, "_output_shapes"), 1) << "the graph, once";
  EXPECT_EQ(holding(records, "weights/kernel"), 2) << "every second epoch";
  EXPECT_EQ(holding(records, "gradients/"), 4);
  EXPECT_EQ(holding(records, "step_time_us"), 2);
  EXPECT_EQ(holding(records, "memory/resident_bytes"), 4);
  EXPECT_GE(holding(records, "memory/by_tag/"), 4);
  EXPECT_GT(holding(records_in(folder / "step_memory"), "memory/live_arena_bytes_by_kernel"), 2);
}

TEST(TensorBoard, GetsByWithoutWeightsAndCapture) {
  const TempFolder folder;
  Trainer trainer(
      {.train = [](const data::Element& batch) { return nn::mean_squared_error(batch[0], batch[0]); }});
  auto batches = data::from_tensor_slices(ones({4})).batch(2);
  TensorBoard board(folder.path(), {.histogram_freq = 1});
  trainer.fit(batches, {.callbacks = {&board}, .progress = nullptr});
  EXPECT_EQ(holding(records_in(folder / "train"), "weights/"), 0);
  TensorBoard alone(folder / "alone");
  RunState run{.epoch = 1};
  alone.on_epoch_end(run, {{"loss", 1}});
  EXPECT_EQ(holding(records_in(folder / "alone" / "train"), "epoch_loss"), 1);
  EXPECT_ERROR(TensorBoard(folder.path(), {.histogram_freq = -1}), ErrorCode::kInvalidArgument,
               "histogram_freq");
}

TEST(GraphDump, WritesEveryStageOfEveryTrace) {
  const TempFolder folder;
  LoggedTraining training;
  {
    GraphDump dump(folder / "graphs");
    training.fit({.epochs = 1, .validation_data = training.validation});
    ASSERT_EQ(dump.stages().size(), 13u + 12u) << "the evaluation has no backward pass";
    EXPECT_EQ(dump.stages().front().name, "forward");
    EXPECT_EQ(dump.stages()[13].function, "evaluation");
    EXPECT_GT(dump.stages()[1].nodes, dump.stages()[12].nodes);
    EXPECT_THAT(dump.table(), testing::AllOf(HasSubstr("graphs of 'train step' for (f32(2, 2), f32(2, 3))"),
                                             HasSubstr("planned")));
    dump.write_csv();
  }
  int64_t dots = 0;
  std::vector<std::string> functions;
  for (const auto& below : std::filesystem::directory_iterator(folder / "graphs")) {
    if (!below.is_directory()) continue;
    functions.push_back(below.path().filename().string().substr(3));
    for (const auto& entry : std::filesystem::directory_iterator(below)) {
      if (entry.path().extension() == ".dot") {
        ++dots;
      } else {
        EXPECT_EQ(holding(records_in(entry.path()), "_output_shapes"), 1) << entry.path();
      }
    }
  }
  EXPECT_EQ(dots, 25);
  EXPECT_THAT(functions, testing::UnorderedElementsAre("train_step", "evaluation"));
  EXPECT_TRUE(std::filesystem::exists(folder / "graphs" / "stages.csv"));
}

TEST(GraphDump, IsBounded) {
  const TempFolder folder;
  GraphDump dump(folder.path());
  const graph::GraphStageSink sink = graph::graph_stage_sink();
  const graph::Graph graph;
  for (size_t i = 0; i < GraphDump::kMaxStages + 2; ++i) sink({"f", "()", 1, "pass", graph});
  EXPECT_EQ(dump.left_out(), 2u);
  for (size_t i = 0; i < GraphDump::kMaxTraces; ++i) {
    sink({"f", "()", 2 + static_cast<int64_t>(i), "pass", graph});
  }
  EXPECT_EQ(dump.left_out(), 3u);
  EXPECT_THAT(dump.table(), HasSubstr("3 further stages not written"));
}

std::vector<int64_t> traced_steps(const observe::TraceRecorder& recorder) {
  std::vector<int64_t> steps;
  for (const TracedThread& thread : recorder.threads()) {
    for (const TraceEvent& event : thread.events) {
      if (trace_name_of(event.name).category == TraceCategory::kStep) steps.push_back(event.value);
    }
  }
  return steps;
}

TEST(TracedFit, RecordsTheStepsThatAreAskedFor) {
  LoggedTraining training;
  observe::TraceRecorder trace;
  training.fit({.epochs = 3, .traced = {&trace, 2, 5}});
  EXPECT_THAT(traced_steps(trace), ElementsAre(2, 3, 4, 5));
  EXPECT_FALSE(trace.recording());
}

TEST(TracedFit, RecordsWholeCallsAndEndsWithTheTraining) {
  LoggedTraining training;
  observe::TraceRecorder trace;
  training.fit({.epochs = 2, .steps_per_call = 2, .traced = {&trace, 5, 100}});
  EXPECT_THAT(traced_steps(trace), ElementsAre(4, 6)) << "calls of steps 4 and 5, and of 6";
  EXPECT_FALSE(trace.recording());
}

TEST(TracedFit, AsWarmUpIsNoPartOfWhatIsMeasured) {
  for (const int epochs : {1, 2}) {
    LoggedTraining training;
    observe::TraceRecorder trace;
    observe::Recorder recorder;
    training.fit({.epochs = epochs, .recorder = &recorder, .traced = {&trace, 1, 2, true}});
    EXPECT_EQ(recorder.totals().warmup_iterations, epochs == 1 ? 2 : 3);
    EXPECT_EQ(recorder.totals().iterations, epochs == 1 ? 1 : 3);
  }
}

TEST(TracedFit, WarmUpEndsWithTheFirstEpochOfSeveral) {
  LoggedTraining training;
  observe::TraceRecorder trace;
  observe::Recorder recorder;
  training.fit({.epochs = 3, .recorder = &recorder, .traced = {&trace, 2, 100, true}});
  EXPECT_THAT(traced_steps(trace), ElementsAre(2, 3));
  EXPECT_EQ(recorder.totals().iterations, 6);
}

TEST(TracedFit, RefusesARangeThatIsNone) {
  LoggedTraining training;
  observe::TraceRecorder trace;
  EXPECT_ERROR(training.fit({.traced = {&trace, 3, 2}}), ErrorCode::kInvalidArgument, "3 to 2");
}

TEST(TracedFit, AFailureEndsTheRecording) {
  LoggedTraining training;
  observe::TraceRecorder trace;
  LambdaCallback failing(
      {.on_epoch_end = [](RunState&, const Results&) { fail(ErrorCode::kIo, "callback", "disk gone"); }});
  EXPECT_ERROR(training.fit({.epochs = 3, .callbacks = {&failing}, .traced = {&trace, 1, 100}}),
               ErrorCode::kIo, "disk gone");
  EXPECT_FALSE(trace.recording());
  EXPECT_THAT(traced_steps(trace), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace isochron::train
