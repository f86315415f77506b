#include "isochron/train/loop/history_log.h"

#include <algorithm>

#include "isochron/core/process/reserve_resident.h"
#include "isochron/train/callbacks/run_document.h"

namespace isochron::train {

void HistoryLog::add(const EpochRecord& record) {
  append_history(text_, record);
  if (history_.epochs().empty()) {
    const size_t epochs = std::min(static_cast<size_t>(epochs_), History::kMaxEpochs);
    history_.reserve(epochs);
    reserve_resident(text_, epochs * (text_.size() * 5 / 4));
  }
  if (history_.epochs().size() == History::kMaxEpochs) {
    std::string oldest;
    append_history(oldest, history_.epochs().front());
    text_.erase(0, oldest.size());
  }
  history_.add(record);
}

}  // namespace isochron::train
