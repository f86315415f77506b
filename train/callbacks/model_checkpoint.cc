#include "isochron/train/callbacks/model_checkpoint.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "isochron/core/base/clock.h"
#include "isochron/core/telemetry/event.h"
#include "isochron/train/callbacks/checkpoint_folder.h"
#include "isochron/train/callbacks/state_text.h"

namespace isochron::train {
namespace {

ModelCheckpointOptions checked(ModelCheckpointOptions options) {
  const auto check = [](bool good, std::string_view text) {
    require(good, ErrorCode::kInvalidArgument, "model_checkpoint", "{}", text);
  };
  check(!options.filepath.filename().empty(), "filepath must name files, such as runs/cp-{epoch:04d}");
  check(options.filepath.parent_path().string().find('{') == std::string::npos,
        "the folder of filepath must not be a template");
  check(options.every_epochs >= 0 && options.every_steps >= 0 && options.every_minutes >= 0 &&
            std::isfinite(options.every_minutes),
        "every_epochs, every_steps and every_minutes must be >= 0");
  check(options.keep_last >= 0 && options.save_top_k >= 0, "keep_last and save_top_k must be >= 0");
  check(!(options.save_best_only && options.save_top_k > 0),
        "save_best_only and save_top_k exclude each other; save_top_k = 1 keeps the one best file");
  check(!(options.keep_last > 0 && options.save_top_k > 0), "keep_last and save_top_k exclude each other");
  check(!options.save_weights_only || !options.resume, "a run can't be resumed from weights alone");
  const bool monitors = options.save_best_only || options.save_top_k > 0;
  options.mode = monitors ? resolved_mode(options.mode, options.monitor, "model_checkpoint") : Mode::kMin;
  return options;
}

}  // namespace

ModelCheckpoint::ModelCheckpoint(ModelCheckpointOptions options)
    : options_(checked(std::move(options))),
      folder_(options_.filepath.has_parent_path() ? options_.filepath.parent_path() : "."),
      best_(options_.mode) {
  if (options_.initial_value_threshold) best_.set(*options_.initial_value_threshold);
}

ModelCheckpoint::~ModelCheckpoint() = default;

std::filesystem::path ModelCheckpoint::resume_from() {
  if (!options_.resume) return {};
  const std::optional<FoundCheckpoint> found = newest_checkpoint(folder_);
  return found ? found->path : std::filesystem::path();
}

/// Checkpoints of two runs in one folder would be mistaken for those of one run.
void ModelCheckpoint::require_fresh_folder(const RunState& run) const {
  const bool continues = options_.resume || began_ || run.resumes;
  const bool one_file = options_.filepath.filename().string().find('{') == std::string::npos;  // replaced
  if (continues || one_file || options_.save_weights_only) return;
  const std::optional<FoundCheckpoint> found = newest_checkpoint(folder_);
  require(!found, ErrorCode::kInvalidArgument, kind(),
          "{} contains checkpoints of an earlier run (the newest is {}); continue it with .resume = true, or "
          "name another folder",
          folder_.string(), found ? found->path.filename().string() : "");
}

void ModelCheckpoint::on_train_begin(RunState& run) {
  Results zeros;
  for (const std::string& name : run.names) zeros.set(name, 0);
  static_cast<void>(checkpoint_path(options_.filepath, 1, 1, 1, zeros));
  if (options_.save_best_only || options_.save_top_k > 0) require_measured(run, options_.monitor, kind());
  require(run.ranks == 1 || options_.every_minutes == 0, ErrorCode::kUnsupported, kind(),
          "the clocks of {} ranks differ, so none can save by minutes; save by steps or epochs", run.ranks);
  std::error_code failed;
  if (run.rank == 0) std::filesystem::create_directories(folder_, failed);
  require(!failed, ErrorCode::kIo, folder_.string(), "cannot create the folder: {}", failed.message());
  static_cast<void>(run.savable->weights());  // throws when there is nothing to save
  if (run.rank == 0) require_fresh_folder(run);
  began_ = true;
  newest_ = {};
  files_.clear();
  replaced_.clear();
  next_step_ = options_.every_steps;
  next_ns_ = now_ns() + static_cast<int64_t>(options_.every_minutes * 60e9);
  writer_.reset();
  if (run.rank == 0) temporary_ = std::make_unique<RunFolder>(folder_);  // also removes what dead runs left
}

std::filesystem::path ModelCheckpoint::path_of(const RunState& run, const Results& results) const {
  // Within an epoch there are no results of the validation.
  Results all;
  for (const std::string& name : run.names) {
    const double* value = results.find(name);
    all.set(name, value != nullptr ? *value : std::nan(""));
  }
  return checkpoint_path(options_.filepath, run.epoch, run.step, run.total_steps, all);
}

bool ModelCheckpoint::due_at_epoch(RunState& run) {
  if (options_.every_epochs == 0 || run.epoch % options_.every_epochs != 0) return false;
  if (!options_.save_best_only && options_.save_top_k == 0) return true;
  const double* value = run.savable->results().find(options_.monitor);
  if (value == nullptr || std::isnan(*value)) return false;
  if (options_.save_best_only) {
    if (!best_.improves(*value)) return false;
    best_.set(*value);
  } else {
    const auto better = std::count_if(files_.begin(), files_.end(), [&](const File& file) {
      return file.value && !best_.improves(*value, *file.value);
    });
    if (better >= options_.save_top_k) return false;
  }
  saved_value_ = *value;
  return true;
}

void ModelCheckpoint::on_save(RunState& run, SavePoint point) {
  bool due = false, wait = false;
  saved_value_.reset();
  switch (point) {
    case SavePoint::kStep:
      due = due_at_step(run) || (options_.every_minutes > 0 && now_ns() >= next_ns_);
      break;
    case SavePoint::kEpoch:
      due = due_at_epoch(run);
      break;
    case SavePoint::kSignal:
      due = wait = options_.on_signal;
      break;
    case SavePoint::kException:
      due = wait = options_.on_exception;
      break;
  }
  if (!due || !run.savable->worth_saving()) return;
  if (options_.save_weights_only && saved_value_) {
    run.with_weights_of(options_.monitor, [&] { save(run, wait); });
  } else {
    save(run, wait);
  }
}

void ModelCheckpoint::save(RunState& run, bool wait) {
  if (options_.every_steps > 0) {
    next_step_ = (run.total_steps / options_.every_steps + 1) * options_.every_steps;
  }
  next_ns_ = now_ns() + static_cast<int64_t>(options_.every_minutes * 60e9);
  const std::filesystem::path path = path_of(run, run.savable->results());
  const auto has_path = [&](const File& file) { return file.path == path; };
  if ((options_.save_best_only || options_.save_top_k > 0) && !saved_value_ &&
      std::ranges::any_of(files_, [&](const File& file) { return has_path(file) && file.value; })) {
    if (run.rank > 0) return;
    emit({EventKind::kNotice, path.filename().string(),
          "contains one of the best epochs, so nothing else is saved under this name; add {total_steps} to "
          "the name"});
    return;
  }
  std::erase_if(files_, has_path);
  std::erase(replaced_, path);
  if (options_.keep_last == 0 && options_.save_top_k == 0) files_.clear();  // all stay, so no file is tracked
  files_.push_back({path, saved_value_});
  if (run.rank > 0) {  // tracks the files, as all ranks decide by them; only the first rank writes
    take_replaced();
    replaced_.clear();
    return;
  }
  const NamedVariables& variables =
      options_.save_weights_only ? run.savable->weights() : run.savable->variables();
  // The state in the document also lists the files to be removed: if the process dies before it removes
  // them, the next process does.
  std::string document = run.savable->document(options_.save_weights_only);
  if (!options_.save_weights_only) run.savable->blobs(blobs_);
  take_replaced();
  const auto saved = std::pair(path, run.total_steps);
  const bool again = std::exchange(newest_, saved) == saved;
  if (options_.asynchronous) {
    if (!writer_) {
      writer_ = std::make_unique<CheckpointWriter>(variables, temporary_->path(), [&](NamedBlobs& blobs) {
        if (!options_.save_weights_only) run.savable->blobs(blobs);
      });
    }
    writer_->save({path, std::move(document), replaced_, again}, blobs_);
    if (wait) writer_->flush();
    return;
  }
  const int64_t began_ns = now_ns();
  save_checkpoint(path, variables, document, blobs_, temporary_->path());
  remove_replaced();
  const int64_t took_ns = now_ns() - began_ns;
  stats_.saved += again ? 0 : 1;
  stats_.stall_ns += took_ns;
  stats_.write_ns += took_ns;
  stats_.longest_stall_ns = std::max(stats_.longest_stall_ns, took_ns);
  emit({EventKind::kCheckpoint, path.filename().string(), again ? kWrittenAgain : "written", 0, took_ns});
}

void ModelCheckpoint::remove_replaced() {
  for (const std::filesystem::path& old : replaced_) {
    std::error_code ignored;
    std::filesystem::remove(old, ignored);
  }
  replaced_.clear();
}

void ModelCheckpoint::take_replaced() {
  std::erase_if(replaced_, [](const std::filesystem::path& path) {
    std::error_code ignored;
    return !std::filesystem::exists(path, ignored);
  });
  const auto take = [&](std::vector<File>::iterator file) {
    replaced_.push_back(file->path);
    files_.erase(file);
  };
  while (options_.keep_last > 0 && files_.size() > static_cast<size_t>(options_.keep_last)) {
    take(files_.begin());
  }
  const auto judged = [](const File& file) { return file.value.has_value(); };
  while (options_.save_top_k > 0 &&
         std::count_if(files_.begin(), files_.end(), judged) > options_.save_top_k) {
    const auto worst = std::min_element(files_.begin(), files_.end(), [&](const File& a, const File& b) {
      if (!a.value || !b.value) return a.value.has_value() && !b.value.has_value();
      return best_.improves(*b.value, *a.value);
    });
    take(worst);
  }
}

void ModelCheckpoint::flush() {
  if (writer_) writer_->flush();
}

void ModelCheckpoint::on_train_end(RunState& run) {
  if (run.rank > 0) return;
  flush();
  take_replaced();
  remove_replaced();
}

CheckpointWriterStats ModelCheckpoint::stats() const { return writer_ ? writer_->stats() : stats_; }

std::vector<std::filesystem::path> ModelCheckpoint::files() const {
  std::vector<std::filesystem::path> result;
  for (const File& file : files_) result.push_back(file.path);
  return result;
}

std::string ModelCheckpoint::settings() const {
  const ModelCheckpointOptions& o = options_;
  return fmt::format(
      "{}{}, every {} epochs, {} steps, {:g} minutes, on signals {}, on exceptions {}, by {}{}, best only "
      "{}, top {}",
      o.filepath.filename().string(), o.save_weights_only ? " (weights alone)" : "", o.every_epochs,
      o.every_steps, o.every_minutes, o.on_signal, o.on_exception,
      o.mode == Mode::kMax ? "the largest " : "the least ", o.monitor, o.save_best_only, o.save_top_k);
}

std::string ModelCheckpoint::state() const {
  StateText text;
  text.add(best_.value()).add(next_step_).add(files_.size()).add(replaced_.size());
  for (const File& file : files_) text.add(file.value);
  // Names may hold blanks, so each has a line.
  std::string result = text.str();
  const auto add_name = [&result](const std::filesystem::path& path) {
    result += '\n';
    result += path.filename().string();
  };
  for (const File& file : files_) add_name(file.path);
  for (const std::filesystem::path& path : replaced_) add_name(path);
  return result;
}

void ModelCheckpoint::restore(const RunState& run, const std::string& state) {
  const size_t line = std::min(state.find('\n'), state.size());
  StateReader reader(std::string_view(state).substr(0, line), kind());
  if (const std::optional<double> best = reader.optional()) best_.set(*best);
  const int64_t next = reader.whole(), kept = reader.whole(), replaced = reader.whole();
  std::vector<std::filesystem::path> paths;
  for (size_t at = line; at < state.size();) {
    const size_t end = std::min(state.find('\n', at + 1), state.size());
    // Spelled as in path_of; folder_ may be spelled differently.
    paths.push_back(options_.filepath.parent_path() /
                    std::filesystem::path(state.substr(at + 1, end - at - 1)).filename());
    at = end;
  }
  require(kept >= 0 && replaced >= 0 && kept + replaced == std::ssize(paths), ErrorCode::kBadFormat, kind(),
          "the state announces {} and {} files, but names {}", kept, replaced, paths.size());
  for (int64_t i = 0; i < kept; ++i) {
    const std::optional<double> value = reader.optional();
    std::error_code ignored;
    const std::filesystem::path& path = paths[static_cast<size_t>(i)];
    if (std::filesystem::exists(path, ignored)) files_.push_back({path, value});
  }
  replaced_.assign(paths.begin() + kept, paths.end());
  reader.end();
  if (options_.every_steps > 0) {
    next_step_ = (run.total_steps / options_.every_steps + 1) * options_.every_steps;
    // If the run resumed from another callback's save, this callback's save at the same step may still be
    // due.
    if (next > 0 && next <= run.total_steps && next % options_.every_steps == 0) next_step_ = next;
  }
}

BackupAndRestore::BackupAndRestore(std::filesystem::path backup_dir, BackupAndRestoreOptions options)
    : ModelCheckpoint({.filepath = backup_dir / "backup",
                       .every_epochs = options.save_freq > 0 ? 0 : 1,
                       .every_steps = options.save_freq,
                       .resume = true}),
      delete_(options.delete_checkpoint) {}

void BackupAndRestore::on_train_end(RunState& run) {
  ModelCheckpoint::on_train_end(run);
  if (!delete_ || run.interrupted || run.rank > 0) return;
  for (const std::filesystem::path& file : files()) {
    std::error_code ignored;
    std::filesystem::remove(file, ignored);
  }
}

}  // namespace isochron::train
