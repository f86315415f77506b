// `isochron train`: trains the bundled models on the shipped data or on files of the same form.
#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "isochron/apps/commands.h"
#include "isochron/apps/device_option.h"
#include "isochron/apps/number_options.h"
#include "isochron/apps/output_files.h"
#include "isochron/apps/precision_option.h"
#include "isochron/apps/run_files.h"
#include "isochron/apps/train/dry_run.h"
#include "isochron/apps/train/families.h"
#include "isochron/apps/train/optimizers.h"
#include "isochron/apps/train/patience.h"
#include "isochron/apps/train/session.h"
#include "isochron/backends/common/choices.h"
#include "isochron/comm/group/world.h"
#include "isochron/comm/launch/join.h"
#include "isochron/comm/launch/launch.h"
#include "isochron/core/base/error.h"
#include "isochron/core/files/run_folder.h"
#include "isochron/core/process/threads.h"
#include "isochron/memory/cuda/gpu.h"
#include "isochron/train/callbacks/checkpoint_folder.h"

namespace isochron::apps {

std::optional<StepRange> parse_steps(const std::string& text) {
  const size_t colon = text.find(':');
  const auto number = [](std::string_view digits) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() && end == digits.data() + digits.size() ? value : -1;
  };
  const std::string_view all = text;
  const StepRange range = colon == std::string::npos
                              ? StepRange{1, number(all)}
                              : StepRange{number(all.substr(0, colon)), number(all.substr(colon + 1))};
  if (range.first < 1 || range.last < range.first) return std::nullopt;
  return range;
}

namespace {

/// Opens the device before any work is done. Throws kUnsupported if the device is unavailable, and for
/// options that are supported only on the CPU.
void open_device(const TrainOptions& options) {
  require(!options.memory_limit || !options.device.is_cpu(), ErrorCode::kInvalidArgument, "train",
          "--memory-limit is for CUDA devices; name one with --device, or leave it out");
  if (options.device.is_cpu()) return;
  require(!options.beside_twin.value_or(false) && !options.dry_run, ErrorCode::kUnsupported, "train",
          "{} works on the CPU only so far; leave it or --device out",
          options.dry_run ? "--dry-run" : "--beside-twin");
  static_cast<void>(cuda::gpu(options.device));
  if (options.memory_limit) cuda::limit_memory(options.device, *options.memory_limit);
}

/// Throws kInvalidArgument for options that concern several ranks if no launcher started this process. A user
/// who gives them probably means something else, such as early stopping.
void require_ranks(const TrainOptions& options) {
  const std::pair<bool, const char*> given[] = {
      {options.patience_seconds.has_value(),
       "--patience is how long a rank waits for another before it says so"},
      {options.patience_end_seconds.has_value(),
       "--patience-end is how long a rank waits for another at most"},
      {options.bucket_bytes.has_value(), "--bucket is the size in which ranks exchange gradients"}};
  for (const auto& [is_given, text] : given)
    require(!is_given || comm::detect_launch(), ErrorCode::kInvalidArgument, "train",
            "{}, for runs that mpirun or srun starts; leave it out", text);
}

/// The name of a weights file in the folder; empty if there is none.
std::string weights_in(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors") return entry.path().filename().string();
  return {};
}

/// Rejects a folder that has another run's checkpoints. Checkpoints of two runs in one folder would be
/// mistaken for those of one run, and the second run's weights would replace the first's.
void require_fresh_or_resumed(const TrainOptions& options) {
  if (options.checkpoint.empty()) return;
  const std::string folder = options.checkpoint.string(), weights = weights_in(options.checkpoint);
  if (weights.empty()) {
    if (options.resume) fmt::print("no checkpoint in {}: starting from the beginning\n", folder);
    return;
  }
  const bool found = train::newest_checkpoint(options.checkpoint).has_value();
  if (found && options.resume) return;
  require(!found, ErrorCode::kInvalidArgument, "train",
          "{} contains checkpoints of an earlier run; continue it with --resume, or name another folder",
          folder);
  fail(ErrorCode::kInvalidArgument, "train",
       "{} contains weights of an earlier run ({}){}; name another folder", folder, weights,
       options.resume ? ", but no checkpoint to resume from" : "");
}

/// "FROM:TO" or "N".
CLI::Validator step_range() {
  return CLI::Validator(
      [](std::string& text) {
        return parse_steps(text) ? std::string()
                                 : fmt::format("expected N or FROM:TO with 1 <= FROM <= TO, got '{}'", text);
      },
      "N|FROM:TO");
}

/// Runs the same training in a twin process. Leaves no files behind.
std::string train_as_twin(const TrainableModel& model, TrainOptions options, observe::Turns& turns) {
  const RunFolder folder(std::filesystem::temp_directory_path());
  const auto own = [&](std::filesystem::path& path, const char* name) {
    if (path.empty()) return;
    path = folder.path() / name;
    make_folder(path);
  };
  own(options.checkpoint, "checkpoint");
  own(options.tensorboard, "tensorboard");
  for (std::filesystem::path* path : {&options.out, &options.json, &options.trace, &options.graphs})
    path->clear();
  options.memory_at.clear();
  options.require_flat = false;
  options.turns = &turns;
  const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);  // its notices would be duplicates
  if (nowhere < 0 || ::dup2(nowhere, STDERR_FILENO) < 0) return {};
  try {
    model.train(options);
  } catch (const TwinDone&) {
  }
  return {};
}

/// Used by all ranks but the first, which alone prints, writes and judges. All ranks read checkpoints.
void keep_quiet(TrainOptions& options) {
  for (std::filesystem::path* path :
       {&options.out, &options.json, &options.trace, &options.graphs, &options.tensorboard})
    path->clear();
  options.memory_at.clear();
  options.require_flat = false;
  print_nothing();
}

/// Tells the user which requested files a dry run doesn't write.
void tell_unwritten(const TrainOptions& options) {
  const std::pair<const std::filesystem::path&, const char*> files[] = {
      {options.out, "--out"},     {options.json, "--json"},     {options.checkpoint, "--checkpoint"},
      {options.trace, "--trace"}, {options.graphs, "--graphs"}, {options.tensorboard, "--tensorboard"}};
  std::vector<std::string> names;
  for (const auto& [path, name] : files)
    if (!path.empty()) names.emplace_back(name);
  if (!names.empty()) fmt::print("a dry run writes no files: {} left out\n", fmt::join(names, ", "));
}

void require_distinct_files(const TrainOptions& options) {
  std::vector<NamedFile> outputs = files_of_run(options.out);
  if (!options.checkpoint.empty())
    outputs.push_back({"what --checkpoint writes", options.checkpoint / kWeightsName});
  const bool as_result = !options.out.empty() && are_one_file(options.json, options.out / kResultFile);
  if (!as_result) outputs.push_back({"--json", options.json});  // train.json has the same text
  outputs.push_back({"--trace", options.trace});
  require_distinct({{"the data to train on", options.data}}, outputs);
}

void train(const TrainableModel& model, TrainOptions options) {
  require_distinct_files(options);
  keep_standard_output_for({options.json});
  require(options.trace != "-", ErrorCode::kInvalidArgument, "--trace",
          "a trace is written to a file; expected its name, got '-'");
  require(!options.exact_sums || options.precision != Precision::kMixedFp8, ErrorCode::kUnsupported,
          "--exact-sums",
          "is for f32, mixed_bf16 and mixed_f16; in mixed_fp8 the scale factors are computed from the "
          "tensors of one step, so the bits depend on how an update is divided into steps");
  std::optional<observe::Worker> twin;
  const bool alone =
      options.resume || options.dry_run || !options.device.is_cpu() || comm::world()->size() > 1;
  if (options.beside_twin.value_or(options.require_flat && !alone)) {
    twin.emplace([&](observe::Turns& turns) { return train_as_twin(model, options, turns); });
    options.twin = &*twin;
  }
  std::vector<std::shared_ptr<FolderLock>> locks;  // created after the fork, or the child would hold them too
  const bool first = comm::world()->rank() == 0;
  if (!first) keep_quiet(options);
  if (!options.dry_run && first) {
    make_folder(options.tensorboard);  // its files have the process id in their names
    locks = make_own_folders({options.out, options.graphs, options.checkpoint});
    require_folder_of(options.json);  // its folder may be one of the folders above
    require_folder_of(options.trace);
    for (const NamedFile& file : files_of_run(options.out)) require_folder_of(file.path);
    if (!options.checkpoint.empty()) require_folder_of(options.checkpoint / kWeightsName);
    require_fresh_or_resumed(options);
  }
  if (options.dry_run && first) tell_unwritten(options);
  const std::unique_ptr<comm::Watchdog> watchdog = watch_ranks(options);
  try {
    model.train(options);
  } catch (const DryRunDone&) {
  }
}

std::vector<std::string> models_with_batch_norm() {
  std::vector<std::string> names;
  for (const TrainableModel& model : trainable_models())
    if (model.batch_norm) names.push_back(model.name);
  return names;
}

void run(const TrainOptions& options) {
  std::string names;
  for (const TrainableModel& model : trainable_models()) {
    if (model.name != options.model) {
      names += (names.empty() ? "" : ", ") + model.name;
      continue;
    }
    require(!options.sync_batch_norm || model.batch_norm, ErrorCode::kInvalidArgument, "train",
            "--sync-batch-norm is for models with batch normalization, which are {}, not {}; leave it out",
            fmt::join(models_with_batch_norm(), " and "), options.model);
    require_precision(options.precision, options.device);
    require_ranks(options);
    open_device(options);
    comm::join(patience_of(options));
    require(comm::world()->size() == 1 || !options.beside_twin.value_or(false), ErrorCode::kUnsupported,
            "train", "--beside-twin judges one process, but {} ranks were started; leave it out",
            comm::world()->size());
    if (options.threads > 0) set_compute_threads(options.threads);
    ops::set_deterministic(options.deterministic);
    train(model, options);
    return;
  }
  fail(ErrorCode::kInvalidArgument, "train", "no model '{}'; models are {}", options.model, names);
}

}  // namespace

const std::vector<TrainableModel>& trainable_models() {
  static const std::vector<TrainableModel> list = [] {
    std::vector<TrainableModel> all;
    for (auto* family : {image_models, forecast_models, text_models, random_models}) {
      for (TrainableModel& model : family()) all.push_back(std::move(model));
    }
    return all;
  }();
  return list;
}

namespace {

/// Model, data, optimizer.
void add_model_options(CLI::App& command, TrainOptions& options) {
  std::string models = "one of";
  for (const TrainableModel& model : trainable_models())
    models += fmt::format("\n  {}: {}", model.name, model.what);
  command.add_option("model", options.model, models)->required();
  command.add_option(
      "--data", options.data,
      "data to train on instead of the shipped data: for images a CSV like digits.csv.gz or the folder with "
      "CIFAR-10's binary files, for forecasters a CSV like co2_weekly.csv, for gpt a text file or a folder "
      "of text files");
  command.add_option("--epochs", options.epochs, "number of epochs; default: depends on the model")
      ->check(whole_number(1, INT32_MAX));
  command
      .add_option("--steps", options.steps,
                  "batches per epoch, of all ranks together (with several ranks, rounded up to whole "
                  "updates); default: one pass over the data, or depends on the model")
      ->check(whole_number(1));
  command.add_option("--batch", options.batch, "batch size, in rows; default: depends on the model")
      ->check(whole_number(1));
  std::vector<std::string> optimizers;
  for (const NamedOptimizer& optimizer : named_optimizers()) optimizers.push_back(optimizer.name);
  command
      .add_option("--optimizer", options.optimizer,
                  fmt::format("{}; default: depends on the model", fmt::join(optimizers, ", ")))
      ->check(CLI::IsMember(optimizers));
  command
      .add_option("--learning-rate", options.learning_rate,
                  "the peak learning rate; default: depends on the model, or on the optimizer if "
                  "--optimizer is given")
      ->check(positive_number());
  command
      .add_option("--clip-norm", options.clip_norm,
                  "largest norm of all gradients of an update together; larger gradients are scaled down to "
                  "it; default: no clipping")
      ->check(positive_number());
  command
      .add_option("--early-stopping", options.early_stopping,
                  "end the training after this many epochs without a better validation loss; default: all "
                  "epochs are trained")
      ->check(whole_number(1, INT32_MAX));
  command
      .add_option("--accumulate", options.accumulate,
                  "batches per update, on every rank where there are several: their gradients are summed, "
                  "weighted by rows")
      ->check(whole_number(1, INT32_MAX));
}

void add_rank_options(CLI::App& command, TrainOptions& options) {
  command.add_flag(
      "--exact-sums", options.exact_sums,
      "sum the gradients of an update in a fixed binary tree over its batches: the weights are then bitwise "
      "equal however the batches are split over steps (--accumulate, which must be a power of two) and ranks "
      "(mpirun); kernels may still differ between runs, so add --deterministic; not in mixed_fp8");
  command.add_flag(
      "--sync-batch-norm", options.sync_batch_norm,
      "synchronized batch norm: compute mean and variance over the batches of all ranks together; an epoch "
      "is then rounded up to whole updates, as with --steps; for resnet20 and resnet50");
  command
      .add_option("--bucket", options.bucket_bytes,
                  "size of the buckets in which gradients are exchanged between ranks, such as 64KiB (the "
                  "last bucket may be smaller); default: 1MiB")
      ->transform(CLI::AsSizeValue(true))
      ->check(whole_number(1));
  command
      .add_option(
          "--patience", options.patience_seconds,
          "seconds that a rank waits in one collective, or while MPI starts or ends, before it reports on "
          "standard error which rank it waits for, and what that rank is doing; default: 60")
      ->check(positive_number());
  command
      .add_option("--patience-end", options.patience_end_seconds,
                  "seconds that a rank waits in one collective, or while MPI starts or ends, before the run "
                  "ends with exit status 6; default: never")
      ->check(positive_number());
}

void add_run_options(CLI::App& command, TrainOptions& options) {
  command.add_flag("--dry-run", options.dry_run,
                   "print how much memory the training takes with SGD, RMSprop and Adam, and exit");
  command.add_option("--seed", options.seed, "seed of weights, data order and dropout")
      ->check(whole_number(0))
      ->capture_default_str();
  command.add_option("--threads", options.threads, "compute threads")
      ->check(whole_number(1, kMaxComputeThreads));
  command.add_flag("--deterministic", options.deterministic,
                   "choose kernels by rule, not by timing, so that equal runs give bitwise equal results");
  add_precision_option(command, options.precision);
  add_device_option(command, options.device, "device to train on (docs/gpu.md)");
  command
      .add_option("--memory-limit", options.memory_limit,
                  "the most device memory that tensors may take, such as 512MB or 2GiB, rounded down to a "
                  "multiple of what the device allocates at once (2 MiB); default: all of it")
      ->transform(CLI::AsSizeValue(true))
      ->transform(CLI::Validator(  // the last transform runs first
          [](const std::string& text) {
            return text.starts_with('-') ? "expected a number of bytes, got " + text : std::string();
          },
          "SIZE"));
}

/// Returns --beside-twin.
CLI::Option* add_verdict_options(CLI::App& command, TrainOptions& options) {
  command.add_flag("--require-flat", options.require_flat,
                   "exit with 1 unless the time of a step is found to be flat over the run");
  CLI::Option* const beside_twin = command.add_flag_function(
      "--beside-twin,!--no-beside-twin", [&options](int64_t count) { options.beside_twin = count > 0; },
      "judge the time of a step against a second process that runs the same training: the two alternate "
      "before and after the run, and the second is paused in between, so that changes of the machine's speed "
      "cancel out; takes some seconds and twice the memory; default with --require-flat if the number of "
      "steps is known and the run isn't resumed");
  command.add_flag("--enforce-sealed", options.enforce_sealed,
                   "fail with a stack trace as soon as a step after warm-up creates something: an "
                   "allocation, tensor, graph node, plan, thread or file handle");
  command
      .add_option(
          "--memory-at", options.memory_at,
          "steps, counted over all epochs, after which memory is recorded: by tag, live objects, and the "
          "resident set by owner; it is also recorded after warm-up and at the end; default with --out or "
          "--json: 1,000 and each larger power of ten")
      ->delimiter(',')
      ->check(whole_number(1));
  return beside_twin;
}

void add_checkpoint_options(CLI::App& command, TrainOptions& options, CLI::Option* beside_twin) {
  CLI::Option* checkpoint = command.add_option(
      "--checkpoint", options.checkpoint,
      "folder for checkpoints, which are saved after every epoch and when SIGINT, SIGTERM or SIGHUP stops "
      "the run; the newest three are kept; the trained weights are saved there as weights.safetensors");
  command.add_option("--checkpoint-epochs", options.checkpoint_epochs, "epochs between checkpoints")
      ->check(whole_number(1, INT32_MAX))
      ->capture_default_str()
      ->needs(checkpoint);
  command.add_option("--checkpoint-every", options.checkpoint_every, "steps between additional checkpoints")
      ->check(whole_number(1))
      ->needs(checkpoint);
  CLI::Option* weights_only =
      command
          .add_flag("--weights-only", options.weights_only,
                    "checkpoints contain the weights only, for load_weights: they are smaller, but a run "
                    "can't be resumed from them")
          ->needs(checkpoint);
  command
      .add_option("--checkpoint-name", options.checkpoint_name,
                  "template of the checkpoints' names, with epoch, step, total_steps and results such as "
                  "loss and val_loss; default: cp-{epoch:04d}-{total_steps:08d}, with --weights-only and "
                  "without --checkpoint-every cp-{epoch:04d}")
      ->needs(checkpoint);
  command
      .add_option("--keep-checkpoints", options.keep_checkpoints,
                  "number of newest checkpoints to keep, 0 for all; default: 3, or all with --weights-only")
      ->check(whole_number(0, INT32_MAX))
      ->needs(checkpoint);
  command
      .add_flag(
          "--resume", options.resume,
          "continue from the newest undamaged checkpoint in the folder, as if the run had never stopped; if "
          "there is none, start from the beginning")
      ->needs(checkpoint)
      ->excludes(beside_twin)
      ->excludes(weights_only);
}

void add_output_options(CLI::App& command, TrainOptions& options) {
  command.add_option("--json", options.json, "file for settings, epochs, test results and report");
  command.add_option("--out", options.out,
                     "folder for report.html, run.json (for `isochron report`), train.json, history.csv, "
                     "windows.csv, kernels.json and plan.svg, and live.json (for `isochron watch`)");
  CLI::Option* tensorboard = command.add_option(
      "--tensorboard", options.tensorboard,
      "folder for TensorBoard's event files: losses and metrics of training and validation, memory, the "
      "graph, and, after every epoch, histograms of weights and step times");
  command
      .add_flag("--gradient-histograms", options.gradient_histograms,
                "also write histograms of the gradients of the last step of every epoch; keeps the "
                "gradients in memory")
      ->needs(tensorboard);
  CLI::Option* trace = command.add_option(
      "--trace", options.trace,
      "file for a trace of some steps, for ui.perfetto.dev or chrome://tracing: kernels, phases, threads, "
      "queue, memory");
  command
      .add_option("--trace-steps", options.trace_steps,
                  "which steps of this process to trace: FROM:TO, or the first N; default: steps 3 to 34")
      ->check(step_range())
      ->needs(trace);
  command.add_option(
      "--graphs", options.graphs,
      "folder for the graphs of all captured functions at every stage from trace to plan, for Graphviz and "
      "TensorBoard");
}

}  // namespace

void add_train(CLI::App& app) {
  auto options = std::make_shared<TrainOptions>();
  CLI::App* command = app.add_subcommand("train", "train a bundled model");
  add_model_options(*command, *options);
  add_rank_options(*command, *options);
  add_run_options(*command, *options);
  CLI::Option* beside_twin = add_verdict_options(*command, *options);
  add_output_options(*command, *options);
  add_checkpoint_options(*command, *options, beside_twin);
  command->callback([options] { run(*options); });
}

}  // namespace isochron::apps
