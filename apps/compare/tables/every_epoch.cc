// Files and output per epoch: policies for checkpoints, temporary files, log levels, metrics from a list; and
// shrinking gradients.
#include "isochron/apps/compare/tables/every_epoch.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <csignal>
#include <fstream>
#include <limits>
#include <memory>

#include "isochron/apps/compare/models/digits_training.h"
#include "isochron/apps/compare/tables/measure.h"
#include "isochron/core/base/error.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/telemetry/log.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/graph/step/captured.h"
#include "isochron/nn/losses/metrics.h"
#include "isochron/observe/diagnose/report.h"
#include "isochron/ops/matmul/matmul.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/train/callbacks/callbacks.h"
#include "isochron/train/callbacks/model_checkpoint.h"

namespace isochron::apps {
namespace {

using observe::bytes_text;
using observe::duration_text;

constexpr int64_t kFeedPasses = 5;

/// Number of files in `folder`, except lock files.
int64_t files_in(const std::filesystem::path& folder) {
  int64_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    files += entry.is_regular_file() && entry.path().filename() != ".lock";
  return files;
}

/// The time of a step in the fastest epoch, including callbacks.
double step_ns(const train::History& history) {
  double least = std::numeric_limits<double>::infinity();
  for (const train::EpochRecord& epoch : history.epochs()) {
    least = std::min(least, 1e9 * epoch.seconds / static_cast<double>(epoch.steps));
  }
  return least;
}

}  // namespace

observe::Table checkpoints_table(double seconds) {
  const int epochs = std::max(10, static_cast<int>(40 * seconds));
  struct Policy {
    std::string name;
    train::ModelCheckpointOptions options;
  };
  const std::vector<Policy> policies = {
      {"every epoch, all state, the loop waits", {.asynchronous = false}},
      {"every epoch, weights only, the loop waits", {.save_weights_only = true, .asynchronous = false}},
      {"every epoch, weights only, in the background", {.save_weights_only = true}},
      {"every epoch, the last 3 kept, in the background", {.save_weights_only = true, .keep_last = 3}},
      {"every 5 epochs, weights only, in the background", {.save_weights_only = true, .every_epochs = 5}},
      {"every 5 epochs, the last 3 kept, in the background",
       {.save_weights_only = true, .every_epochs = 5, .keep_last = 3}},
  };
  observe::Table table{
      .title =
          fmt::format("Checkpoint policies, over {} epochs of {} steps", epochs, kFeedPasses * kDigitsSteps),
      .columns = {"policy", "files written", "the loop waited", "longest wait", "files left", "on disk"},
      .rows = {},
      .says = ""};
  double first_ns = 0, last_ns = 0;
  for (const Policy& policy : policies) {
    DigitsTraining problem(kFeedPasses);
    const TemporaryFolder folder;
    train::ModelCheckpointOptions options = policy.options;
    options.filepath = folder.path() / "cp-{epoch:04d}";
    train::ModelCheckpoint checkpoints(options);
    train::Trainer trainer = problem.trainer();
    trainer.fit(problem.batches, {.epochs = epochs, .callbacks = {&checkpoints}, .progress = nullptr});
    const train::CheckpointWriterStats stats = checkpoints.stats();
    last_ns = static_cast<double>(stats.stall_ns) / epochs;
    if (first_ns == 0) first_ns = last_ns;
    table.rows.push_back(
        {policy.name, fmt::format("{}", stats.saved), fmt::format("{} per epoch", duration_text(last_ns)),
         duration_text(static_cast<double>(stats.longest_stall_ns)),
         fmt::format("{}", files_in(folder.path())), bytes_text(static_cast<double>(folder.bytes()))});
  }
  table.says = fmt::format(
      "Saving the whole state after each epoch costs the loop {} per epoch, and leaves a file each time. "
      "Saving only the weights every five epochs, from a copy, costs {}; with the last three files kept, the "
      "disk does not fill up.",
      duration_text(first_ns), duration_text(last_ns));
  return table;
}

namespace {

/// Runs a process that keeps a run's temporary files in `parent` and is killed in the middle of the run.
void run_that_is_killed(const std::filesystem::path& parent) {
  const pid_t child = ::fork();
  require(child >= 0, ErrorCode::kIo, "compare", "cannot start a process for the files that a crash leaves");
  if (child == 0) {
    const RunFolder folder(parent);
    for (int i = 0; i < 3; ++i) std::ofstream(folder.path() / fmt::format("batch-{}.tmp", i)) << "unfinished";
    ::kill(::getpid(), SIGKILL);
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
}

}  // namespace

observe::Table files_table(double /*seconds*/) {
  const TemporaryFolder place;
  observe::Table table{.title = "Temporary files of a run",
                       .columns = {"when", "files"},
                       .rows = {},
                       .says =
                           "A process keeps all its temporary files in one folder, which it locks. The "
                           "system releases the lock however the process ends, so the next run removes what "
                           "a crash has left behind, and nothing else."};
  const auto row = [&](const char* when) {
    table.rows.push_back({when, fmt::format("{}", files_in(place.path()))});
  };
  {
    const RunFolder run(place.path());
    for (int i = 0; i < 3; ++i) std::ofstream(run.path() / fmt::format("batch-{}.tmp", i)) << "unfinished";
    row("during a run");
  }
  row("after the run");
  run_that_is_killed(place.path());
  row("after another run was killed (SIGKILL)");
  { const RunFolder next(place.path()); }
  row("after the next run has started");
  return table;
}

namespace {

/// Prints a line for every step and flushes it at once.
class EveryStep : public train::Callback {
 public:
  explicit EveryStep(std::FILE* file) : file_(file) {}
  void on_batch_end(train::RunState& run, const train::Results& results) override {
    fmt::print(file_, "epoch {} step {} loss {}\n", run.epoch, run.step, results["loss"]);
    std::fflush(file_);
  }

 private:
  std::FILE* file_;
};

struct Logged {
  int64_t lines = 0;
  double step_ns = 0;
};

/// A training with a checkpoint after each epoch. Its events and the lines of `every_step` go to a file.
Logged logged_training(LogLevel level, bool every_step, int epochs) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "training.log";
  Logged logged;
  {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "w"), std::fclose);
    require(file != nullptr, ErrorCode::kIo, path.string(), "cannot be opened for writing");
    const Log log(level, file.get());
    DigitsTraining problem(kFeedPasses);
    train::ModelCheckpoint checkpoints(
        {.filepath = folder.path() / "cp-{epoch:04d}", .save_weights_only = true, .keep_last = 3});
    EveryStep lines(file.get());
    train::FitOptions options{.epochs = epochs, .callbacks = {&checkpoints}, .progress = nullptr};
    if (every_step) options.callbacks.push_back(&lines);
    options.report_every = every_step ? 1 : 100;
    logged.step_ns = step_ns(problem.trainer().fit(problem.batches, options));
  }
  std::ifstream file(path);
  logged.lines = std::count(std::istreambuf_iterator<char>(file), {}, '\n');
  return logged;
}

}  // namespace

observe::Table log_levels_table(double seconds) {
  const int epochs = std::max(5, static_cast<int>(40 * seconds));
  observe::Table table{
      .title = fmt::format("Log levels, over {} epochs of {} steps", epochs, kFeedPasses * kDigitsSteps),
      .columns = {"what is logged", "lines", "per step"},
      .rows = {},
      .says = ""};
  double quiet_ns = 0;
  const std::pair<LogLevel, const char*> levels[] = {
      {LogLevel::kError, "error: errors only"},
      {LogLevel::kWarning, "warning"},
      {LogLevel::kInfo, "info: each checkpoint"},
      {LogLevel::kDebug, "debug: each trace, plan and pool growth"}};
  const auto row = [&](const char* what, const Logged& logged) {
    table.rows.push_back({what, fmt::format("{}", logged.lines), duration_text(logged.step_ns)});
  };
  for (const auto& [level, what] : levels) {
    const Logged logged = logged_training(level, false, epochs);
    if (quiet_ns == 0) quiet_ns = logged.step_ns;
    row(what, logged);
  }
  const Logged each = logged_training(LogLevel::kError, true, epochs);
  row("a line printed by the program in every step", each);
  table.says = fmt::format(
      "The log level does not change the time of a step, because a replayed step logs nothing. With a line "
      "in every step, a step takes {:.2f} times as long.",
      each.step_ns / quiet_ns);
  return table;
}

namespace {

/// Probabilities and targets of every batch so far.
using Predictions = std::vector<std::array<Tensor, 2>>;

double accuracy_of(const Predictions& all) {
  int64_t right = 0, rows = 0;
  for (const auto& [scores, targets] : all) {
    const int64_t classes = scores.extent(1);
    const float *s = scores.data<float>(), *t = targets.data<float>();
    for (int64_t row = 0; row < scores.extent(0); ++row, s += classes, t += classes, ++rows) {
      right += std::max_element(s, s + classes) - s == std::max_element(t, t + classes) - t;
    }
  }
  return static_cast<double>(right) / static_cast<double>(rows);
}

}  // namespace

observe::Table metrics_table(double seconds) {
  DigitsTraining problem(1);
  Predictions all;
  nn::CategoricalAccuracy streaming;
  auto update =
      capture([&](const Tensor& scores, const Tensor& targets) { streaming.update(scores, targets); });
  data::Dataset batches = problem.batches.repeat();
  auto at = batches.begin();
  observe::Table table{.title = "Computing the accuracy so far, in one step",
                       .columns = {"at step", "from a list of predictions", "size of the list",
                                   "from running sums", "size of the sums"},
                       .rows = {},
                       .says = ""};
  size_t kept_bytes = 0;
  double list_ns = 0, streaming_ns = 0;
  for (const size_t step : {size_t{44}, size_t{440}, size_t{4400}}) {
    for (; all.size() < step; ++at) {
      all.push_back({copy(problem.model((*at)["images"])), copy((*at)["labels"])});
      kept_bytes += all.back()[0].size_bytes() + all.back()[1].size_bytes();
      update(all.back()[0], all.back()[1]);
    }
    require(std::abs(accuracy_of(all) - streaming.result()) < 1e-9, ErrorCode::kNotANumber, "every-epoch",
            "the accuracies are {} and {}", accuracy_of(all), streaming.result());
    double seen = 0;
    list_ns = time_of([&] { seen += accuracy_of(all); }, seconds / 6);
    // Uses a separate metric, so that the one above isn't changed.
    nn::CategoricalAccuracy timed;
    auto timed_update = capture([&](const Tensor& s, const Tensor& t) { timed.update(s, t); });
    streaming_ns = time_of(
        [&] {
          timed_update(all.back()[0], all.back()[1]);
          seen += timed.result();
        },
        seconds / 6);
    size_t state_bytes = 0;
    for (const Variable& sum : streaming.state()) state_bytes += sum.tensor().size_bytes();
    table.rows.push_back({fmt::format("{}", step), duration_text(list_ns),
                          bytes_text(static_cast<double>(kept_bytes)), duration_text(streaming_ns),
                          bytes_text(static_cast<double>(state_bytes))});
  }
  table.says = fmt::format(
      "Computed from a list of all predictions, the accuracy takes longer in every step: {} at step 4,400. "
      "Two running sums give the same accuracy in {} at any step.",
      duration_text(list_ns), duration_text(streaming_ns));
  return table;
}

observe::Table improvement_table(double /*seconds*/) {
  constexpr int kEpochs = 10;
  DigitsTraining problem(kFeedPasses);
  train::Trainer trainer = problem.trainer();
  const train::History history = trainer.fit(problem.batches, {.epochs = kEpochs, .progress = nullptr});
  observe::Table table{.title = "Time and loss of each epoch",
                       .columns = {"epoch", "time", "loss", "loss decrease"},
                       .rows = {},
                       .says = ""};
  std::vector<double> gained, times_ns;
  double before = 0;
  for (const train::EpochRecord& epoch : history.epochs()) {
    const double loss = epoch.results["loss"];
    times_ns.push_back(1e9 * epoch.seconds);
    if (epoch.epoch > 1) gained.push_back(before - loss);
    table.rows.push_back({fmt::format("{}", epoch.epoch), duration_text(times_ns.back()),
                          fmt::format("{:.4g}", loss),
                          epoch.epoch > 1 ? fmt::format("{:.2g}", before - loss) : "-"});
    before = loss;
  }
  table.says = fmt::format(
      "The second epoch lowers the loss by {:.2g}, the last by {:.2g}: later epochs improve less. That is "
      "not a slowdown: the second epoch takes {}, the last {}.",
      gained.front(), gained.back(), duration_text(times_ns[1]), duration_text(times_ns.back()));
  return table;
}

namespace {

/// While an object exists, this thread computes with subnormal numbers, which is the default in a program.
class SubnormalsKept {
 public:
  SubnormalsKept() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  SubnormalsKept(const SubnormalsKept&) = delete;
  SubnormalsKept& operator=(const SubnormalsKept&) = delete;
  ~SubnormalsKept() {
    std::fesetenv(&before_);
    flush_subnormals_to_zero();
  }

 private:
  std::fenv_t before_{};
};

}  // namespace

observe::Table shrinking_gradients_table(double seconds) {
  observe::Table table{.title = "Weight gradient of a dense layer as gradients shrink, (64, 32) by (32, 10)",
                       .columns = {"gradient of the loss", "time", "time with subnormal numbers kept"},
                       .rows = {},
                       .says = ""};
  double normal_ns = 0, subnormal_ns = 0, flushed_ns = 0;
  const Tensor x = full({64, 32}, 0.5);
  for (const double size : {1e-2, 1e-10, 1e-30, 1e-40}) {
    Tensor gradient;
    {
      const SubnormalsKept kept;  // without it, the gradient would be zero from the start
      gradient = full({32, 10}, size);
    }
    const std::function<void()> product = [&] { static_cast<void>(matmul(x, gradient)); };
    flush_subnormals_to_zero();
    flushed_ns = time_of(product, seconds / 8);
    {
      const SubnormalsKept kept;
      require(!subnormals_flushed(), ErrorCode::kUnsupported, "every-epoch",
              "subnormal numbers are still flushed");
      subnormal_ns = time_of(product, seconds / 8);
    }
    if (normal_ns == 0) normal_ns = flushed_ns;
    table.rows.push_back({fmt::format("{:g}", size), duration_text(flushed_ns), duration_text(subnormal_ns)});
  }
  table.says = fmt::format(
      "Shrinking gradients do not slow a step down: {} at 1e-2, {} at 1e-40, which is flushed to zero. Kept "
      "as subnormal numbers they take {:.2f} times as long{}.",
      duration_text(normal_ns), duration_text(flushed_ns), subnormal_ns / flushed_ns,
      subnormal_ns < 1.2 * flushed_ns ? ", so this processor has no penalty for them either"
                                      : "; flushing them avoids that");
  return table;
}

}  // namespace isochron::apps
