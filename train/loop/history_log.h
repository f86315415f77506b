// The history of a fit, and its text for checkpoints, which grows with it.
#pragma once

#include <string>

#include "isochron/train/callbacks/results.h"

namespace isochron::train {

class HistoryLog {
 public:
  /// `epochs`: how many records there will be; room for them is made with the first.
  explicit HistoryLog(int epochs) : epochs_(epochs) {}

  void add(const EpochRecord& record);
  /// Of all its records, see append_history.
  const std::string& text() const { return text_; }
  History take() { return std::move(history_); }

 private:
  int epochs_;
  History history_;
  std::string text_;
};

}  // namespace isochron::train
