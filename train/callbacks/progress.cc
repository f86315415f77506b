#include "isochron/train/callbacks/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "isochron/core/base/clock.h"
#include "isochron/core/process/standard_streams.h"
#include "isochron/observe/diagnose/report.h"

namespace isochron::train {

std::string epoch_line(const RunState& run, const EpochRecord& record) {
  return fmt::format("Epoch {}/{}  {}  {}  step p50 {}", record.epoch, run.epochs, record.results.str(),
                     observe::duration_text(record.seconds * 1e9),
                     observe::duration_text(record.step_p50_ns));
}

double RecentSteps::quantile_ns(double fraction) const {
  if (size() == 0) return 0;
  std::vector<int64_t> durations;
  for (size_t i = 0; i < size(); ++i) durations.push_back(steps_[i].duration_ns);
  const double rank = std::ceil(fraction * static_cast<double>(size()));
  const auto at =
      durations.begin() + std::clamp<int64_t>(static_cast<int64_t>(rank) - 1, 0, std::ssize(durations) - 1);
  std::nth_element(durations.begin(), at, durations.end());
  return static_cast<double>(*at);
}

double RecentSteps::mean_ns() const {
  double total = 0;
  for (size_t i = 0; i < size(); ++i) total += static_cast<double>(steps_[i].duration_ns);
  return size() == 0 ? 0 : total / static_cast<double>(size());
}

double RecentSteps::wait_share() const {
  double total = 0, wait = 0;
  for (size_t i = 0; i < size(); ++i) {
    total += static_cast<double>(steps_[i].duration_ns);
    wait += static_cast<double>(steps_[i].wait_ns);
  }
  return total == 0 ? 0 : wait / total;
}

std::string pace_text(const RunState& run, const RecentSteps& steps, int64_t samples_per_step) {
  const double mean_ns = std::max(steps.mean_ns(), 1.0);
  std::string text = fmt::format(
      "step p50 {} p95 {}  {:.3g} samples/s  data wait {:.0f} %",
      observe::duration_text(steps.quantile_ns(0.5)), observe::duration_text(steps.quantile_ns(0.95)),
      static_cast<double>(samples_per_step) / mean_ns * 1e9, 100 * steps.wait_share());
  if (run.steps_per_epoch <= 0) return text;
  const int64_t left = int64_t{run.epochs - run.epoch} * run.steps_per_epoch + run.steps_per_epoch - run.step;
  const auto seconds = static_cast<int64_t>(std::ceil(static_cast<double>(left) * mean_ns * 1e-9));
  return text + fmt::format("  ETA {:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

Progress::Progress(std::FILE* file, bool epochs, int64_t samples_per_step)
    : file_(file),
      epochs_(file != nullptr && epochs),
      samples_per_step_(samples_per_step),
      terminal_(file != nullptr && is_terminal(file)),
      shown_ns_(now_ns()) {}

Progress::~Progress() {
  if (!open_) return;
  std::fputc('\n', file_);
  std::fflush(file_);
}

bool Progress::due() const {
  return epochs_ && now_ns() - shown_ns_ >= (terminal_ ? kTerminalIntervalNs : kPlainIntervalNs);
}

void Progress::update(const RunState& run, const Results& results) {
  const std::string of = run.steps_per_epoch > 0 ? fmt::format("/{}", run.steps_per_epoch) : "";
  const std::string text = fmt::format("Epoch {}/{}  {}{}  {}  {}", run.epoch, run.epochs, run.step, of,
                                       results.str(), pace_text(run, recent_, samples_per_step_));
  rewrite(terminal_ ? row_of(file_, text) : text);
  shown_ns_ = now_ns();
  if (terminal_) return;
  std::fputc('\n', file_);
  std::fflush(file_);
  open_ = false;
}

void Progress::finish(const RunState& run, const EpochRecord& record) {
  if (!epochs_) return;
  rewrite(epoch_line(run, record));
  std::fputc('\n', file_);
  std::fflush(file_);
  open_ = false;
  shown_ns_ = now_ns();
}

void Progress::note(const std::string& text) {
  if (file_ == nullptr) return;
  fmt::print(file_, "{}{}\n", open_ ? "\n" : "", text);
  std::fflush(file_);
  open_ = false;
}

void Progress::rewrite(std::string_view text) {
  if (terminal_) write_terminal_command(file_, "\r\033[K");
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
  open_ = true;
}

}  // namespace isochron::train
