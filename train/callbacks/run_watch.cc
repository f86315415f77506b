#include "isochron/train/callbacks/run_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "isochron/core/base/clock.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/file.h"
#include "isochron/core/process/heap.h"
#include "isochron/core/process/process_space.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/observe/export/run_record.h"
#include "isochron/observe/record/json_numbers-inl.h"

namespace isochron::train {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMaxMedians = 64;

/// The medians of the step class that takes most of the time, thinned out.
ordered_json medians_json(const observe::Recorder& recorder) {
  const observe::WindowSeries* main = nullptr;
  for (const int c : recorder.classes()) {
    const observe::WindowSeries& windows = recorder.windows(c);
    if (main == nullptr || windows.total_ns() > main->total_ns()) main = &windows;
  }
  ordered_json list = ordered_json::array();
  if (main == nullptr) return list;
  const std::vector<double> medians = observe::window_medians(main->closed());
  const size_t every = medians.size() / kMaxMedians + 1;
  for (size_t i = 0; i < medians.size(); i += every) list.push_back(medians[i]);
  return list;
}

}  // namespace

RunWatch::RunWatch(const observe::Recorder& recorder, RunWatchOptions options)
    : recorder_(recorder), options_(std::move(options)), alarm_(recorder, options_.alarm) {
  std::error_code failed;  // writing reports the error
  if (!options_.folder.empty()) std::filesystem::create_directories(options_.folder, failed);
}

void RunWatch::on_train_begin(RunState& run) { write(run, false); }

void RunWatch::on_batch_end(RunState& run, const Results& results) { look(run, results); }

void RunWatch::on_progress(RunState& run, const Results& results) { look(run, results); }

void RunWatch::on_epoch_end(RunState& run, const Results& results) {
  if (recorder_.totals().timed_iterations > 0 && !std::exchange(rehearsed_, true)) {
    // Loads the code pages of a look, which belong to warm-up.
    static_cast<void>(make_report(recorder_, options_.title));
  }
  look(run, results);
  // Heap memory that the first saves have freed would otherwise stay resident until the end.
  if (std::has_single_bit(++epochs_ended_)) give_back_free_heap();
}

void RunWatch::on_train_end(RunState& run) { write(run, true); }

void RunWatch::look(const RunState& run, const Results& results) {
  results_ = results;  // also if nothing is written now: the last write includes them
  if (alarm_.due()) {
    if (const auto report = alarm_.look()) raise(*report);
    give_back_free_heap();  // a look is rare, and allocates up to a MB
  }
  if (options_.folder.empty() || now_ns() < next_write_ns_) return;
  next_write_ns_ = now_ns() + std::llround(options_.interval_seconds * 1e9);
  write(run, false);
}

/// A file that can't be written doesn't end the training; the first failure is reported.
void RunWatch::try_writing(const std::function<void()>& write) {
  try {
    write();
  } catch (const Error& error) {
    if (!std::exchange(not_written_, true)) emit({EventKind::kNotice, options_.title, error.what()});
  }
}

void RunWatch::raise(const observe::RunReport& report) {
  const std::string cause = report.causes.empty() ? "" : "; cause: " + report.causes.front().name;
  alarm_text_ = fmt::format("steps take longer as the run goes on: {}{}", verdict_text(report.time), cause);
  emit({EventKind::kNotice, options_.title, alarm_text_});
  if (options_.folder.empty()) return;
  observe::RunRecord record{.title = options_.title + ", when its steps began to take longer", .parts = {}};
  record.parts.push_back({.heading = alarm_text_, .run = run_data(recorder_, options_.title)});
  try_writing([&] { write_run_record(options_.folder / kDriftFile, record); });
}

void RunWatch::write(const RunState& run, bool finished) {
  if (options_.folder.empty()) return;
  const observe::RunTotals& totals = recorder_.totals();
  const std::vector<observe::Sample>& samples = recorder_.samples();
  const auto wait_ns = static_cast<double>(totals.phase_ns[static_cast<size_t>(observe::Phase::kDataWait)]);
  ordered_json results = ordered_json::object();
  for (const auto& [name, value] : results_) results[name] = observe::number_json<ordered_json>(value);
  const ordered_json json = {
      {"format", "isochron live 1"},
      {"title", options_.title},
      {"process", ::getpid()},
      {"process_space", process_space()},
      {"host", host_name()},
      {"finished", finished},
      {"stop_reason", run.stop_reason},
      {"epoch", run.epoch},
      {"epochs", run.epochs},
      {"step", run.step},
      {"steps_per_epoch", run.steps_per_epoch},
      {"total_steps", run.total_steps},
      {"recorded_steps", totals.iterations},
      {"seconds", static_cast<double>(totals.elapsed_ns) * 1e-9},
      {"results", std::move(results)},
      {"p50_ns", recorder_.duration_quantile(0.5)},
      {"p99_ns", recorder_.duration_quantile(0.99)},
      {"data_wait_share", wait_ns / std::max(1.0, static_cast<double>(totals.total_ns))},
      {"rss_bytes", samples.empty() ? observe::kUnknownReading : samples.back().sensors.rss_bytes},
      {"rss_first_bytes", samples.empty() ? observe::kUnknownReading : samples.front().sensors.rss_bytes},
      {"spikes", totals.spikes},
      {"medians_ns", medians_json(recorder_)},
      {"alarm", alarm_text_}};
  // Replaced atomically for readers, but not synced, because it is worthless after a crash.
  try_writing([&] {
    replace_file(options_.folder / kLiveFile,
                 json.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  });
}

}  // namespace isochron::train
