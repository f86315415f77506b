#include "isochron/apps/train/session.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "isochron/apps/allocation_counter.h"
#include "isochron/apps/commands.h"
#include "isochron/apps/output_files.h"
#include "isochron/apps/run_files.h"
#include "isochron/apps/train/dry_run.h"
#include "isochron/apps/train/optimizers.h"
#include "isochron/apps/train/page.h"
#include "isochron/backends/common/vector_target.h"
#include "isochron/core/base/checked.h"
#include "isochron/core/base/clock.h"
#include "isochron/core/base/crc32c.h"
#include "isochron/core/files/file.h"
#include "isochron/core/process/threads.h"
#include "isochron/core/text/count_text.h"
#include "isochron/nn/module/initializers.h"
#include "isochron/observe/export/kernel_table.h"
#include "isochron/observe/export/page.h"
#include "isochron/ops/random/random.h"
#include "isochron/train/callbacks/checkpoint_folder.h"

namespace isochron::apps {
namespace {

using nlohmann::ordered_json;

// The steps recorded by default, within the first epoch. They come after the first two steps, which run with
// cold caches.
constexpr StepRange kTracedSteps{3, 34};
constexpr size_t kKernelsShown = 12;

double chosen_learning_rate(const TrainOptions& options, const TrainSettings& settings) {
  if (options.learning_rate) return *options.learning_rate;
  const bool own = options.optimizer.empty() || options.optimizer == settings.optimizer;
  return own ? settings.learning_rate : optimizer_named(options.optimizer).learning_rate;
}

ordered_json epochs_json(const train::History& history) {
  ordered_json epochs = ordered_json::array();
  for (const train::EpochRecord& record : history.epochs()) {
    ordered_json line = {{"epoch", record.epoch},
                         {"steps", record.steps},
                         {"seconds", record.seconds},
                         {"step_p50_ns", record.step_p50_ns}};
    for (const auto& [name, value] : record.results) line[name] = value;
    epochs.push_back(std::move(line));
  }
  return epochs;
}

}  // namespace

TrainSession::TrainSession(const TrainOptions& options, const TrainSettings& settings)
    : options_(options),
      settings_(settings),
      epochs_(options.epochs > 0 ? options.epochs : settings.epochs),
      batch_(options.batch > 0 ? options.batch : settings.batch),
      optimizer_name_(options.optimizer.empty() ? settings.optimizer : options.optimizer),
      learning_rate_(chosen_learning_rate(options, settings)),
      optimizer_(optimizer_named(optimizer_name_).make(learning_rate_, step_options())),
      sensors_(options.device.is_cpu() ? nullptr
                                       : std::make_unique<train::DeviceSensors>(cuda::gpu(options.device))),
      recorder_({.classes = options.accumulate > 1 ? 3 : 2,
                 .heap_allocations = allocations_counted() ? heap_allocations : nullptr,
                 .library_allocations = allocations_counted() ? library_allocations : nullptr,
                 .clock = takes_turns() ? observe::running_ns : now_ns,
                 .sensors = sensors_.get()}) {
  random::set_seed(options.seed);
  nn::set_initializer_seed(options.seed);  // as before set_seed also seeded the weights
}

/// Gradients in f16 would underflow without loss scaling.
optim::StepOptions TrainSession::step_options() const {
  optim::StepOptions options{.accumulate = options_.accumulate};
  options.exact_sums = options_.exact_sums;
  options.clip.global_norm = options_.clip_norm.value_or(0);
  if (options_.bucket_bytes) options.bucket_bytes = *options_.bucket_bytes;
  options.keep_gradients = options_.gradient_histograms;
  if (options_.precision == Precision::kMixedF16) options.loss_scale = optim::LossScale::dynamic();
  return options;
}

namespace {

/// A checksum of contiguous tensors and their shapes.
std::string checksum_of(std::initializer_list<Tensor> tensors) {
  uint32_t sum = 0;
  for (const Tensor& tensor : tensors) {
    const std::string shape = tensor.shape().str();
    sum = crc32c({tensor.raw(), tensor.size_bytes()}, crc32c(std::as_bytes(std::span(shape)), sum));
  }
  return fmt::format("{:08x}", sum);
}

}  // namespace

void TrainSession::trains_on(std::initializer_list<Tensor> data) {
  if (!options_.checkpoint.empty() || optimizer_.group().size() > 1) data_checksum_ = checksum_of(data);
}

/// The settings that a resumed run must share with the run before.
std::vector<train::FitOptions::Setting> TrainSession::settings() const {
  std::vector<train::FitOptions::Setting> all = {
      {"model", options_.model},
      {"--batch", std::to_string(batch_)},
      {"--steps", std::to_string(steps_per_epoch_)},
      {"--seed", std::to_string(options_.seed)},
      {"--optimizer", optimizer_name_},
      {"--learning-rate", fmt::format("{}", learning_rate_)},
      {"--accumulate times ranks", std::to_string(batches_per_update())},
      {"--exact-sums", options_.exact_sums ? "yes" : "no"},
      {"--sync-batch-norm", options_.sync_batch_norm ? "yes" : "no"},
      {"--precision", std::string(precision_name(options_.precision))},
      {"--threads", std::to_string(compute_threads()), true},
      {"--device", options_.device.str(), true},
      {"vector instructions", ops::vector_target(), true}};
  if (options_.clip_norm) all.push_back({"--clip-norm", fmt::format("{}", *options_.clip_norm)});
  if (!data_checksum_.empty()) all.push_back({"content of the data", data_checksum_});
  // The decay of the learning rate depends on the last epoch.
  if (settings_.decay) all.push_back({"--epochs", std::to_string(epochs_)});
  return all;
}

/// The number of batches per update, over all ranks.
int64_t TrainSession::batches_per_update() const { return options_.accumulate * optimizer_.group().size(); }

int64_t TrainSession::steps_per_epoch(train::Batches data) const {
  if (options_.steps > 0) return options_.steps;
  if (settings_.steps_per_epoch > 0) return settings_.steps_per_epoch;
  const int64_t pass = data.dataset().size();
  return whole_updates() ? (pass + batches_per_update() - 1) / batches_per_update() * batches_per_update()
                         : pass;
}

train::Trainer TrainSession::trainer(train::BatchFunctions functions, train::Batches data) {
  weights_ = functions.weights;
  functions.precision = options_.precision;
  functions.device = options_.device;
  if (options_.dry_run) dry_run(functions, data, optimizer_, optimizer_name_, step_options());
  if (settings_.decay) {
    const int64_t updates = (steps_per_epoch(data) + batches_per_update() - 1) / batches_per_update();
    const int64_t total = checked_mul<int64_t>(epochs_, updates, "train");
    const auto warmup = static_cast<int64_t>(settings_.warmup_share * static_cast<double>(total));
    optimizer_.set_schedule(optim::warmup(warmup, optim::cosine(learning_rate_, total - warmup, 0.01)));
  }
  return train::Trainer(std::move(functions));
}

void TrainSession::fit(train::Trainer& trainer, train::Batches data, train::FitOptions fit_options) {
  fmt::print("{}{}, batch {}{}, {}, learning rate {:g}{}{}\n", count_text(epochs_, "epoch"),
             counts_steps() ? fmt::format(" of {}", count_text(steps_per_epoch(data), "step")) : "", batch_,
             batches_per_update() > 1 ? fmt::format(", one update per {} batches", batches_per_update()) : "",
             optimizer_name_, learning_rate_, settings_.warmup_share > 0 ? " after warm-up" : "",
             settings_.decay ? ", cosine decay" : "");
  if (options_.precision != Precision::kF32 && options_.device.is_cpu())
    fmt::print("{}\n", ops::half_arithmetic(options_.precision));
  std::fflush(stdout);
  fit_options.epochs = epochs_;
  fit_options.recorder = &recorder_;
  fit_options.enforce_sealed = options_.enforce_sealed;
  if (counts_steps()) fit_options.steps_per_epoch = steps_per_epoch(data);
  fit_options.finish_on_signals = options_.turns == nullptr;  // a twin ends with its run
  steps_per_epoch_ = fit_options.steps_per_epoch;
  fit_options.settings = settings();
  add_callbacks(fit_options.callbacks);
  if (takes_turns()) run_beside_twin(fit_options, steps_per_epoch(data));
  fit_options.traced = traced_steps(steps_per_epoch(data));
  if (!options_.graphs.empty()) graphs_.emplace(options_.graphs);
  try {
    history_ = trainer.fit(data, fit_options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDeviceLost && error.code() != ErrorCode::kDevice) throw;
    fail(error.code(), "train", "{}; {}", error.what(), way_on());
  }
  if (!options_.out.empty() && trainer.step().plan_count() > 0) {
    plan_ = train::plan_picture(trainer.step(), "The plan of a train step");
  }
  if (history_.interrupted_by != 0) {
    const std::string text = fmt::format("{}; {}", history_.stopped, saved_text());
    if (options_.weights_only && first_rank()) save_weights();
    judge({.title = "train " + options_.model + ", interrupted", .result = "Not tested: " + text + "."});
    throw Interrupted(history_.interrupted_by, text);
  }
  if (!options_.checkpoint.empty() && first_rank()) save_weights();
}

/// What an interrupted run has saved, and how to continue from it.
std::string TrainSession::saved_text() const {
  if (options_.checkpoint.empty())
    return "no weights were saved; a run with --checkpoint saves them and continues with --resume";
  if (options_.weights_only)
    return fmt::format("the weights so far are in {}", (options_.checkpoint / kWeightsName).string());
  return fmt::format("the run so far is saved in {}; continue with --resume", options_.checkpoint.string());
}

/// How to continue after the device failed and everything unsaved was lost.
std::string TrainSession::way_on() {
  if (options_.checkpoint.empty())
    return "nothing was saved; to save checkpoints, name a folder with --checkpoint";
  try {
    if (checkpoints_) checkpoints_->flush();
  } catch (const Error&) {  // then an older checkpoint is the last one
  }
  if (options_.weights_only) {
    return fmt::format("the weights saved so far are in {}; the run can't be resumed from them",
                       options_.checkpoint.string());
  }
  const auto found = train::newest_checkpoint(options_.checkpoint);
  if (!found) return fmt::format("there was no checkpoint in {} yet", options_.checkpoint.string());
  return fmt::format("the last good checkpoint is {}; continue from it with --resume", found->path.string());
}

void TrainSession::run_beside_twin(train::FitOptions& fit_options, int64_t steps_each) {
  const bool known = epochs_ > 1 && steps_each > 0;
  require(known || !options_.beside_twin.value_or(false), ErrorCode::kInvalidArgument, "train",
          "--beside-twin needs at least two epochs with a known number of steps");
  if (!known) return;
  if (options_.twin != nullptr) beside_twin_.emplace(*options_.twin);
  fit_options.after_iteration = [this, all = checked_mul<int64_t>(epochs_, steps_each, "train")] {
    after_iteration(all);
  };
}

void TrainSession::after_iteration(int64_t iterations_in_all) {
  const observe::RunTotals& totals = recorder_.totals();
  if (totals.warmup_iterations == 0) return;
  if (totals.timed_iterations < timed_iterations_) timed_iterations_ = total_ns_ = 0;  // sealed since
  const int64_t timed = totals.timed_iterations - std::exchange(timed_iterations_, totals.timed_iterations);
  const int64_t duration_ns = totals.total_ns - std::exchange(total_ns_, totals.total_ns);
  if (options_.turns != nullptr) {
    if (timed > 0) options_.turns->add(duration_ns);
    const bool over = options_.turns->over(observe::running_ns());
    if (over && !options_.turns->wait([] { return std::string(); })) throw TwinDone();
  } else if (timed > 0) {
    const int64_t left = iterations_in_all - totals.warmup_iterations - totals.iterations;
    const auto mark = beside_twin_->next(duration_ns, left);
    if (mark == observe::BesideTwin::Mark::kRunBegins) recorder_.seal();
    if (mark == observe::BesideTwin::Mark::kRunEnds)
      run_ = observe::run_data(recorder_, "train " + options_.model);
  }
}

void TrainSession::add_callbacks(std::vector<train::Callback*>& callbacks) {
  watch_.emplace(recorder_,
                 train::RunWatchOptions{.folder = options_.out, .title = "train " + options_.model});
  callbacks.push_back(&*watch_);
  if (!options_.tensorboard.empty()) {
    tensor_board_.emplace(options_.tensorboard,
                          train::TensorBoardOptions{.optimizer = &optimizer_, .histogram_freq = 1});
    callbacks.push_back(&*tensor_board_);
  }
  if (!options_.memory_at.empty() || !options_.out.empty() || !options_.json.empty()) {
    memory_.emplace(train::MemoryWatchOptions{options_.memory_at});
    callbacks.push_back(&*memory_);
  }
  if (options_.early_stopping > 0) {
    early_stopping_.emplace(train::EarlyStoppingOptions{.patience = options_.early_stopping});
    callbacks.push_back(&*early_stopping_);
  }
  if (options_.checkpoint.empty()) return;
  checkpoints_.emplace(checkpoint_options(options_));
  callbacks.push_back(&*checkpoints_);
  saved_lines_.emplace();
  callbacks.push_back(&*saved_lines_);
}

train::FitOptions::TracedSteps TrainSession::traced_steps(int64_t steps_per_epoch) {
  if (options_.trace.empty() && options_.out.empty()) return {};
  trace_.emplace();
  if (!options_.trace_steps.empty()) {
    const StepRange asked = *parse_steps(options_.trace_steps);
    return {&*trace_, asked.first, asked.last};
  }
  const bool few = steps_per_epoch > 0 && steps_per_epoch < 2 * kTracedSteps.first;
  return {&*trace_, few ? 1 : kTracedSteps.first, kTracedSteps.last, true};
}

void TrainSession::write_trace() {
  if (!trace_ || options_.trace.empty()) return;
  const observe::KernelTable& table = *kernels_;
  trace_->write(options_.trace);
  const bool none = table.steps == 0 && !options_.trace_steps.empty();
  fmt::print(
      "{}the trace is in {}{}; open it in ui.perfetto.dev or chrome://tracing\n",
      observe::kernel_table_text(table, kKernelsShown), options_.trace.string(),
      none ? fmt::format(", but contains no complete step: the run had none of the steps of --trace-steps {}",
                         options_.trace_steps)
           : "");
}

void TrainSession::save_weights() {
  saved_lines_->print();
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& [name, variable] : weights_()) tensors.emplace_back(name, variable.tensor());
  const std::filesystem::path path = options_.checkpoint / kWeightsName;
  nn::write_safetensors(path, tensors);
  const train::CheckpointWriterStats stats = checkpoints_->stats();
  fmt::print("weights are in {}; {} written, {} coalesced, training waited {} for them ({} at most)\n",
             path.string(), count_text(stats.saved, "checkpoint"), stats.coalesced,
             observe::duration_text(static_cast<double>(stats.stall_ns)),
             observe::duration_text(static_cast<double>(stats.longest_stall_ns)));
}

void TrainSession::finish(const TrainOutcome& outcome) {
  fmt::print("\ntest: {}\n{}", outcome.task, compared_text(outcome));
  fmt::print("{}\n", outcome.result);
  if (!outcome.sample.empty()) fmt::print("\na sample of its text:\n{}\n", valid_text(outcome.sample));
  const std::optional<observe::RunReport> report = judge(outcome);
  for (const auto& [name, value] : outcome.test.items()) {
    require(!value.is_number() || std::isfinite(value.get<double>()), ErrorCode::kNotANumber, "train",
            "the {} of the test is {}; try a smaller learning rate", name, value.get<double>());
  }
  if (options_.require_flat && (!report || report->time.kind != observe::Flatness::kFlat)) {
    throw CheckFailed(fmt::format("the time of a step was not found to be flat: {}",
                                  report ? report->time.reason : "no step was run"));
  }
}

/// How much the ranks have sent, and how much communication time was exposed (not hidden by computation).
std::string TrainSession::communication_text(const observe::RankData* ranks) const {
  const comm::Group& group = optimizer_.group();
  const comm::CommunicationStats stats = group.stats();
  const auto updates = static_cast<double>(std::max<int64_t>(optimizer_.step_count(), 1));
  std::string text =
      fmt::format("{} ranks over {}: per update each sends {}", group.size(), group.description(),
                  observe::bytes_text(static_cast<double>(stats.bytes_sent) / updates));
  if (ranks == nullptr || ranks->windows.empty()) return text + "\n";
  int64_t communication_ns = 0, recorded = 0;
  for (const observe::RankWindow& window : ranks->windows) {
    communication_ns += window.communication_ns;
    recorded += window.updates;
  }
  const double exposed_ns = static_cast<double>(communication_ns) / static_cast<double>(recorded);
  return text + fmt::format("; waiting for communication takes {}\n", observe::duration_text(exposed_ns));
}

std::optional<observe::RunReport> TrainSession::judge(const TrainOutcome& outcome) {
  std::optional<observe::RunData> run;
  std::optional<observe::RunReport> report;
  if (recorder_.totals().iterations > 0) {
    run = run_ ? std::move(run_) : observe::run_data(recorder_, "train " + options_.model);
    if (beside_twin_) run->turns = beside_twin_->turns();
    report = observe::make_report(*run);
    fmt::print("\n{}", observe::summary_text({&*report, 1}));
    if (beside_twin_ && run->turns.after.size() < observe::kMinTurnPairs) {
      fmt::print(
          "  the training was too short to alternate with its twin twice; its time is judged without the "
          "twin\n");
    } else if (beside_twin_ && report->time.kind != observe::Flatness::kInconclusive) {
      fmt::print("  {}: {}\n", report->name, report->time.reason);
    }
  } else {
    fmt::print("\nnothing was left to train, so there is no step time to judge\n");
  }
  if (optimizer_.group().size() > 1)
    fmt::print("\n{}", communication_text(report && report->ranks ? &*report->ranks : nullptr));
  if (report && report->ranks) fmt::print("{}", observe::ranks_text(*report->ranks));
  if (memory_ && !options_.memory_at.empty()) {
    fmt::print("\n{}", observe::memory_text(memory_->moments()));
  } else if (memory_) {
    fmt::print("\n{}", observe::memory_growth_text(memory_->moments()));
  }
  if (graphs_) {
    fmt::print("\n{}", graphs_->table());
  }
  std::fflush(stdout);  // before writing files, which may fail if the disk is full
  if (graphs_) {
    graphs_->write_csv();
    fmt::print("graphs are in {}\n", options_.graphs.string());
  }
  if (trace_) kernels_ = observe::kernel_table(*trace_, "train step");
  write(report ? &*report : nullptr, std::move(run), outcome);
  write_trace();
  return report;
}

void TrainSession::write(const observe::RunReport* report, std::optional<observe::RunData> run,
                         const TrainOutcome& outcome) const {
  ordered_json document = {{"model", options_.model},
                           {"optimizer", optimizer_name_},
                           {"learning_rate", learning_rate_},
                           {"batch", batch_},
                           {"accumulate", options_.accumulate},
                           {"ranks", optimizer_.group().size()},
                           {"bytes_sent", optimizer_.group().stats().bytes_sent},
                           {"exposed_ns", optimizer_.group().stats().exposed_ns},
                           {"precision", precision_name(options_.precision)},
                           {"seed", options_.seed},
                           {"threads", compute_threads()},
                           {"epochs", epochs_json(history_)},
                           {"test", outcome.test}};
  if (report != nullptr) document["report"] = ordered_json::parse(observe::to_json(*report, -1));
  if (memory_) document["memory"] = ordered_json::parse(observe::memory_json(memory_->moments(), -1));
  if (!outcome.sample.empty()) document["sample"] = outcome.sample;
  // A text sample may end within a character, and a data file may contain bytes that aren't UTF-8.
  const std::string text = document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
  write_output(options_.json, text);
  if (options_.out.empty()) return;
  const std::string summary =
      fmt::format("{}, batch {}, {}, learning rate {:g}, seed {}, {}", count_text(epochs_, "epoch"), batch_,
                  optimizer_name_, learning_rate_, options_.seed, count_text(compute_threads(), "thread"));
  write_file_atomically(options_.out / kResultFile, text);
  write_file_atomically(options_.out / kHistoryFile, history_.csv());
  if (kernels_)
    write_file_atomically(options_.out / kKernelsFile, observe::kernel_table_json(*kernels_) + "\n");
  if (report != nullptr) {
    write_file_atomically(options_.out / kWindowsFile, observe::to_csv(*report));
    std::vector<std::pair<std::string, std::string>> told;
    for (const auto& setting : settings()) told.emplace_back(setting.name, setting.value);
    if (!settings_.decay) told.emplace_back("--epochs", std::to_string(epochs_));
    if (!options_.data.empty()) told.emplace_back("--data", options_.data.string());
    told.emplace_back("version", ISOCHRON_VERSION);
    observe::RunRecord record = train_record(outcome, summary, std::move(told), history_, std::move(*run));
    record.parts.insert(record.parts.end() - 1,
                        {.heading = "Memory", .memory = memory_->moments(), .plan = plan_});
    if (kernels_) record.parts.insert(record.parts.end() - 2, {.kernels = kernels_});
    observe::write_run_record(options_.out / observe::kRunRecordFile, record);
    write_file_atomically(options_.out / kPageFile, observe::record_page(record));
  }
  if (plan_) write_file_atomically(options_.out / kPlanFile, observe::plan_svg(*plan_));
  fmt::print("{}train.json, history.csv, kernels.json and plan.svg are in {}\n",
             report != nullptr ? "report.html, run.json, windows.csv, " : "", options_.out.string());
}

}  // namespace isochron::apps
