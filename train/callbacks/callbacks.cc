#include "isochron/train/callbacks/callbacks.h"

#include <fmt/ranges.h>
#include <stdio_ext.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ranges>

#include "isochron/core/base/error.h"
#include "isochron/core/text/encoding.h"
#include "isochron/graph/capture/apply.h"
#include "isochron/train/callbacks/state_text.h"

namespace isochron::train {

using std::string_view_literals::operator""sv;

Mode resolved_mode(Mode mode, std::string_view monitor, std::string_view where) {
  constexpr std::array kSmaller = {"loss"sv, "error"sv,      "mae"sv,    "mse"sv,        "rmse"sv,
                                   "mape"sv, "msle"sv,       "nll"sv,    "perplexity"sv, "wer"sv,
                                   "cer"sv,  "divergence"sv, "entropy"sv};
  constexpr std::array kLarger = {"acc"sv,  "accuracy"sv,   "auc"sv,        "precision"sv, "recall"sv,
                                  "f1"sv,   "r2"sv,         "iou"sv,        "dice"sv,      "score"sv,
                                  "bleu"sv, "similarity"sv, "correlation"sv};
  if (mode != Mode::kAuto) return mode;
  bool smaller = false, larger = false;
  const std::string lower = in_lower_case(monitor);
  for (const auto word : std::views::split(lower, '_')) {
    const std::string_view text(word.begin(), word.end());
    smaller = smaller || std::ranges::find(kSmaller, text) != kSmaller.end();
    larger = larger || std::ranges::find(kLarger, text) != kLarger.end();
  }
  require(smaller != larger, ErrorCode::kInvalidArgument, where,
          "the name '{}' doesn't tell whether smaller or larger is better; set mode to Mode::kMin or "
          "Mode::kMax",
          monitor);
  return larger ? Mode::kMax : Mode::kMin;
}

bool Best::improves(double value, double reference) const {
  if (std::isnan(value)) return false;
  if (std::isnan(reference)) return true;
  return mode_ == Mode::kMin ? value < reference - min_delta_ : value > reference + min_delta_;
}

bool Best::improves(double value) const {
  return !std::isnan(value) && (!value_ || improves(value, *value_));
}

void require_measured(const RunState& run, const std::string& monitor, std::string_view where) {
  require(std::find(run.names.begin(), run.names.end(), monitor) != run.names.end(),
          ErrorCode::kInvalidArgument, where, "there is no result '{}'; results are {}{}", monitor,
          fmt::join(run.names, ", "),
          monitor.starts_with("val_") ? "; fit needs validation_data for it" : "");
}

EarlyStopping::EarlyStopping(EarlyStoppingOptions options)
    : options_(std::move(options)),
      best_(options_.mode = resolved_mode(options_.mode, options_.monitor, "early_stopping"),
            options_.min_delta) {
  require(std::isfinite(options_.min_delta) && options_.min_delta >= 0, ErrorCode::kInvalidArgument,
          "early_stopping", "min_delta must be finite and >= 0, got {}", options_.min_delta);
  require(options_.patience >= 0, ErrorCode::kInvalidArgument, "early_stopping",
          "patience must be >= 0, got {}", options_.patience);
}

void EarlyStopping::on_train_begin(RunState& run) {
  require_measured(run, options_.monitor, "early_stopping");
  best_ = Best(options_.mode, options_.min_delta);
  best_epoch_ = 0;
  waited_ = 0;
  kept_.clear();
  if (options_.restore_best == nullptr) return;
  for (const auto& [name, variable] : weights_of(*options_.restore_best)) {
    kept_.push_back({name, variable, Variable(variable.tensor(), name, false)});
  }
}

void EarlyStopping::on_epoch_end(RunState& run, const Results& results) {
  const double* value = results.find(options_.monitor);
  if (value == nullptr || run.epoch < options_.start_from_epoch) return;
  ++waited_;
  if (best_.improves(*value)) {
    best_.set(*value);
    best_epoch_ = run.epoch;
    if (!kept_.empty()) run.with_weights_of(options_.monitor, [this] { keep(); });
    if (!options_.baseline || best_.improves(*value, *options_.baseline)) waited_ = 0;
    return;
  }
  if (waited_ < options_.patience) return;
  run.stop(best_epoch_ == 0 ? fmt::format("{} is not a number", options_.monitor)
                            : fmt::format("{} has not improved since epoch {} ({:.4g})", options_.monitor,
                                          best_epoch_, *best_.value()));
}

void EarlyStopping::keep() const {
  for (const Kept& kept : kept_) kept.best.assign(kept.variable.tensor());
}

void EarlyStopping::on_train_end(RunState& run) {
  if (best_epoch_ == 0 || run.interrupted) return;
  for (const Kept& kept : kept_) kept.variable.assign(kept.best.tensor());
  run.best_restored = !kept_.empty();
}

std::string EarlyStopping::settings() const {
  const EarlyStoppingOptions& o = options_;
  return fmt::format("{} {}, least change {:.17g}, patience {}, baseline {}, from epoch {}, restores {}",
                     o.mode == Mode::kMax ? "the largest" : "the least", o.monitor, o.min_delta, o.patience,
                     o.baseline ? fmt::format("{:.17g}", *o.baseline) : "none", o.start_from_epoch,
                     o.restore_best != nullptr);
}

std::string EarlyStopping::state() const {
  return StateText().add(best_.value()).add(best_epoch_).add(waited_).str();
}

void EarlyStopping::restore(const RunState&, const std::string& state) {
  StateReader reader(state, kind());
  if (const std::optional<double> best = reader.optional()) best_.set(*best);
  best_epoch_ = static_cast<int>(reader.whole());
  waited_ = static_cast<int>(reader.whole());
  reader.end();
}

NamedVariables EarlyStopping::variables() const {
  NamedVariables result;
  for (const Kept& kept : kept_) result.emplace_back(kept.name, kept.best);
  return result;
}

ReduceLearningRateOnPlateau::ReduceLearningRateOnPlateau(optim::Optimizer& optimizer,
                                                         ReduceLearningRateOnPlateauOptions options)
    : optimizer_(optimizer),
      options_(std::move(options)),
      best_(options_.mode = resolved_mode(options_.mode, options_.monitor, kind()), options_.min_delta) {
  require(options_.factor > 0 && options_.factor < 1, ErrorCode::kInvalidArgument, kind(),
          "factor must lie in (0, 1), got {}", options_.factor);
  require(options_.patience >= 0 && options_.cooldown >= 0, ErrorCode::kInvalidArgument, kind(),
          "patience and cooldown must be >= 0, got {} and {}", options_.patience, options_.cooldown);
  require(std::isfinite(options_.min_delta) && options_.min_delta >= 0 &&
              std::isfinite(options_.min_learning_rate) && options_.min_learning_rate >= 0,
          ErrorCode::kInvalidArgument, kind(),
          "min_delta and min_learning_rate must be finite and >= 0, got {} and {}", options_.min_delta,
          options_.min_learning_rate);
}

void ReduceLearningRateOnPlateau::on_train_begin(RunState& run) {
  require_measured(run, options_.monitor, kind());
  optimizer_.set_learning_rate(optimizer_.learning_rate());  // fails now, not hours later, if scheduled
  best_ = Best(options_.mode, options_.min_delta);
  waited_ = cooling_ = 0;
}

void ReduceLearningRateOnPlateau::on_epoch_end(RunState&, const Results& results) {
  const double* value = results.find(options_.monitor);
  if (value == nullptr) return;
  if (cooling_ > 0) {
    --cooling_;
    waited_ = 0;
  }
  if (best_.improves(*value)) {
    best_.set(*value);
    waited_ = 0;
  } else if (cooling_ == 0 && ++waited_ >= options_.patience) {
    const double rate = optimizer_.learning_rate();
    if (rate <= options_.min_learning_rate) return;
    optimizer_.set_learning_rate(std::max(rate * options_.factor, options_.min_learning_rate));
    cooling_ = options_.cooldown;
    waited_ = 0;
  }
}

std::string ReduceLearningRateOnPlateau::settings() const {
  const ReduceLearningRateOnPlateauOptions& o = options_;
  return fmt::format(
      "{} {}, least change {:.17g}, factor {:.17g}, patience {}, cooldown {}, at least {:.17g}",
      o.mode == Mode::kMax ? "the largest" : "the least", o.monitor, o.min_delta, o.factor, o.patience,
      o.cooldown, o.min_learning_rate);
}

std::string ReduceLearningRateOnPlateau::state() const {
  return StateText().add(best_.value()).add(waited_).add(cooling_).str();
}

void ReduceLearningRateOnPlateau::restore(const RunState&, const std::string& state) {
  StateReader reader(state, kind());
  if (const std::optional<double> best = reader.optional()) best_.set(*best);
  waited_ = static_cast<int>(reader.whole());
  cooling_ = static_cast<int>(reader.whole());
  reader.end();
}

SwapWeights::SwapWeights(optim::Optimizer& optimizer, bool keep_at_end)
    : averages_(std::make_shared<std::optional<optim::AveragedWeights>>()),
      swap_([&optimizer, averages = averages_] {
        if (*averages) {
          averages->reset();
        } else {
          averages->emplace(optimizer);
        }
      }),
      keep_at_end_(keep_at_end) {}

void LearningRateScheduler::on_epoch_begin(RunState& run) {
  optimizer_.set_learning_rate(schedule_(run.epoch, optimizer_.learning_rate()));
}

bool TerminateOnNaN::on_not_a_number(RunState& run, int64_t /*step*/) {
  run.stop(run.not_finite);
  return true;
}

namespace {

[[noreturn]] void fail_errno(const std::filesystem::path& path, std::string_view action) {
  fail(ErrorCode::kIo, path.string(), "cannot {}: {}", action, std::strerror(errno));
}

/// The first line of the file, without its end; empty when there is none.
std::string first_line(std::FILE* file) {
  std::string line;
  for (int c = std::fgetc(file); c != EOF && c != '\n' && line.size() < 65536; c = std::fgetc(file)) {
    line += static_cast<char>(c);
  }
  return line;
}

/// Where the last whole line of the first `bytes` ends.
int64_t end_of_lines(std::FILE* file, int64_t bytes) {
  for (int64_t end = bytes; end > 0; --end) {
    if (std::fseek(file, end - 1, SEEK_SET) != 0) return 0;
    if (std::fgetc(file) == '\n') return end;
  }
  return 0;
}

}  // namespace

void CsvLogger::check_header() {
  std::rewind(file_.get());
  const std::string found = first_line(file_.get());
  require(found.empty() || found == header_, ErrorCode::kInvalidArgument, filename_.string(),
          "its header is '{}', but this run's is '{}'; use another file", found.substr(0, 200), header_);
}

void CsvLogger::on_train_begin(RunState& run) {
  names_ = run.names;
  resumed_at_.reset();
  header_ =
      fmt::format("epoch{0}{1}", options_.separator, fmt::join(names_, std::string(1, options_.separator)));
  fresh_ = !options_.append;
  std::error_code failed;  // opening the file reports the error
  if (filename_.has_parent_path()) std::filesystem::create_directories(filename_.parent_path(), failed);
  file_.reset(std::fopen(filename_.c_str(), options_.append ? "a+" : "r+"));
  if (!file_ && !options_.append && errno == ENOENT) file_.reset(std::fopen(filename_.c_str(), "w+"));
  if (!file_) fail_errno(filename_, "open");
  if (!options_.append) return;
  check_header();
  std::fseek(file_.get(), 0, SEEK_END);
  const int64_t bytes = std::ftell(file_.get());
  if (bytes == 0) return write(header_);
  // An incomplete line, left by a power failure, would change the first number of the next row.
  const int64_t whole = end_of_lines(file_.get(), bytes);
  if (whole < bytes && ::ftruncate(::fileno(file_.get()), whole) != 0) fail_errno(filename_, "truncate");
  std::fseek(file_.get(), 0, SEEK_END);
  if (whole == 0) write(header_);
}

void CsvLogger::open() {
  if (resumed_at_) {
    if (::ftruncate(::fileno(file_.get()), *resumed_at_) != 0) fail_errno(filename_, "truncate");
    std::fseek(file_.get(), 0, SEEK_END);
    resumed_at_.reset();
  }
  if (!fresh_) return;
  fresh_ = false;
  if (::ftruncate(::fileno(file_.get()), 0) != 0) fail_errno(filename_, "truncate");
  std::rewind(file_.get());
  write(header_);
}

void CsvLogger::write(const std::string& line) {
  const long before = std::ftell(file_.get());
  const std::string row = line + "\n";
  if (std::fwrite(row.data(), 1, row.size(), file_.get()) == row.size() && std::fflush(file_.get()) == 0)
    return;
  const int error = errno;
  // An incomplete line could be read as a truncated number.
  ::__fpurge(file_.get());
  const bool cut = before >= 0 && ::ftruncate(::fileno(file_.get()), before) == 0 &&
                   std::fseek(file_.get(), before, SEEK_SET) == 0;
  errno = error;
  fail_errno(filename_, cut ? "write" : "write, or remove a half-written line");
}

void CsvLogger::on_epoch_end(RunState& run, const Results& results) {
  open();
  std::string line = fmt::format("{}", run.epoch);
  for (const std::string& name : names_) {
    const double* value = results.find(name);
    line += options_.separator;
    if (value != nullptr) line += fmt::format("{}", *value);
  }
  write(line);
}

void CsvLogger::on_train_end(RunState&) {
  if (!file_) return;
  open();
  file_.reset();
}

std::string CsvLogger::state() const {
  if (resumed_at_) return StateText().add(*resumed_at_).str();
  return StateText().add(fresh_ ? int64_t{0} : static_cast<int64_t>(std::ftell(file_.get()))).str();
}

void CsvLogger::restore(const RunState&, const std::string& state) {
  StateReader reader(state, kind());
  const int64_t length = reader.whole();
  reader.end();
  if (length == 0) return;
  struct stat info {};
  // A file that was lost since is started again; one that was truncated continues after its last complete
  // line.
  if (::fstat(::fileno(file_.get()), &info) != 0) return;
  const int64_t kept = info.st_size < length ? end_of_lines(file_.get(), info.st_size) : length;
  if (kept == 0) return;
  check_header();
  fresh_ = false;
  resumed_at_ = kept;
}

}  // namespace isochron::train
