#include "isochron/train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include "isochron/core/clock.h"
#include "isochron/observe/report.h"

namespace isochron::train {

std::string epoch_line(const RunState& run, const EpochRecord& record) {
  return fmt::format("Epoch {}/{}  {}  {}  step p50 {}", record.epoch, run.epochs, record.results.str(),
                     observe::duration_text(record.seconds * 1e9),
                     observe::duration_text(record.step_p50_ns));
}

Progress::Progress(std::FILE* file)
    : file_(file), terminal_(file != nullptr && isatty(fileno(file)) == 1), shown_ns_(now_ns()) {}

Progress::~Progress() {
  if (!open_) return;
  std::fputc('\n', file_);
  std::fflush(file_);
}

bool Progress::due() const { return terminal_ && now_ns() - shown_ns_ >= kIntervalNs; }

void Progress::update(const RunState& run, const Results& results) {
  rewrite(fmt::format("Epoch {}/{}  {}/{}  {}", run.epoch, run.epochs, run.step, run.steps_per_epoch,
                      results.str()));
  shown_ns_ = now_ns();
}

void Progress::finish(const RunState& run, const EpochRecord& record) {
  if (file_ == nullptr) return;
  rewrite(epoch_line(run, record));
  std::fputc('\n', file_);
  std::fflush(file_);
  open_ = false;
}

void Progress::note(const std::string& text) {
  if (file_ != nullptr) fmt::print(file_, "{}\n", text);
}

void Progress::rewrite(const std::string& text) {
  if (terminal_) std::fputs("\r\033[K", file_);
  std::fputs(text.c_str(), file_);
  std::fflush(file_);
  open_ = true;
}

}  // namespace isochron::train
