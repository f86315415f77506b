// What a run shows while it continues: the line on a terminal, and what is told between reports.
#include "isochron/train/callbacks/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "isochron/core/base/clock.h"
#include "isochron/core/process/standard_streams.h"
#include "isochron/nn/layers/layers.h"
#include "isochron/ops/shape/creation.h"
#include "isochron/optim/optimizers.h"
#include "isochron/train/callbacks/run_watch.h"
#include "isochron/train/loop/trainer.h"
#include "support/temp_folder.h"

namespace isochron::train {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Sets a variable of the environment, and restores it.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

/// A pseudo-terminal.
class Terminal {
 public:
  explicit Terminal(uint16_t columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    EXPECT_GE(master_, 0);
    EXPECT_EQ(::grantpt(master_), 0);
    EXPECT_EQ(::unlockpt(master_), 0);
    file_ = std::fopen(::ptsname(master_), "w");
    EXPECT_NE(file_, nullptr);
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    EXPECT_EQ(::ioctl(master_, TIOCSWINSZ, &size), 0);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    std::fclose(file_);
    ::close(master_);
  }
  std::FILE* file() const { return file_; }
  /// What was written so far.
  std::string text() const {
    std::string all;
    pollfd ready{.fd = master_, .events = POLLIN, .revents = 0};
    while (::poll(&ready, 1, 50) == 1) {
      char part[1000];
      const ssize_t got = ::read(master_, part, sizeof part);
      if (got <= 0) break;
      all.append(part, static_cast<size_t>(got));
    }
    return all;
  }

 private:
  int master_;
  std::FILE* file_;
};

const RunState kRun = [] {
  RunState run;
  run.epoch = run.epochs = 1;
  run.step = 50;
  run.steps_per_epoch = 100;
  return run;
}();

TEST(Progress, ALineIsShortenedToTheTerminal) {
  const Environment kind("TERM", "xterm");
  const Terminal narrow(30), wide(200);
  for (const Terminal* terminal : {&narrow, &wide}) {
    Progress progress(terminal->file(), true, 32);
    progress.update(kRun, {{"a_loss_with_a_name", 0.5}});
    const std::string text = terminal->text();
    ASSERT_THAT(text, testing::StartsWith("\r\033[KEpoch 1/1  50/100  a_loss_w"));
    const size_t shown = text.size() - std::string_view("\r\033[K").size();
    if (terminal == &narrow)
      EXPECT_EQ(shown, 29u) << text;
    else
      EXPECT_THAT(text, HasSubstr("ETA")) << "all of it";
  }
}

TEST(Progress, ADumbTerminalGetsNoCommands) {
  const Environment kind("TERM", "dumb");
  const Terminal terminal(30);
  EXPECT_FALSE(is_terminal(terminal.file()));
  Progress progress(terminal.file(), true, 32);
  progress.update(kRun, {});
  EXPECT_THAT(terminal.text(), Not(HasSubstr("\033")));
}

TEST(Progress, TheEnvironmentTellsTheColumnsThatATerminalDoesNot) {
  const Terminal unknown(0);
  const Environment columns("COLUMNS", "44");
  EXPECT_EQ(terminal_columns(unknown.file()), 44);
  const Environment none("COLUMNS", "many");
  EXPECT_EQ(terminal_columns(unknown.file()), 80);
  EXPECT_EQ(terminal_columns(Terminal(30).file()), 30);
}

/// Six steps of 0.4 s, in one epoch.
void fit_slowly(std::vector<Callback*> callbacks, observe::Recorder& recorder) {
  nn::Dense model(1);
  optim::Sgd optimizer;
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  auto batches = data::from_tensor_slices(full({12, 3}, 1.0), full({12, 1}, 2.0)).batch(2);
  trainer.fit(batches,
              {.callbacks = std::move(callbacks),
               .recorder = &recorder,
               .after_iteration = [] { std::this_thread::sleep_for(std::chrono::milliseconds(400)); },
               .progress = nullptr});
}

/// Counts calls between the ends of batches and epochs.
struct Looks : Callback {
  void on_batch_end(RunState&, const Results&) override { ++batches; }
  void on_progress(RunState& run, const Results& results) override {
    steps.push_back(run.step);
    times_ns.push_back(now_ns());
    EXPECT_NE(results.find("loss"), nullptr);
  }
  std::string_view kind() const override { return "looks"; }
  int batches = 0;
  std::vector<int64_t> steps, times_ns;
};

TEST(Progress, LongStepsAreShownEverySecond) {
  Looks looks;
  observe::Recorder recorder;
  const int64_t began_ns = now_ns();
  fit_slowly({&looks}, recorder);
  EXPECT_EQ(looks.batches, 0) << "on_batch_end depends on the steps alone";
  ASSERT_THAT(looks.steps, Not(IsEmpty()));
  EXPECT_GE(looks.times_ns[0] - began_ns, 1'000'000'000);
  for (size_t i = 1; i < looks.times_ns.size(); ++i)
    EXPECT_GE(looks.times_ns[i] - looks.times_ns[i - 1], 900'000'000);
}

TEST(Progress, ShortStepsAreShownNoMoreOften) {
  Looks looks;
  observe::Recorder recorder;
  nn::Dense model(1);
  optim::Sgd optimizer({.learning_rate = 0});
  Trainer trainer(model, nn::mean_squared_error, optimizer);
  auto batches = data::from_tensor_slices(full({2, 3}, 1.0), full({2, 1}, 2.0)).batch(2).repeat();
  const int64_t began_ns = now_ns();
  trainer.fit(batches,
              {.steps_per_epoch = 50'000, .callbacks = {&looks}, .recorder = &recorder, .progress = nullptr});
  EXPECT_LT(recorder.totals().timed_iterations, recorder.totals().iterations / 2) << "most aren't timed";
  EXPECT_LE(static_cast<int64_t>(looks.steps.size()), (now_ns() - began_ns) / 1'000'000'000);
}

TEST(RunWatch, WritesFromTheStart) {
  const TempFolder folder;
  const auto live = [&] {
    std::ifstream file(folder / std::string(kLiveFile));
    return nlohmann::json::parse(file);
  };
  observe::Recorder recorder;
  RunWatch watch(recorder, {.folder = folder.path()});
  struct AtStart : Callback {
    void on_epoch_begin(RunState&) override { look(); }
    void on_progress(RunState&, const Results&) override { look(); }
    std::string_view kind() const override { return "at_start"; }
    std::function<void()> look;
  } then;
  std::vector<int64_t> steps;
  then.look = [&] { steps.push_back(live()["total_steps"]); };
  fit_slowly({&watch, &then}, recorder);
  ASSERT_GE(steps.size(), 2u);
  EXPECT_EQ(steps[0], 0);
  EXPECT_GT(steps[1], 0);
}

}  // namespace
}  // namespace isochron::train
